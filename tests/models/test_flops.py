import dataclasses

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.flops import decode_flop, forward_flop, train_step_flop


def test_the_base_model_on_32_sentences_of_32_tokens():
    hparams = registry.get_hparams("transformer_base_v1")
    flop = train_step_flop(hparams, BatchShape(32, 32, 32), 32_768)
    assert flop / 1e9 == pytest.approx(377.3, abs=0.05)
    twice = dataclasses.replace(hparams, r_drop_alpha=5.0)
    assert train_step_flop(twice, BatchShape(32, 32, 32), 32_768) == 2 * flop


def test_every_product_of_a_small_model_by_hand():
    hparams = dataclasses.replace(
        registry.get_hparams("transformer_base_v1"),
        hidden_size=12,
        filter_size=20,
        num_heads=2,
        attention_key_channels=8,
        attention_value_channels=6,
        num_encoder_layers=2,
        num_decoder_layers=3,
    )
    sentences, source, target, vocabulary = 5, 7, 11, 31

    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    n, m = sentences * source, sentences * target
    per_sentence = [
        product(source, 8, source) + product(source, source, 6),
        product(target, 8, target) + product(target, target, 6),
        product(target, 8, source) + product(target, source, 6),
    ]
    encoder = product(n, 12, 8 + 8 + 6) + product(n, 6, 12) + sentences * per_sentence[0]
    own = product(m, 12, 8 + 8 + 6) + product(m, 6, 12) + sentences * per_sentence[1]
    cross = product(m, 12, 8) + product(n, 12, 8 + 6) + product(m, 6, 12)
    cross += sentences * per_sentence[2]
    ffn = product(1, 12, 20) + product(1, 20, 12)
    expected = 2 * (encoder + n * ffn) + 3 * (own + cross + m * ffn) + product(m, 12, vocabulary)
    batch = BatchShape(sentences, source, target)
    assert forward_flop(hparams, batch, vocabulary) == expected
    assert train_step_flop(hparams, batch, vocabulary) == 3 * expected


def test_decoding_runs_the_encoder_once_and_the_decoder_for_each_beam():
    hparams = registry.get_hparams("transformer_base_v1")
    batch = BatchShape(32, 32, 32)
    assert decode_flop(hparams, batch, 32_768, beam_size=4) / 1e9 == pytest.approx(365.7, abs=0.05)
    one, two, three = (decode_flop(hparams, batch, 1_000, beam_size=k) for k in (1, 2, 3))
    assert three - two == two - one < one


def test_a_batch_of_tokens_has_sentences_of_one_length():
    batch = BatchShape.of_tokens(25_000, 40)
    assert (batch.sentences, batch.source_tokens, batch.target_tokens) == (625, 25_000, 25_000)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, -1)])
def test_a_batch_without_tokens_is_refused(shape):
    with pytest.raises(UserError, match="0"):
        BatchShape(*shape)

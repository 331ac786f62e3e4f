"""What a training step holds, beside what processes were measured to need."""

import pytest

from t2t_repro import get_hparams
from t2t_repro.models import activations, parameters
from t2t_repro.models.batch_shape import BatchShape

VOCABULARY = 1000
BESIDES = 867e6  # bytes of a process with the smallest of models, on a CPU
LSTM = "hidden_size=256,attention_layer_size=256,num_hidden_layers=1"


def bytes_of(hparams, shape, vocabulary, parts=1):
    """What a step holds."""
    weights = parameters.count(hparams, vocabulary).total * parameters.copies(hparams)
    gradients = parameters.gradients(hparams, vocabulary, parts=parts)
    return 4 * (activations.held(hparams, shape, vocabulary) + weights + gradients)


@pytest.mark.parametrize(
    "hparams_set, changes, shape, measured",
    [
        ("lstm_attention", LSTM, (96, 48, 48), 1475e6),
        ("lstm_luong_attention_multi", LSTM, (96, 48, 48), 1357e6),
        ("bytenet_base", "hidden_size=256,num_block_repeat=2", (64, 40, 40), 1691e6),
        ("bytenet_base", "hidden_size=256,num_block_repeat=4", (64, 40, 40), 2476e6),
    ],
)
def test_opponents_need_about_what_their_processes_did(hparams_set, changes, shape, measured):
    hparams = get_hparams(hparams_set, changes)
    needed = bytes_of(hparams, BatchShape(*shape), VOCABULARY)
    assert needed == pytest.approx(measured - BESIDES, rel=0.2)


@pytest.mark.parametrize(
    "changes, vocabulary, parts, measured",
    [
        ("", 131072, 1, 2862e6),
        ("", 131072, 2, 3246e6),
        (",shared_embedding_and_softmax_weights=False", 65536, 1, 2514e6),
    ],
)
def test_models_that_are_little_but_tables_need_about_what_their_processes_did(
    changes, vocabulary, parts, measured
):
    hparams = get_hparams("transformer_base_v1", f"num_hidden_layers=1,filter_size=64{changes}")
    needed = bytes_of(hparams, BatchShape(4, 8, 8), vocabulary, parts)
    assert needed == pytest.approx(measured - BESIDES, rel=0.1)


def test_each_model_is_counted_by_what_it_is_made_of():
    shape = BatchShape(32, 30, 20)

    def held(hparams_set, changes=""):
        return activations.held(get_hparams(hparams_set, changes), shape, VOCABULARY)

    assert held("transformer_base", "filter_size=4096") > held("transformer_base")
    assert held("lstm_attention") > held("lstm_luong_attention") > held("lstm_seq2seq")
    assert held("bytenet_base", "num_block_repeat=8") > 1.9 * held("bytenet_base")
    wide = get_hparams("lstm_seq2seq", "", "lstm_seq2seq_bidirectional_encoder")
    assert activations.held(wide, shape, VOCABULARY) > 1.5 * held("lstm_seq2seq")


def test_types_of_two_bytes_and_two_passes():
    shape = BatchShape(32, 30, 20)

    def held(changes):
        return activations.held(get_hparams("transformer_base", changes), shape, VOCABULARY)

    scores = 3 * 8 * 6 * (32 * 30 * 30 + 32 * 20 * (30 + 20))  # of attention, which are float32
    for name in ("bfloat16", "float16"):
        small = held(f"activation_dtype={name}")
        assert small == pytest.approx((held("") - scores) / 2 + scores)
        assert held(f"activation_dtype={name},r_drop_alpha=1") == 2 * small
    assert held("r_drop_alpha=5") == 2 * held("")


def test_a_search_of_an_opponent_keeps_no_keys(monkeypatch, tmp_path):
    from t2t_repro import get_problem

    problem = get_problem("algorithmic_reverse_decimal40")
    arguments = (problem, tmp_path, 4, 100_000)
    monkeypatch.setattr(parameters.memory, "total", lambda: 10**7)
    parameters.check_search(get_hparams("lstm_attention"), *arguments)
    for name in ("transformer_base", "bytenet_base"):
        with pytest.raises(parameters.UserError):
            parameters.check_search(get_hparams(name), *arguments)

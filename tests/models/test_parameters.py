import dataclasses
import math

import pytest

from t2t_repro import registry
from t2t_repro.models import parameters
from t2t_repro.paper import published

VOCABULARY = 97
PRINTED = [row for row in published.TABLE3 if row.million_parameters]


def built(hparams, vocab_size, targets=None):
    model = registry.get_model(hparams.model).from_hparams(
        hparams, inputs_vocab_size=vocab_size, targets_vocab_size=targets or vocab_size
    )
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


def small(name, **changes):
    """A set with every width divided by 16, and half of the layers."""
    hparams = registry.get_hparams(name)
    names = ("hidden_size", "filter_size", "attention_key_channels", "max_length")
    sizes = {name: getattr(hparams, name) // 16 for name in names}
    sizes["num_hidden_layers"] = hparams.num_hidden_layers // 2
    return dataclasses.replace(hparams, **(sizes | changes))


@pytest.mark.parametrize(
    "targets, changes",  # of two sizes no table is shared
    [
        (97, {"num_encoder_layers": 1, "num_decoder_layers": 3}),
        (97, {"shared_embedding_and_softmax_weights": False, "shared_embedding": True}),
        (130, {"shared_embedding_and_softmax_weights": False, "shared_embedding": True}),
        (97, {"vocab_divisor": 10, "attention_value_channels": 24}),
        (130, {"vocab_divisor": 10, "attention_value_channels": 24}),
        (97, {"self_attention_type": "dot_product_relative", "max_relative_position": 5}),
        (130, {"attention_score": "multiplicative", "attention_key_channels": 24}),
        (97, {"attention_score": "additive"}),
        (97, {"norm_type": "batch", "layer_postprocess_sequence": "dz"}),
        (130, {"norm_type": "noam"}),
        (97, {"norm_type": "none", "use_target_space_embedding": False, "pos": "none"}),
        (130, {"model": "lstm_seq2seq", "shared_embedding_and_softmax_weights": False}),
        (97, {"model": "byte_net"}),
        (130, {"model": "byte_net"}),
    ],
    ids=lambda value: value if isinstance(value, int) else "-".join(value),
)
def test_the_count_of_other_models(targets, changes):
    sizes = VOCABULARY, targets
    hparams = small("transformer_base", **({"num_hidden_layers": 1} | changes))
    assert parameters.count(hparams, *sizes).total == built(hparams, *sizes)


def test_each_parameter_is_of_its_kind():
    hparams = registry.get_hparams("paper_table3_base", "pos=emb")
    found = parameters.count(hparams, 37_000)
    assert (found.embeddings, found.attention) == (37_000 * 512, 18 * 4 * 512**2)
    assert (found.feed_forward, found.norms) == (12 * (2 * 512 * 2048 + 2560), 30 * 1024)
    assert found.others == 32 * 512 + 2 * 256 * 512


def test_every_product_of_a_small_model_by_hand():
    hparams = registry.get_hparams(
        "paper_table3_base",
        "num_encoder_layers=2,num_decoder_layers=1,hidden_size=8,filter_size=20,num_heads=2,"
        "attention_key_channels=4",
    )
    sentences, source, target, size = 3, 5, 7, 11
    project = 8 * (4 + 8 + 4) + 8 * 8  # queries and keys, values, outputs
    encoder = sentences * source * (project + 2 * 8 * 20 + source * (4 + 8))
    of_memory = sentences * source * 8 * (4 + 8)
    decoder = project + (8 * 4 + 8 * 8) + 2 * 8 * 20 + (target + source) * (4 + 8) + 8 * size
    expected = 2 * (2 * encoder + of_memory + sentences * target * decoder)
    shape = size, sentences, source, target
    assert parameters.forward_flop(hparams, *shape) == expected
    assert parameters.train_step_flop(hparams, *shape) == 3 * expected
    twice = dataclasses.replace(hparams, r_drop_alpha=1.0)
    assert parameters.train_step_flop(twice, *shape) == 6 * expected


def test_the_base_model_in_full_size():
    hparams = registry.get_hparams("paper_table3_base")
    assert parameters.count(hparams, 37_000).total == 63_062_016


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.hparams_set)
def test_each_row_but_big_is_the_papers_to_the_million_with_what_t2t_had_in_2017(row):
    """T2T 1.0.1 declared 40,960 ids for the paper's vocabulary (problem wmt_ende_bpe32k), and its
    attention's projections had biases."""
    hparams = registry.get_hparams(row.hparams_set)
    depth = hparams.hidden_size
    keys = hparams.attention_key_channels or depth
    values = hparams.attention_value_channels or depth
    attentions = hparams.encoder_layers + 2 * hparams.decoder_layers
    biases = attentions * (2 * keys + values + depth)
    then = round((parameters.count(hparams, 40_960).total + biases) / 1e6)
    big = row.hparams_set == "paper_table3_big"
    assert then == (218 if big else row.million_parameters)
    assert row.million_parameters == (213 if big else then)

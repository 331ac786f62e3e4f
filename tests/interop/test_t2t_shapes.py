"""What variables say about their model."""

import dataclasses

import pytest

from t2t_repro import Transformer, registry
from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_shapes, tensor2tensor


def shapes_of(case):
    return {name: value.shape for name, value in case.group("var").items()}


def test_the_hparams_agree_with_the_variables(golden):
    values = dataclasses.asdict(golden.hparams)
    hparams, notes = t2t_shapes.reconcile(values, shapes_of(golden), values)
    assert (hparams, notes) == (golden.hparams, [])


def test_another_set_gives_way_to_the_variables(golden):
    """All that decides shapes comes from the variables; what does not, from the set."""
    base = registry.get_hparams("transformer_test", "norm_epsilon=0.1")
    if golden.name in ("both_norms", "noam_norm"):
        return  # no set but its own says where its norms are
    values = dataclasses.asdict(base) | {"num_heads": 3}
    hparams, notes = t2t_shapes.reconcile(values, shapes_of(golden))
    model = Transformer.from_hparams(hparams, inputs_vocab_size=37, targets_vocab_size=37)
    tensor2tensor.load_variables(model, golden.group("var"))
    assert hparams.norm_epsilon == 0.1
    assert "hidden_size=24" in notes


def test_three_dimensions(golden_case):
    case = golden_case("base_v1")
    hparams = dataclasses.replace(case.hparams, attention_variables_3d=True)
    model = Transformer.from_hparams(hparams, inputs_vocab_size=37, targets_vocab_size=37)
    shapes = {n: a.shape for n, a in tensor2tensor.export_variables(model).items()}
    values = dataclasses.asdict(case.hparams) | {"num_heads": 5}
    assert t2t_shapes.reconcile(values, shapes)[0] == hparams


def test_contradictions_are_all_named(golden_case):
    case = golden_case("base_v1")
    wrong = dataclasses.asdict(case.hparams) | {
        "hidden_size": 48,
        "num_hidden_layers": 6,
        "layer_preprocess_sequence": "n",
        "symbol_modality_num_shards": 16,
    }
    with pytest.raises(UserError) as caught:
        t2t_shapes.reconcile(wrong, shapes_of(case), wrong)
    message = str(caught.value)
    for name in ("hidden_size=48", "num_encoder_layers=6", "layer_preprocess_sequence='n'"):
        assert name in message
    assert "num_shards" not in message


def test_vocabularies(golden_case):
    case = golden_case("base_v1")
    shapes = shapes_of(case)
    t2t_shapes.check_vocabularies(shapes, case.hparams, {"inputs": 37, "targets": 37}, "d")
    with pytest.raises(UserError, match="37"):
        t2t_shapes.check_vocabularies(shapes, case.hparams, {"inputs": 37, "targets": 36}, "d")
    divided = dataclasses.replace(case.hparams, vocab_divisor=37)
    t2t_shapes.check_vocabularies(shapes, divided, {"inputs": 12, "targets": 37}, "d")

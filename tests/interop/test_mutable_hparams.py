"""Hparam sets written by assignment."""

import copy
import json

import pytest

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.interop.mutable_hparams import MutableHParams


@pytest.fixture
def hparams():
    return MutableHParams(registry.get_hparams("transformer_base_v1"))


def freeze(hparams, warn=pytest.fail):
    return hparams.freeze("mine", warn)


def test_assignments_become_a_frozen_set(hparams):
    hparams.num_hidden_layers = 4
    hparams.add_hparam("filter_size", 96)
    hparams.set_hparam("num_heads", hparams.num_heads // 2)
    hparams.override_from_dict({"max_length": 64})
    hparams.parse("batch_size=2048,learning_rate=0.3")
    result = freeze(hparams)
    assert isinstance(result, HParams) and result.hidden_size == 512
    assert (result.num_hidden_layers, result.filter_size, result.num_heads) == (4, 96, 4)
    assert (result.max_length, result.batch_size, result.learning_rate) == (64, 2048, 0.3)
    hparams.shared_embedding_and_softmax_weights = int(True)
    hparams.use_target_space_embedding = 0
    hparams.clip_grad_norm = hparams.optimizer_adafactor_clipping_threshold = None
    hparams.ffn_layer = "conv_hidden_relu"
    result = freeze(hparams)
    assert result.shared_embedding_and_softmax_weights is True
    assert result.use_target_space_embedding is False
    assert result.clip_grad_norm == result.optimizer_adafactor_clipping_threshold == 0.0


def test_reading_as_tensor2tensors(hparams):
    assert hparams.moe_num_experts == 16 and hparams.get("pos") == "timing"
    assert hparams.get("nothing", 5) == 5 and "pos" in hparams and "nothing" not in hparams
    assert hparams.values()["hidden_size"] == 512
    assert json.loads(hparams.to_json(sort_keys=True))["num_heads"] == 8
    assert "decay" not in hparams and hparams.get("decay", 0.9) == 0.9  # of others there, too
    with pytest.raises(UserError, match="hiden_size"):
        _ = hparams.hiden_size


def test_a_copy_is_another_set_and_carries_ones_own_hparam(hparams):
    hparams.add_hparam("x", 1)
    copied, said = copy.copy(hparams), []
    copied.hidden_size, copied.x, copied.ffn_layer = 64, 2, "none"
    assert (hparams.hidden_size, hparams.x, hparams.ffn_layer) == (512, 1, "dense_relu_dense")
    freeze(hparams, said.append)
    assert copied.x == 2 and len(said) == 1 and "x=1" in said[0]
    hparams.del_hparam("x")
    freeze(hparams)


def test_parse_knows_what_may_be_assigned(hparams):
    hparams.add_hparam("knob", 1)
    hparams.add_hparam("sizes", [1])
    hparams.parse("knob=2,sampling_method=argmax,sizes=[3,4],moe_hidden_sizes=2048")
    assert (hparams.knob, hparams.sizes, hparams.sampling_method) == (2, [3, 4], "argmax")
    freeze(hparams, lambda text: None)
    with pytest.raises(UserError):
        hparams.parse("knob=x")
    with pytest.raises(UserError, match="nonsense"):
        hparams.parse("nonsense=1")
    hparams.parse("sampling_method=random")
    with pytest.raises(UserError, match="--decode_hparams=sampling_method=random"):
        freeze(hparams)

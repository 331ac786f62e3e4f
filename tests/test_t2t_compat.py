"""tensor2tensor's hparams that ours lack."""

import json
import pathlib

import pytest

from t2t_repro import registry, t2t_compat
from t2t_repro.config import FIELDS
from t2t_repro.errors import UserError

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "hparams.json").read_text())


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_every_set_of_tensor2tensors_that_we_have_passes_and_the_others_name_known_hparams(name):
    for field, value in GOLDEN[name].items():
        assert (field in FIELDS) + (field in t2t_compat.T2T_ONLY) + (field in t2t_compat.RUN) == 1
        if field not in FIELDS and name in registry.list_hparams():
            t2t_compat.check({field: value}, FIELDS)


def test_defaults():
    assert t2t_compat.default("moe_num_experts") == 16
    assert t2t_compat.default("z_size") is None
    t2t_compat.check({"grad_noise_scale": 0, "model_dir": "anything"}, FIELDS)


def test_what_older_versions_had_is_known_at_rest():
    assert not t2t_compat.BEFORE_1_15 & GOLDEN["transformer_base_v1"].keys()
    t2t_compat.check({name: t2t_compat.default(name) for name in t2t_compat.BEFORE_1_15}, FIELDS)


def test_overrides_are_read_as_what_they_take_the_place_of():
    assert t2t_compat.parse("moe_hidden_sizes", "2048") == "2048"
    assert t2t_compat.parse("moe_loss_coef", "1e-2") == 0.01
    assert t2t_compat.parse("z_size", "[1,2]") == [1, 2]
    assert t2t_compat.parse("z_size", "small") == "small"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ffn_layer", "local_moe"), ("moe_num_experts", 8), ("z_size", 4)),
        *(("use_pad_remover", 0), ("target_modality", "symbol:ctc"), ("use_tpu", True)),
        ("hiden_size", 4),
    ],
)
def test_other_values_are_refused(name, value):
    with pytest.raises(UserError, match=rf"{name}.*moe_k"):
        t2t_compat.check({name: value, "moe_loss_coef": 0.01, "moe_k": 9}, FIELDS)

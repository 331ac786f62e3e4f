"""tensor2tensor's hparams that ours lack."""

import json
import pathlib

import pytest

from t2t_repro import foreign_hparams, registry
from t2t_repro.config import FIELDS
from t2t_repro.errors import UserError

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "hparams.json").read_text())


def test_no_name_is_both_ours_and_foreign():
    assert not FIELDS.keys() & set(foreign_hparams.FOREIGN)


@pytest.mark.parametrize("name", sorted(set(GOLDEN) & set(registry.list_hparams())))
def test_every_set_of_tensor2tensors_that_we_have_passes(name):
    for field, value in GOLDEN[name].items():
        if field not in FIELDS:
            foreign_hparams.check(field, value, FIELDS)


@pytest.mark.parametrize("name", sorted(set(GOLDEN) - set(registry.list_hparams())))
def test_every_set_of_tensor2tensors_that_we_lack_names_only_known_hparams(name):
    for field in GOLDEN[name]:
        assert field in FIELDS.keys() | set(foreign_hparams.FOREIGN) | foreign_hparams.RUN


def test_defaults():
    assert foreign_hparams.default("moe_num_experts") == 16
    assert foreign_hparams.default("z_size") is None
    foreign_hparams.check("grad_noise_scale", 0, FIELDS)
    foreign_hparams.check("model_dir", "anything", FIELDS)


def test_what_older_versions_had_is_known_at_rest():
    assert not foreign_hparams.BEFORE_1_15 & GOLDEN["transformer_base_v1"].keys()
    for name in foreign_hparams.BEFORE_1_15:
        foreign_hparams.check(name, foreign_hparams.default(name), FIELDS)


def test_overrides_are_read_as_what_they_take_the_place_of():
    assert foreign_hparams.parse("moe_hidden_sizes", "2048") == "2048"
    assert foreign_hparams.parse("moe_loss_coef", "1e-2") == 0.01
    assert foreign_hparams.parse("z_size", "[1,2]") == [1, 2]
    assert foreign_hparams.parse("z_size", "small") == "small"


def test_an_override_of_what_a_set_adds_says_that_nothing_reads_it(monkeypatch):
    monkeypatch.setitem(foreign_hparams.ADDED, "knob", "mine")
    with pytest.raises(UserError, match="4"):
        foreign_hparams.check_override("knob", "4", FIELDS)
    with pytest.raises(UserError, match="num_head"):
        foreign_hparams.check_override("num_head", "4", FIELDS)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "ffn_layer",
            "local_moe",
            "expected ffn_layer='dense_relu_dense' or ffn_layer='conv_hidden_relu', its d",
        ),
        ("moe_num_experts", 8, "expected moe_num_experts=16 or moe_num_experts=64, its default"),
        ("z_size", 4, "expected no z_size, its default"),
        ("use_pad_remover", 0, "expected use_pad_remover=True"),
        ("target_modality", "symbol:ctc", "expected target_modality='default', its default"),
        ("use_tpu", True, "Leave it out: there is no TPU support"),
        ("hiden_size", 4, "Received: hiden_size=4, a name that neither.*'hidden_size'"),
    ],
)
def test_other_values_are_refused(name, value, message):
    with pytest.raises(UserError, match=message):
        foreign_hparams.check(name, value, FIELDS)

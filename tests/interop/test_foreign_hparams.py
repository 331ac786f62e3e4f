"""tensor2tensor's hparams that ours lack."""

import json
import pathlib

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.interop import foreign_hparams

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "hparams.json").read_text())


def test_no_name_is_both_ours_and_foreign():
    assert not foreign_hparams.OWN & set(foreign_hparams.FOREIGN)


@pytest.mark.parametrize("name", sorted(set(GOLDEN) & set(registry.list_hparams())))
def test_every_set_of_tensor2tensors_that_we_have_passes(name):
    for field, value in GOLDEN[name].items():
        if field not in foreign_hparams.OWN:
            foreign_hparams.check(field, value)


@pytest.mark.parametrize("name", sorted(set(GOLDEN) - set(registry.list_hparams())))
def test_every_set_of_tensor2tensors_that_we_lack_names_only_known_hparams(name):
    for field in GOLDEN[name]:
        assert field in foreign_hparams.OWN | set(foreign_hparams.FOREIGN) | foreign_hparams.RUN


def test_defaults():
    assert foreign_hparams.default("moe_num_experts") == 16
    assert foreign_hparams.default("z_size") is None
    foreign_hparams.check("grad_noise_scale", 0)
    foreign_hparams.check("model_dir", "anything")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ffn_layer", "local_moe", "expected ffn_layer='dense_relu_dense', its default. Received"),
        ("moe_num_experts", 8, "expected moe_num_experts=16 or moe_num_experts=64, its default"),
        ("z_size", 4, "expected no z_size, its default"),
        ("use_pad_remover", 1, "expected use_pad_remover=True"),
        ("hiden_size", 4, "Received: hiden_size=4, a name that neither.*'hidden_size'"),
    ],
)
def test_other_values_are_refused(name, value, message):
    with pytest.raises(UserError, match=message):
        foreign_hparams.check(name, value)

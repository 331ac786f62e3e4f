"""Which tables are one, against tensor2tensor where the sides have vocabularies of their own."""

import dataclasses
import json

import numpy as np
import pytest

from t2t_repro import Transformer, registry
from t2t_repro.config import HParams
from t2t_repro.interop import tensor2tensor
from t2t_repro.models import sharing
from t2t_repro.training import optimizers

CASES = ("two_sizes", "two_sizes_of_shared_embeddings", "padded_to_one_size")
APART = "shared_embedding_and_softmax_weights=False"
SIZES = {"inputs_vocab_size": 41, "targets_vocab_size": 37}


@pytest.fixture(params=CASES)
def case(request, golden_path):
    """What tensor2tensor has of a model, and ours with its variables."""
    with np.load(golden_path / "vocabularies.npz") as arrays:
        start = f"{request.param}/"
        case = {n.removeprefix(start): arrays[n] for n in arrays if n.startswith(start)}
    names = {field.name for field in dataclasses.fields(HParams)}
    values = json.loads(str(case["hparams"]))
    hparams = HParams(**{name: value for name, value in values.items() if name in names})
    case["variables"] = {n[4:]: case[n] for n in case if n.startswith("var:")}
    case["model"] = Transformer.from_hparams(hparams, **SIZES, target_space_id=4)
    tensor2tensor.load_variables(case["model"], case["variables"])
    return case


def test_logits_and_five_steps_of_training_are_tensor2tensors(case):
    model, batch = case["model"], {side: case[side] for side in ("inputs", "targets")}
    np.testing.assert_allclose(model(batch), case["logits"], atol=2e-5)
    model.compile(optimizer=optimizers.from_hparams(model.hparams))
    losses = [model.train_on_batch(batch, return_dict=True)["loss"] for _ in range(5)]
    np.testing.assert_allclose(losses, case["losses"], rtol=3e-5)


def test_every_table_goes_back(case):
    """None is written twice under one name, or the other's values would be lost."""
    names = [name for entry in tensor2tensor.entries(case["model"]) for name in entry.names]
    assert sorted(names) == sorted(case["variables"])
    for name, value in tensor2tensor.export_variables(case["model"]).items():
        np.testing.assert_array_equal(value, case["variables"][name], err_msg=name)


@pytest.mark.parametrize(
    ("changes", "sizes", "expected"),
    [
        ("", (40, 40), (True, True)),
        ("", (40, 41), (False, False)),
        ("vocab_divisor=7", (40, 41), (True, True)),  # 42 rows
        ("vocab_divisor=8", (40, 41), (False, False)),  # 40 and 48
        (APART, (40, 40), (False, False)),
        (f"{APART},shared_embedding=True", (40, 40), (True, False)),
        (f"{APART},shared_embedding=True", (40, 41), (False, False)),
    ],
)
def test_what_is_shared(changes, sizes, expected):
    hparams = registry.get_hparams("transformer_test", changes)
    assert sharing.tied_tables(hparams, *sizes) == expected

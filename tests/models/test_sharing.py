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
SIZES = {"inputs_vocab_size": 41, "targets_vocab_size": 37}


@pytest.fixture(params=CASES)
def case(request, golden_path):
    """What tensor2tensor has of a model: {name: array}, hparams too."""
    with np.load(golden_path / "vocabularies.npz") as arrays:
        start = f"{request.param}/"
        return {n.removeprefix(start): arrays[n] for n in arrays if n.startswith(start)}


@pytest.fixture
def hparams(case):
    names = {field.name for field in dataclasses.fields(HParams)}
    values = json.loads(str(case["hparams"]))
    return HParams(**{name: value for name, value in values.items() if name in names})


@pytest.fixture
def variables(case):
    return {n.removeprefix("var:"): a for n, a in case.items() if n.startswith("var:")}


@pytest.fixture
def model(hparams, variables):
    model = Transformer.from_hparams(hparams, **SIZES, target_space_id=4)
    tensor2tensor.load_variables(model, variables)
    return model


@pytest.fixture
def batch(case):
    return {side: case[side] for side in ("inputs", "targets")}


def test_the_logits_are_tensor2tensors(model, case, batch):
    np.testing.assert_allclose(model(batch), case["logits"], atol=2e-5)


def test_five_steps_of_training_are_tensor2tensors(model, case, batch):
    model.compile(optimizer=optimizers.from_hparams(model.hparams))
    losses = [model.train_on_batch(batch, return_dict=True)["loss"] for _ in range(5)]
    np.testing.assert_allclose(losses, case["losses"], rtol=3e-5)


def test_every_table_goes_back(model, variables):
    """None is written twice under one name, or the other's values would be lost."""
    names = [name for entry in tensor2tensor.entries(model) for name in entry.names]
    assert sorted(names) == sorted(variables)
    for name, value in tensor2tensor.export_variables(model).items():
        np.testing.assert_array_equal(value, variables[name], err_msg=name)


@pytest.mark.parametrize(
    ("changes", "sizes", "expected"),
    [
        ("", (40, 40), (True, True)),
        ("", (40, 41), (False, False)),
        ("vocab_divisor=7", (40, 41), (True, True)),  # 42 rows
        ("vocab_divisor=8", (40, 41), (False, False)),  # 40 and 48
        ("shared_embedding_and_softmax_weights=False", (40, 40), (False, False)),
        (
            "shared_embedding_and_softmax_weights=False,shared_embedding=True",
            (40, 40),
            (True, False),
        ),
        (
            "shared_embedding_and_softmax_weights=False,shared_embedding=True",
            (40, 41),
            (False, False),
        ),
    ],
)
def test_what_is_shared(changes, sizes, expected):
    hparams = registry.get_hparams("transformer_test", changes)
    assert sharing.of(hparams, *sizes) == expected

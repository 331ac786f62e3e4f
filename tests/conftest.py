"""What every test shares: the golden files, and models with tensor2tensor's own weights."""

import dataclasses
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest

from t2t_repro.config import HParams

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in (GOLDEN / "models").glob("*.npz"))
GOLDEN_VOCAB_SIZE = 37
GOLDEN_TARGET_SPACE_ID = 4
DROPOUT_OFF = {
    "layer_prepostprocess_dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "symbol_dropout": 0.0,
}


class GoldenCase:
    """One of tests/golden/models: what tensor2tensor computed, and our model with its weights."""

    def __init__(self, name: str):
        self.name = name
        with np.load(GOLDEN / "models" / f"{name}.npz") as arrays:
            self.arrays = dict(arrays)
        values = json.loads(str(self.arrays["hparams"]))
        ours = {field.name for field in dataclasses.fields(HParams)}
        self.hparams = HParams(**{k: v for k, v in values.items() if k in ours})

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    @property
    def batch(self) -> dict[str, np.ndarray]:
        return {"inputs": self["inputs"], "targets": self["targets"]}

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """Returns every array "prefix:NAME" by NAME."""
        start = f"{prefix}:"
        return {k.removeprefix(start): v for k, v in self.arrays.items() if k.startswith(start)}

    def model(self, weights: str = "var", **changes):
        """Returns our model with the weights "var" or "trained", and `changes` to its hparams."""
        from t2t_repro import Transformer
        from t2t_repro.interop import tensor2tensor

        model = Transformer.from_hparams(
            dataclasses.replace(self.hparams, **changes),
            inputs_vocab_size=GOLDEN_VOCAB_SIZE,
            targets_vocab_size=GOLDEN_VOCAB_SIZE,
            target_space_id=GOLDEN_TARGET_SPACE_ID,
        )
        tensor2tensor.load_variables(model, self.group(weights))
        return model


@pytest.fixture(scope="session")
def golden_path() -> pathlib.Path:
    """The folder of the golden files."""
    return GOLDEN


@pytest.fixture(scope="session", params=CASES)
def golden(request) -> GoldenCase:
    """Each of tensor2tensor's models in turn."""
    return GoldenCase(request.param)


@pytest.fixture(scope="session")
def dropout_off() -> dict[str, float]:
    """The hparams that turn every dropout off."""
    return DROPOUT_OFF


@pytest.fixture(scope="session")
def golden_case():
    """The case of a name: golden_case("base_v1")."""
    return GoldenCase

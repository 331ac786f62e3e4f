"""What the tests of training share: arrays, whether two are equal, a process of its own."""

import os
import pathlib
import subprocess
import sys

import numpy as np

from t2t_repro.training import checkpoints

JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
TIMEOUT = 600  # seconds; on a machine with nothing else to do the longest takes some 60


def arrays(model) -> dict[str, np.ndarray]:
    """Returns copies of a model's weights by name, or those of a checkpoint's folder."""
    if hasattr(model, "weights"):
        return {name: np.array(value) for name, value in checkpoints.weights(model).items()}
    return checkpoints.read_arrays(model / "weights.npz")


def assert_same(one, two) -> None:
    """Asserts that two models, checkpoints or dictionaries have equal arrays."""
    one, two = (of if isinstance(of, dict) else arrays(of) for of in (one, two))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], name)


def said_by(*command, cwd=None, **environment) -> str:
    """Returns what a Python process says, for a backend and its devices cannot be changed."""
    root = pathlib.Path(__file__).parents[2]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(root)} | environment
    how = {"capture_output": True, "text": True, "timeout": TIMEOUT}
    done = subprocess.run([sys.executable, *command], env=environment, cwd=cwd, **how)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout

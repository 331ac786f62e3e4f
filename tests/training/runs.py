"""What the tests of training share: the arrays of a model, and whether two have the same."""

import numpy as np

from t2t_repro.training import checkpoints


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

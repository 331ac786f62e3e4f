"""What `load_weights` of a model takes, beyond what Keras looks at."""

import math
import os
from collections.abc import Iterable
from typing import Any

import h5py
import keras
import numpy as np

from t2t_repro.errors import UserError

_OF_OPTIMIZER = "optimizer/"  # Keras writes its state into the same file, and loads a model without


def check_no_others(path: str | os.PathLike, weights: Iterable[keras.Variable]) -> None:
    """Refuses a file that has values for more than a model's weights, before any is loaded.

    Keras names what a file lacks, and is silent on what is left over: of a model of more layers
    it would load the first ones.

    Args:
        path: the file; one that is no .weights.h5 is not looked at.
        weights: those of the model.

    Raises:
        UserError: if values would be left over.
    """
    if not str(path).endswith(".weights.h5") or not h5py.is_hdf5(path):
        return
    there: dict[str, int] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith(_OF_OPTIMIZER):
            there[name] = 0 if np.issubdtype(item.dtype, np.integer) else item.size

    with h5py.File(path) as file:
        file.visititems(note)
    own = sum(math.prod(w.shape) for w in weights if "int" not in w.dtype)
    if sum(there.values()) > own:
        raise UserError(
            f"Expected the weights of this model, {own:,} values. Received: {os.fspath(path)!r} "
            f"with {sum(there.values()):,}, those of a larger one. Make the model of the hparams "
            "and vocabularies of the one that wrote them, or give skip_mismatch=True."
        )

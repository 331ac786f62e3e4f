"""What `load_weights` of a model takes, beyond what Keras looks at."""

import contextlib
import json
import math
import os
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import h5py
import keras
import numpy as np

from t2t_repro.errors import UserError


def check_no_others(path: str | os.PathLike, model: keras.Model) -> None:
    """Refuses a file that has values for more than a model's weights, before any is loaded.

    Keras names what a file lacks, and is silent on what is left over: of a model of more layers
    it would load the first ones.

    Args:
        path: a .weights.h5, a .weights.json with its parts beside it, or a .keras; what is none of
            them Keras will refuse.
        model: a built one.

    Raises:
        UserError: if values would be left over.
    """
    # Keras writes their state into the same files, and loads a model without.
    optimizers = {n for n, v in vars(model).items() if isinstance(v, keras.optimizers.Optimizer)}
    own = sum(math.prod(w.shape) for w in model.weights if "int" not in w.dtype)
    there = 0

    def count(name: str, item: Any) -> None:
        nonlocal there
        of_model = name.partition("/")[0] not in optimizers | {"optimizer"}
        if of_model and isinstance(item, h5py.Dataset):
            there += 0 if np.issubdtype(item.dtype, np.integer) else item.size

    for file in _files(pathlib.Path(path)):
        file.visititems(count)
    if there > own:
        raise UserError(
            f"Expected the weights of this model, {own:,} values. Received: {os.fspath(path)!r} "
            f"with {there:,}, those of a larger one. Make the model of the hparams and "
            "vocabularies of the one that wrote them, or give skip_mismatch=True."
        )


def _files(path: pathlib.Path) -> Iterator[h5py.File]:
    """Yields the HDF5 files of weights; none where Keras will not find what it needs either."""
    with contextlib.ExitStack() as stack:
        found: list[Any] = []
        if path.name.endswith(".weights.h5"):
            found = [path]
        elif path.name.endswith(".weights.json") and path.is_file():
            parts = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
            flat = (part for each in parts for part in (each if isinstance(each, list) else [each]))
            found = [path.parent / name for name in dict.fromkeys(flat)]
        elif path.suffix == ".keras" and zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            found = [stack.enter_context(archive.open("model.weights.h5"))]
        for each in found:
            if not isinstance(each, pathlib.Path) or h5py.is_hdf5(each):
                with h5py.File(each) as file:
                    yield file

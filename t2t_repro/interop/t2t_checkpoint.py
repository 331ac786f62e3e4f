"""Finds, reads and writes the files of a TensorFlow 1 checkpoint, without running any code in them.

A checkpoint is PREFIX.index and PREFIX.data-00000-of-00001 beside a text file `checkpoint` that
names the newest. They hold arrays by name and nothing that could be code.
"""

import os
import pathlib
import re

import numpy as np
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.files import literal, scratch_folder, write_text_atomic

STEP = "global_step"
# What T2T keeps beside the model's weights: {name: what it is in a run that has just begun}.
BOOKKEEPING: dict[str, np.ndarray] = {
    "losses_avg/problem_0/extra_loss": np.array(100.0, "float32"),
    "losses_avg/problem_0/total_loss": np.array(100.0, "float32"),
    "losses_avg/problem_0/training_loss": np.array(100.0, "float32"),
    "train_stats/problem_0_steps": np.array(0, "int32"),
}
_BOOKKEEPING_SCOPES = ("training/", "losses_avg/", "train_stats/")
_PARTS = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, LookupError)  # what TensorFlow raises


class Checkpoint:
    """A TF1 checkpoint, read array by array.

    Args:
        path: a folder with a `checkpoint` file, or a prefix such as "run/model.ckpt-250000".

    Attributes:
        prefix: the checkpoint's files without their endings.
        shapes: {name: shape} of everything in it.

    Raises:
        UserError: if there is no checkpoint, or it is not whole.
    """

    def __init__(self, path: str | os.PathLike):
        self.prefix = find(path)
        try:
            prefix = os.path.join(literal(self.prefix.parent), self.prefix.name)
            self._reader = tf.train.load_checkpoint(prefix)
            shapes = self._reader.get_variable_to_shape_map()
        except _UNREADABLE as error:
            raise _not_whole(self.prefix, error) from error
        self.shapes = {name: tuple(shape) for name, shape in sorted(shapes.items())}

    def array(self, name: str) -> np.ndarray:
        """Returns one array; its checksum is checked."""
        try:
            return self._reader.get_tensor(name)
        except _UNREADABLE as error:
            raise _not_whole(self.prefix, error) from error

    def step(self) -> int:
        """Returns the global step; 0 where there is none, as in some averages."""
        return int(self.array(STEP)) if STEP in self.shapes else 0

    def variables(self) -> dict[str, np.ndarray]:
        """Returns the model's variables: all but slots, the step and T2T's own bookkeeping."""
        return {name: self.array(name) for name in self.variable_shapes()}

    def variable_shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of `variables`."""
        return {
            name: shape
            for name, shape in self.shapes.items()
            if name != STEP
            and not name.startswith(_BOOKKEEPING_SCOPES)
            and self._owner(name.rpartition("/")[0]) is None
        }

    def slots(self) -> dict[str, dict[str, list[str]]]:
        """Returns {optimizer's name: {variable: its slots' names, in the order they were made}}."""
        found: dict[str, dict[str, list[tuple[int, str]]]] = {}
        for name in self.shapes:
            scope, _, last = name.rpartition("/")
            owner = self._owner(scope)
            if owner is not None:
                kind, _, number = last.partition("_")
                entry = found.setdefault(kind, {}).setdefault(owner, [])
                entry.append((int(number) if number.isdigit() else 0, name))
        return {
            kind: {owner: [name for _, name in sorted(names)] for owner, names in table.items()}
            for kind, table in found.items()
        }

    def _owner(self, scope: str) -> str | None:
        """Returns the variable at the end of `scope`: a name below a variable is an optimizer's
        slot."""
        while scope:
            if scope in self.shapes:
                return scope
            scope = scope.partition("/")[2]
        return None


def read_checkpoint(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns {name: array} of a T2T checkpoint's weights; optimizer slots are left out.

    Args:
        path: a folder with a `checkpoint` file, or a prefix such as "run/model.ckpt-250000".

    Raises:
        UserError: if there is no checkpoint, or it is truncated or changed.
    """
    return Checkpoint(path).variables()


def find(path: str | os.PathLike) -> pathlib.Path:
    """Returns the prefix of the checkpoint that `path` names: a folder's newest, or itself.

    Raises:
        UserError: if there is none.
    """
    path = pathlib.Path(path).expanduser()
    if path.is_dir():  # its file `checkpoint` names the newest, also where the folder was moved
        file = path / "checkpoint"
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        match = re.search(r'^model_checkpoint_path: "(.*)"$', text, re.MULTILINE)
        name = pathlib.PurePath(match[1]).name if match else ""
        if (path / f"{name}.index").is_file():
            return path / name
        raise UserError(
            f"Expected the file {file} to name a checkpoint in the same folder. Received: "
            f"{name or text!r}. Give the path of a checkpoint, such as model.ckpt-STEP."
        )
    prefix = path.with_name(_PARTS.sub("", path.name))
    if prefix.with_name(prefix.name + ".index").is_file():
        return prefix
    raise UserError(f"Expected a TensorFlow 1 checkpoint. Received: {path}, without a .index file.")


def beside(path: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the prefixes of all checkpoints of the run of which `path` names one.

    Raises:
        UserError: as `find`.
    """
    one = find(path)
    stem = one.name.rpartition("-")[0]
    return [file.with_suffix("") for file in one.parent.glob(f"{stem}-*.index")]


def write(folder: pathlib.Path, step: int, arrays: dict[str, np.ndarray]) -> pathlib.Path:
    """Writes `folder`/model.ckpt-STEP and the `checkpoint` file; returns the prefix."""
    prefix = folder / f"model.ckpt-{step}"
    names = sorted(arrays)
    # TensorFlow begins at names drawn at random, which a kill would leave and no next try clears.
    with scratch_folder(prefix) as unfinished:
        tf.raw_ops.SaveV2(
            prefix=os.fspath(unfinished / prefix.name),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(arrays[name]) for name in names],
        )
        for file in sorted(unfinished.iterdir()):  # .data before .index, which names it
            os.replace(file, folder / file.name)
    keys = ("model_checkpoint_path", "all_model_checkpoint_paths")
    lines = (f'{key}: "{prefix.name}"\n' for key in keys)
    write_text_atomic(folder / "checkpoint", "".join(lines))
    return prefix


def _not_whole(prefix: pathlib.Path, error: Exception) -> UserError:
    text = " ".join(str(getattr(error, "message", error)).split())
    return UserError(
        f"Expected a complete checkpoint {prefix}. Received: {text.rstrip('.')}. Copy its files "
        "again: .index and all .data files."
    )

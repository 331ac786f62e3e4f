"""Warm start: a new run begins with the weights of another; a table lists what is taken.

By default all is taken or the run is refused; a vocabulary may extend the parent's. With `partial`,
variables of the same name and shape are taken, and of an embedding table the rows of the pieces in
both vocabularies.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Sequence

import keras
import numpy as np

from t2t_repro import fields, registry
from t2t_repro.config import COMPUTES, HParams
from t2t_repro.errors import UserError, changes
from t2t_repro.files import write_json
from t2t_repro.problem import Problem
from t2t_repro.run_directory import WARM_START, RunDirectory
from t2t_repro.text import transfer
from t2t_repro.training import checkpoints
from t2t_repro.training.state import WEIGHTS

TAKEN, RESIZED, NEW, LEFT_OUT = "taken", "resized", "new", "left out"
_SIDES = {"input_emb": "inputs"}  # of the tables; the others: targets
_TABLES = ("shared", "input_emb", "target_emb", "softmax")
_PARTIAL = "or load only the weights that fit: --warm_start_partial"


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of a variable.

    Attributes:
        name: as in the checkpoint.
        what: TAKEN, RESIZED, NEW or LEFT_OUT (only the parent has it).
        shape: in the new run, or in the parent where it is left out.
        parent_shape: in the parent; None: it has none.
        rows: of a RESIZED embedding table: how many are "taken", "made" as means of the parent's,
            and "new".
    """

    name: str
    what: str
    shape: tuple[int, ...]
    parent_shape: tuple[int, ...] | None = None
    rows: dict[str, int] | None = None


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """The origin of a run's first weights.

    Attributes:
        checkpoint: the parent's.
        step: the parent's there.
        rows: one for each variable.
    """

    checkpoint: str
    step: int
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        counts = Counter(row.what for row in self.rows)
        of = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        return f"Weights from {self.checkpoint} (at step {self.step}); variables: {of}."

    def write(self, run: RunDirectory) -> None:
        """Writes warm-start.json into a run."""
        write_json(run.path / WARM_START, dataclasses.asdict(self))


def begin(
    model: keras.Model,
    problem: Problem,
    data_dir: str,
    source: str | os.PathLike,
    partial: bool = False,
) -> WarmStart:
    """Gives a new model the weights of another run.

    Args:
        model: built.
        problem: what it is trained on.
        data_dir: the folder of its vocabularies.
        source: a run or one of its checkpoints.
        partial: take what fits; otherwise all must fit.

    Raises:
        UserError: if there is no checkpoint, it is of another model (all that differs is listed),
            or the vocabularies differ, and `partial` does not allow it; or if nothing fits.
    """
    path = checkpoints.find(source)
    run = RunDirectory(path.absolute().parents[1])
    if not partial:
        _check_computes(run, model.hparams)
    parts = _parts(run, problem, data_dir, partial)
    named, arrays = checkpoints.weights(model), checkpoints.read_arrays(path / WEIGHTS)
    rows, values = [], {}
    for name, variable in named.items():
        shape, theirs, table = tuple(variable.shape), arrays.get(name), name.partition("/")[0]
        there = None if theirs is None else theirs.shape
        pieces = parts.get(_SIDES.get(table, "targets")) if table in _TABLES else None
        what, counted = NEW, None
        if theirs is not None and pieces is not None and shape[1:] == theirs.shape[1:]:
            what = RESIZED
            values[name], counted = _rows(np.array(variable), theirs, pieces)
        elif theirs is not None and pieces is None and shape == theirs.shape:
            what, values[name] = TAKEN, theirs
        rows.append(Row(name, what, shape, there, counted))
    if not partial:
        asked = {r.name: (r.parent_shape if r.rows else None) or r.shape for r in rows}
        checkpoints.check_shapes(asked, arrays, path, f", {_PARTIAL}")
    rows += [Row(n, LEFT_OUT, a.shape, a.shape) for n, a in arrays.items() if n not in values]
    if not values:
        raise UserError(
            f"Expected {path} to have weights that fit this model. Received: {len(arrays)} "
            "variables, all of other names or shapes. Omit --warm_start_from, or name another run."
        )
    for name, value in values.items():
        named[name].assign(value)
    state = checkpoints.read_state(path)
    return WarmStart(os.path.abspath(path), state.step, tuple(rows))


def _check_computes(run: RunDirectory, hparams: HParams) -> None:
    """Refuses a model that would compute something else with a run's weights."""
    if not run.exists():
        return
    names, both = fields.tagged(HParams, COMPUTES), (run.config.hparams, hparams)
    differs = changes(*({name: getattr(each, name) for name in names} for each in both))
    if differs:
        raise UserError(
            f"Expected the hparams that the weights of {run.path} were trained with. Received: "
            f"{'; '.join(differs)}. Remove --hparams_set, and these from --hparams, {_PARTIAL}."
        )


def _parts(
    run: RunDirectory, problem: Problem, data_dir: str, partial: bool
) -> dict[str, list[list[int]] | None]:
    """Returns {side: `transfer.parts`} of the vocabularies that differ from the parent's.

    Raises:
        UserError: unless `partial`, if one does not extend the parent's.
    """
    if not run.exists():  # a folder of checkpoints, of which nothing is known
        return {}
    config = run.config
    parent = registry.get_problem(config.problem)
    files = parent.vocab_files(run.path)
    if not files:
        return {}
    whole = all((run.path / name).is_file() for name in files)
    theirs = parent.feature_encoders(os.fspath(run.path) if whole else config.data_dir)
    parts: dict[str, list[list[int]] | None] = {}
    for side, mine in problem.feature_encoders(data_dir).items():
        new, old = transfer.pieces_of(mine), transfer.pieces_of(theirs[side])
        if type(mine) is type(theirs[side]) and new == old:
            continue
        if not partial and new[: len(old)] != old:
            both = len(set(new) & set(old))
            raise UserError(
                f"Expected the vocabulary of {run.path} ({len(old):,} subwords), which its "
                f"embeddings belong to. Received: for {side}, another vocabulary of {len(new):,} "
                f"subwords; {both:,} are in both. Make the data with t2t-datagen "
                f"--vocab_from={run.path}, {_PARTIAL}."
            )
        parts[side] = transfer.parts(mine, theirs[side])
    return parts


def _rows(
    mine: np.ndarray, theirs: np.ndarray, parts: Iterable[Sequence[int]]
) -> tuple[np.ndarray, dict[str, int]]:
    """Returns a table with the parent's rows, or means of them, where they exist."""
    table, counted = mine.copy(), {"taken": 0, "made": 0}
    for i, ids in enumerate(parts):
        if ids:
            table[i] = theirs[list(ids)].astype("float32").mean(0).astype(table.dtype)
            counted["taken" if len(ids) == 1 else "made"] += 1
    return table, counted | {"new": len(table) - sum(counted.values())}  # what pads it, too

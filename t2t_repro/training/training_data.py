"""What a run trains on: said at its start, kept in it, and the same whenever it goes on."""

import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from t2t_repro import schema
from t2t_repro.config import HParams
from t2t_repro.errors import UserError, changes
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import TRAINING_DATA, RunDirectory

if TYPE_CHECKING:
    from t2t_repro.data.pipeline import SplitStatistics

_REPLICAS = "replicas"
# What the batches of a split follow from, beside hparams and devices.
_SAME = ("examples", "too_short", "too_long", "inputs_tokens", "targets_tokens")


def check_same(
    run: RunDirectory, data: "SplitStatistics", replicas: int, say: Callable[[str], None]
) -> None:
    """Refuses to go on with other data, and says where a batch is for another number of devices.

    Args:
        run: may have a checkpoint, or not.
        data: what it is to be trained on.
        replicas: on how many devices, all workers together.
        say: gets a line.

    Raises:
        UserError: if the run has a checkpoint, and was trained on other data until there.
    """
    file = run.path / TRAINING_DATA
    if not run.newest_step() or not file.is_file():
        return
    kept = schema.read(file, dict[str, int | float], "Delete it.")
    known = {name: kept[name] for name in _SAME if name in kept}
    if differs := changes(known, dataclasses.asdict(data)):
        raise UserError(
            f"Expected the training data that {run.path} was trained on. Received: others: "
            f"{'; '.join(differs)}. Give the --data_dir of those, or begin a new run on these with "
            f"--warm_start_from={run.path}."
        )
    before = kept.get(_REPLICAS) or replicas
    if before != replicas:
        say(
            f"Warning: the run was trained on {before} replica{'s' * (before > 1)}, now on "
            f"{replicas}: a batch is {replicas / before:.3g} times as large, and the run is no "
            "longer the one that it would have been. On as many as before it goes on as before."
        )


def described(data: "SplitStatistics", hparams: HParams, replicas: int) -> str:
    """Returns in words what the split holds and what a batch is."""
    unit = "sentences" if hparams.use_fixed_batch_size else "tokens, padding included,"
    return (
        f"{data.kept:,} examples of {data.examples:,} ({data.too_long:,} too long, "
        f"{data.too_short:,} too short), {data.targets_tokens:,} target tokens, "
        f"{data.padding:.1%} padding, {data.batches:,.1f} batches an epoch; a batch of "
        f"{hparams.batch_size:,} {unit} x {replicas} "
        f"replica{'s' * (replicas > 1)} (the paper's: 25,000 target tokens)"
    )


def write(run: RunDirectory, data: "SplitStatistics", replicas: int, train_steps: int) -> None:
    """Writes training-data.json into a run, unless it is there and nothing is to be trained."""
    file = run.path / TRAINING_DATA
    if file.exists() and run.newest_step() >= train_steps:
        return
    values = {"kept": data.kept, **dataclasses.asdict(data), _REPLICAS: replicas}
    write_text_atomic(file, json.dumps(values, indent=1) + "\n")

"""The hparams that t2t-trainer proposes for fine-tuning, where it is told the parent and no set.

They are the parent's own, with the rate of its last step held constant after a short warm-up, for
the optimizer begins anew, and fewer steps: a high rate unlearns what the parent knows.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable

from t2t_repro.config import HParams
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import updates

_LEAST, _SHARE = 1000, 5  # steps: at least so many, of the parent's one in five
_RATE = 1e-4  # where the parent does not say its own


def proposed(
    source: str | os.PathLike, overrides: str = "", say: Callable[[str], None] = print
) -> tuple[str, HParams]:
    """Returns the set and the hparams to fine-tune a run with, and says how they differ.

    Args:
        source: the run or one of its checkpoints.
        overrides: changes to what is proposed, "name=value,name=value".
        say: gets a line.

    Raises:
        UserError: if there is no run, or an override is unknown.
    """
    run = _run_of(pathlib.Path(source).expanduser())
    config = run.config()
    rows = [row for row in _reports(run) if row.get("kind") == "train" and row["learning_rate"]]
    steps = rows[-1]["step"] if rows else config.hparams.train_steps
    steps //= updates.batches_of_an_update(config.hparams)
    rate = float(f"{rows[-1]['learning_rate']:.3g}") if rows else _RATE
    train_steps = max(_LEAST, steps // _SHARE)
    warmup = min(train_steps // 10, max(config.hparams.learning_rate_warmup_steps, 1))
    hparams = dataclasses.replace(
        updates.as_asked(config.hparams),
        learning_rate_schedule="constant*linear_warmup",
        learning_rate_constant=rate,
        learning_rate_warmup_steps=warmup,
        learning_rate_minimum=None,
        train_steps=train_steps,
        freeze="",
    ).override(overrides)
    why = "that of its last step" if rows else "for its own is not known"
    say(
        f"Proposed for fine-tuning: the hparams of {run.path} ({config.hparams_set}), but a "
        f"constant learning rate of {rate:g}, {why}, after a warm-up of {warmup:,} steps, and "
        f"{train_steps:,} steps. What --hparams and --train_steps say goes before it; "
        "--hparams_set takes a set as it is."
    )
    return config.hparams_set, hparams


def _run_of(path: pathlib.Path) -> RunDirectory:
    """Returns the run of a path, which may be a checkpoint of it."""
    candidates = [path, *path.absolute().parents[:2]]
    return next((run for run in map(RunDirectory, candidates) if run.exists()), RunDirectory(path))


def _reports(run: RunDirectory) -> list:
    """Returns what a run has reported; an average has nothing, and lies in its run."""
    return run.read_metrics() or RunDirectory(run.path.absolute().parent).read_metrics()

"""The hparams that t2t-trainer proposes for fine-tuning, given a parent and no set.

They are the parent's, with fewer steps. The rate rises in a short warm-up, because the optimizer
begins anew, to that of the parent's last step, and falls to 0. A high rate forgets what the parent
knows, and without a fall the last batches count too much. If the parent's rate fell to 0, that of
half its steps is taken. Training in both directions is not repeated.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable
from typing import Any

from t2t_repro import process
from t2t_repro.bin import datagen
from t2t_repro.config import HParams
from t2t_repro.fields import parse_overrides
from t2t_repro.files import locked
from t2t_repro.run_directory import RunDirectory, of_tensor2tensor
from t2t_repro.training import trainable

_LEAST, _SHARE = 1000, 5  # steps: at least so many, of the parent's one in five
_RATE = 1e-4  # where the parent does not say its own
_FELL = 0.25  # a last rate of less than this share of that half-way is the end of a fall to 0


def imported(source: str, output_dir: str, data_dir: str, usr_dir: str | None) -> str:
    """Returns the run to begin with: `source`, or the import of a tensor2tensor run.

    The import is a run inside the new one's directory, made once.

    Args:
        source: a run or checkpoint, ours or tensor2tensor's.
        output_dir: the new run's directory.
        data_dir: another folder that may have its vocabulary.
        usr_dir: the user's package.

    Raises:
        UserError: as `t2t_runs.import_checkpoint`.
    """
    if not of_tensor2tensor(pathlib.Path(source).expanduser()):
        return source
    where = os.path.realpath(os.path.expanduser(source))
    digest = hashlib.sha256(os.fsencode(where)).hexdigest()[:8]
    run = RunDirectory(pathlib.Path(output_dir, f"warm_start_{digest}"))
    flags = {"checkpoint": where, "output_dir": run.path, "optimizer_state": False}
    run.path.mkdir(parents=True, exist_ok=True)
    with locked(run.path, print):
        if not any(run.checkpoints_dir.glob("ckpt-*")):  # here TensorFlow is not to begin yet
            process.call(_import, flags | {"data_dir": data_dir, "t2t_usr_dir": usr_dir})
            print(f"Imported the weights of {source} to {run.path}.")
    return os.fspath(run.path)


def _import(flags: dict[str, Any]) -> None:
    if flags["t2t_usr_dir"]:
        datagen.load_usr_dir(flags["t2t_usr_dir"])
    from t2t_repro.interop import t2t_runs

    t2t_runs.import_checkpoint(t2t_runs.ImportRequest(**flags))


def proposed(
    source: str | os.PathLike,
    overrides: str = "",
    train_steps: int | None = None,
    say: Callable[[str], None] = print,
) -> tuple[str, HParams]:
    """Returns the set and the hparams to fine-tune a run with, and prints how they differ.

    Args:
        source: the run or one of its checkpoints.
        overrides: changes to the proposal, "name=value,name=value".
        train_steps: of the training; None: a share of the parent's.
        say: gets a line.

    Raises:
        UserError: if there is no run, or an override is unknown.
    """
    run = _run_of(pathlib.Path(source).expanduser())
    config = run.config
    rows = [row for row in _reports(run) if row.get("kind") == "train" and row["learning_rate"]]
    steps = rows[-1]["step"] if rows else config.hparams.train_steps
    rate, why = _rate([row["learning_rate"] for row in rows])
    hparams = dataclasses.replace(
        trainable.requested(config.hparams),
        # Not single_cycle_cos_decay, whose train_steps count batches where updates gather several.
        learning_rate_schedule="constant*linear_warmup*multi_cycle_cos_decay",
        learning_rate_constant=rate,
        learning_rate_warmup_steps=max(config.hparams.learning_rate_warmup_steps, 1),
        learning_rate_minimum=None,
        train_steps=max(_LEAST, steps // _SHARE),
        bidirectional_steps=0,
        freeze="",
    ).override(overrides)
    train_steps = train_steps or hparams.train_steps
    of_update = trainable.gathered(hparams)  # a rate counts updates
    warmup, falls = hparams.learning_rate_warmup_steps, train_steps // of_update
    if "learning_rate_warmup_steps" not in parse_overrides(overrides):
        warmup = min(falls // 10, warmup)
    hparams = dataclasses.replace(
        hparams,
        train_steps=train_steps,
        learning_rate_warmup_steps=warmup,
        learning_rate_decay_steps=max(1, falls - warmup),
    ).override(overrides)
    if hparams.learning_rate_constant != rate:
        rate, why = hparams.learning_rate_constant, "as given"
    say(
        f"Fine-tuning with the hparams of {run.path} ({config.hparams_set}) for {train_steps:,} "
        f"steps. The learning rate rises to {rate:g} ({why}) in the first {of_update * warmup:,} "
        "steps, then falls to 0. To change this, give --hparams or --train_steps; with "
        "--hparams_set the set is used unchanged."
    )
    return config.hparams_set, hparams


def _rate(rates: list[float]) -> tuple[float, str]:
    """Returns the highest rate for a child of a run with these rates, and the reason."""
    if not rates:
        return _RATE, "the default: the rate of the parent run is unknown"
    rate, why = rates[-1], "the last rate of the parent run"
    half = rates[len(rates) // 2]
    if rate < _FELL * half:
        rate, why = half, "the rate halfway through the parent run: its last rate is near 0"
    return float(f"{rate:.3g}"), why


def _run_of(path: pathlib.Path) -> RunDirectory:
    """Returns the run of a path: a run or one of its checkpoints."""
    candidates = [path, *path.absolute().parents[:2]]
    return next((run for run in map(RunDirectory, candidates) if run.exists()), RunDirectory(path))


def _reports(run: RunDirectory) -> list:
    """Returns what a run has reported; an average has nothing, and lies in its run or beside it."""
    parent = run.path.absolute().parent
    beside = RunDirectory(parent / "run")  # of the model of t2t-own-text or t2t-distill
    own = run.read_metrics() or RunDirectory(parent).read_metrics()
    if own or not (beside.exists() and beside.is_continued_by(run)):
        return own
    return beside.read_metrics()

"""The state of a run, read from its directory without loading a model, also while it trains.

A half-written line, or a checkpoint that is being made or removed, is skipped and is no error.
"""

import dataclasses
import math
import pathlib
import re
import shlex
import time
import zipfile
from typing import Any

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE
from t2t_repro.run_directory import RunConfig, RunDirectory, usr_dir_flag
from t2t_repro.training.best import EarlyStopping
from t2t_repro.training.state import (
    LESS_IS_BETTER,
    TRAINING,
    WEIGHTS,
    CorruptCheckpoint,
    read_ranking,
    read_state,
    sample_of,
    usual_sample,
)

_CHECKPOINT = re.compile(r"ckpt-(\d+)")
_LAYER = re.compile(r"((?:encoder|decoder)/)layer_\d+/([^/]+)/")
_STACKS = ("encoder", "decoder")
_NOT_FINITE = ("nan", "inf", "-inf")  # as metrics.jsonl has it
_SHAPE = re.compile(rb"'shape': \(([\d, ]*)\)")

Score = float | str  # text: one of _NOT_FINITE


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, its folder and its evaluation.

    Attributes:
        step: its step.
        path: its folder.
        megabytes: its size.
        whole: whether all its files are there in full size; their bytes are not read.
        scores: {metric: value} of its evaluation, {} if there was none; what is not finite is
            "nan", "inf" or "-inf".
        averaged: the steps that were averaged, if there are several.
        trains_on: whether it has the state of training, which resuming needs.
    """

    step: int
    path: str
    megabytes: float
    whole: bool
    scores: dict[str, Score]
    averaged: tuple[int, ...]
    trains_on: bool


@dataclasses.dataclass(frozen=True)
class RunView:
    """The state of a run.

    Attributes:
        path, problem, hparams_set, version, random_seed, commands: as its run.json.
        t2t_usr_dir: the package that it was made with, which commands that read it need.
        trainer: the training process, "process 7 on HOST, since ..."; "" if none.
        changes: {hparam: (in the set, in the run)}; None if the set is not known here.
        train_steps: where the run is to end.
        step: the last one reported or saved.
        stopped_early: the reason of early stopping; "": none.
        seconds_since: how long ago the last report was; None if there was none.
        parameters: {component: number}; {} before the first checkpoint.
        checkpoints: oldest first.
        being_written: the steps of checkpoints that are not complete yet.
        kept_best: the steps in the folder best, best first.
        curves: {name: [(step, value)]}, such as "train loss" and "dev accuracy".
        best: {metric: (step, value)} of all evaluations on dev.
        nonfinite: how many batches were not finite.
    """

    path: str
    problem: str
    hparams_set: str
    version: str
    random_seed: int
    commands: tuple[str, ...]
    t2t_usr_dir: str | None
    trainer: str
    changes: dict[str, tuple[Any, Any]] | None
    train_steps: int
    step: int
    stopped_early: str
    seconds_since: float | None
    parameters: dict[str, int]
    checkpoints: tuple[Checkpoint, ...]
    being_written: tuple[int, ...]
    kept_best: tuple[int, ...]
    curves: dict[str, list[tuple[int, float]]]
    best: dict[str, tuple[int, float]]
    nonfinite: int


def view(run: RunDirectory) -> RunView:
    """Returns the state of `run`.

    Raises:
        UserError: if it is no run directory.
    """
    config = run.config
    rows = run.read_metrics()
    evaluated = _evaluated(rows)
    curves = _curves(rows, evaluated)
    saved = _checkpoints(run.checkpoints_dir, _scores(evaluated))
    steps = [row["step"] for row in rows if isinstance(row.get("step"), int)]
    whole = [each for each in saved if each.whole]
    step, trainer = max([0, *steps, *(each.step for each in whole)]), run.lock_holder()
    stopped = step < config.hparams.train_steps and not trainer
    return RunView(
        path=str(run.path),
        problem=config.problem,
        hparams_set=config.hparams_set,
        version=config.version,
        random_seed=config.random_seed,
        commands=config.commands,
        t2t_usr_dir=config.t2t_usr_dir,
        trainer=trainer,
        changes=_changes(config),
        train_steps=config.hparams.train_steps,
        step=step,
        stopped_early=_stopped_early(config, rows) if stopped else "",
        seconds_since=_seconds_since(rows),
        parameters=_parameters(whole),
        checkpoints=tuple(saved),
        being_written=_being_written(run.checkpoints_dir) if trainer else (),
        kept_best=tuple(e.step for e in read_ranking(run.path / "best" / "checkpoints").ranking),
        curves=curves,
        best={
            metric: _best(metric, points)
            for name, points in curves.items()
            if (metric := name.removeprefix("dev ")) != name
        },
        nonfinite=len(list((run.path / "nonfinite").glob("batch-*.json"))),
    )


def next_steps(of: RunView) -> list[str]:
    """Returns what to do next, each as a sentence with its command."""
    whole = [each for each in of.checkpoints if each.whole]
    said = []
    path, average = shlex.quote(str(of.path)), shlex.quote(f"{of.path}-avg")
    known = path + usr_dir_flag(of.t2t_usr_dir)
    if of.trainer:
        said.append(f"Training is running. To watch it: tensorboard --logdir={path}")
    elif any(each.averaged for each in whole):
        said.append("This run is an average of checkpoints: training cannot continue from it.")
    elif whole and not whole[-1].trains_on:
        said.append(
            "This run has weights only. Continue training in the original run, or in a new one "
            f"with --warm_start_from={path}"
        )
    elif of.step < of.train_steps:
        commands = (line.partition(" ")[2] for line in reversed(of.commands))
        trained = (each for each in commands if each.startswith("t2t-trainer"))
        command = next(trained, f"t2t-trainer --output_dir={known}")
        if of.stopped_early:
            command = f"t2t-trainer --output_dir={known} --eval_early_stopping_steps=0"
        early = f", because {of.stopped_early}" if of.stopped_early else ""
        said.append(f"Training stopped before step {of.train_steps}{early}. To continue: {command}")
    if of.nonfinite:
        said.append(
            f"{of.nonfinite} batches had a non-finite loss or gradients, see {of.path}/nonfinite. "
            "Lower the learning rate, or raise learning_rate_warmup_steps."
        )
    best_step, best_loss = of.best.get("loss", (0, 0.0))
    last = of.curves.get("dev loss", [(0, 0.0)])[-1]
    if last[0] > best_step and last[1] > 1.02 * best_loss:
        said.append(
            f"Overfitting: the dev loss was best at step {best_step} ({best_loss:.4f}), and is "
            f"{last[1]:.4f} at step {last[0]}. Use more dropout, or early stopping "
            "(--eval_early_stopping_steps)."
        )
    if not whole:
        return [*said, "There is no checkpoint to decode with yet."]
    if len(whole) > 1 and not of.trainer and not whole[-1].averaged:
        count = min(len(whole), 8)
        said.append(
            f"To average checkpoints: t2t-avg-all --model_dir={path} --output_dir={average} "
            f"--n={count} --last_only"
        )
        if "approx_bleu_score" in of.best:  # its problem is one of text
            said.append(f"To tune beam size and alpha: t2t-avg-all --tune --model_dir={known}")
    said.append(f"To translate: t2t-decoder --output_dir={known} --decode_interactive")
    said.append(f'To see the attention: t2t-visualize --output_dir={known} --source="..."')
    return said


def _changes(config: RunConfig) -> dict[str, tuple[Any, Any]] | None:
    try:
        plain = registry.get_hparams(config.hparams_set)
    except UserError:
        return None
    before, now = dataclasses.asdict(plain), dataclasses.asdict(config.hparams)
    return {name: (before[name], now[name]) for name in now if before[name] != now[name]}


def _seconds_since(rows: list[dict[str, Any]]) -> float | None:
    times = [row["time"] for row in rows if isinstance(row.get("time"), int | float)]
    return round(max(0.0, time.time() - max(times)), 1) if times else None


def _stopped_early(config: RunConfig, rows: list[dict[str, Any]]) -> str:
    options = config.options or {}
    early = EarlyStopping.of_options(options)
    if not early or options.get("schedule") == "train":
        return ""
    mine = [row for row in _evaluations(rows) if row.get("split") == early.split]
    return early.reason(mine, usual_sample(str(row.get("sample", "")) for row in mine))


def _evaluated(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[int, Score]]:
    """Returns {(split, metric): {step: value}} of the evaluations.

    Evaluations on other sentences than usual, as by other flags, cannot be compared, and are
    skipped. Non-numbers are no metrics.
    """
    found: dict[tuple[str, str], list[tuple[int, Score, str]]] = {}
    for row in _evaluations(rows):
        split, sample = str(row.get("split", "dev")), str(row.get("sample", ""))
        for name, value in row.items():
            number = isinstance(value, float | int) or value in _NOT_FINITE
            if name not in ("step", "time") and number:
                point = row["step"], value, sample_of(name, sample)
                found.setdefault((split, name), []).append(point)
    curves = {}
    for of, points in found.items():
        usual = usual_sample(sample for *_, sample in points)
        curves[of] = {step: value for step, value, sample in points if sample in ("", usual)}
    return curves


def _evaluations(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("kind") == "eval" and isinstance(row.get("step"), int)]


def _scores(evaluated: dict[tuple[str, str], dict[int, Score]]) -> dict[int, dict[str, Score]]:
    """Returns {step: {metric: value}} of the evaluations, the dev split's where it has the step."""
    scores: dict[int, dict[str, Score]] = {}
    dev = {step for (split, _), points in evaluated.items() for step in points if split == "dev"}
    for (split, metric), points in evaluated.items():
        for step, value in points.items():
            if split == "dev" or step not in dev:
                scores.setdefault(step, {})[metric] = value
    return scores


def _curves(
    rows: list[dict[str, Any]], evaluated: dict[tuple[str, str], dict[int, Score]]
) -> dict[str, list[tuple[int, float]]]:
    """Returns the finite losses of training, and the evaluations."""
    curves: dict[str, dict[int, float]] = {}
    for row in rows:
        numbers = isinstance(row.get("loss"), float | int) and "step" in row
        if row.get("kind") == "train" and numbers:
            curves.setdefault("train loss", {})[row["step"]] = row["loss"]
    for (split, metric), points in evaluated.items():
        if finite := {step: v for step, v in points.items() if not isinstance(v, str)}:
            curves[f"{split} {metric}"] = finite
    return {name: sorted(points.items()) for name, points in curves.items()}


def _best(metric: str, points: list[tuple[int, float]]) -> tuple[int, float]:
    choose = min if metric in LESS_IS_BETTER else max
    return choose(points, key=lambda point: point[1])


def _checkpoints(folder: pathlib.Path, scores: dict[int, dict[str, Score]]) -> list[Checkpoint]:
    saved = []
    for path in folder.iterdir() if folder.is_dir() else ():
        name = _CHECKPOINT.fullmatch(path.name)
        if not name:
            continue
        try:
            sizes = {file.name: file.stat().st_size for file in path.iterdir()}
            state = read_state(path)
            files, averaged = state.files, state.averaged if len(state.averaged) > 1 else ()
        except FileNotFoundError:  # removed meanwhile
            continue
        except CorruptCheckpoint:
            files, averaged = {}, ()
        whole = bool(files) and all(sizes.get(file) == size for file, size in files.items())
        megabytes = round(sum(sizes.values()) / 1e6, 1)
        step, mine = int(name[1]), scores.get(int(name[1]), {})
        of = step, str(path), megabytes, whole, mine, averaged, TRAINING in files
        saved.append(Checkpoint(*of))
    return sorted(saved, key=lambda each: each.step)


def _being_written(folder: pathlib.Path) -> tuple[int, ...]:
    names = (_CHECKPOINT.fullmatch(path.stem) for path in folder.glob(f"*{INCOMPLETE}"))
    return tuple(sorted(int(name[1]) for name in names if name))


def _parameters(whole: list[Checkpoint]) -> dict[str, int]:
    """Returns how many numbers each component of the newest checkpoint has, from its headers."""
    if not whole:
        return {}
    counts: dict[str, int] = {}
    with zipfile.ZipFile(pathlib.Path(whole[-1].path) / WEIGHTS) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                shape = _SHAPE.search(file.read(256))
            lengths = shape[1].decode().split(",") if shape else ()
            size = math.prod(int(length) for length in lengths if length.strip())
            layer = _LAYER.match(name)
            component = layer[1] + layer[2] if layer else name.split("/")[0]
            component = f"{component}/last norm" if component in _STACKS else component
            counts[component] = counts.get(component, 0) + size
    return counts

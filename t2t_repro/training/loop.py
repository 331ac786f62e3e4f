"""The training loop: step, report, save, evaluate, until `train_steps`; continues where it stopped.

It is a loop of our own, not Model.fit: fit reports the loss averaged over an epoch where T2T
reports the step's, hands its callbacks no batch, which the token rate and the message about a bad
batch need, and applies a step whose loss is not a number. All that is public of fit is kept:
compile, the model's compute_loss, the optimizer, and JAX through train_on_batch.
"""

import dataclasses
import math
import pathlib
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints, distribution
from t2t_repro.training.progress import Progress


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to train and what to do on the way; T2T's names.

    Attributes:
        train_steps: the step at which the run ends, counted from its very start.
        local_eval_frequency: save a checkpoint and evaluate every this many steps.
        save_checkpoints_secs: save and evaluate every this many seconds instead; 0: by steps.
        keep_checkpoint_max: keep the newest this many checkpoints; 0: all.
        eval_throttle_seconds: do not evaluate again sooner than this after the last evaluation.
        log_step_count_steps: report every this many steps.
    """

    train_steps: int
    local_eval_frequency: int = 1000
    save_checkpoints_secs: int = 0
    keep_checkpoint_max: int = 20
    eval_throttle_seconds: int = 0
    log_step_count_steps: int = 100

    def __post_init__(self):
        for name in ("train_steps", "local_eval_frequency", "log_step_count_steps"):
            if getattr(self, name) < 1:
                raise UserError(f"Expected --{name} >= 1. Received: {getattr(self, name)}.")
        for name in ("save_checkpoints_secs", "keep_checkpoint_max", "eval_throttle_seconds"):
            if getattr(self, name) < 0:
                raise UserError(f"Expected --{name} >= 0. Received: {getattr(self, name)}.")


def train(
    model: keras.Model,
    make_dataset: Callable[[int], Any],
    run: RunDirectory,
    plan: Plan,
    *,
    progress: Progress | None = None,
    evaluate: Callable[[int], None] | None = None,
    strategy=None,
) -> checkpoints.State:
    """Trains `model` in `run`, from its newest whole checkpoint if there is one.

    Args:
        model: built and compiled; its loss is its own.
        make_dataset: called with the number of batches to leave out; returns the rest of an endless
            tf.data.Dataset of {"inputs", "targets"} that is the same at every start.
        run: gets checkpoints and metrics.
        plan: how long to train, and when to save and evaluate.
        progress: how to report; None: as `plan` says, to standard output.
        evaluate: called with the step after a checkpoint is written; reports by itself.
        strategy: what `distribution.strategy` returned.

    Returns:
        Where the run stands at the end.

    Raises:
        UserError: if the loss is not finite (the step is named), or the data ends.
    """
    progress = progress or make_progress(run, plan)
    state = resume(model, run, progress)
    if state.step >= plan.train_steps:
        progress.say(f"Nothing to train: the run is at step {state.step} of {plan.train_steps}.")
        return state
    try:
        return _steps(
            model,
            make_dataset(state.batches),
            run,
            plan,
            state,
            progress=progress,
            evaluate=evaluate,
            strategy=strategy,
        )
    finally:
        progress.close()


def make_progress(run: RunDirectory, plan: Plan) -> Progress:
    """Returns a Progress to standard output, metrics.jsonl and TensorBoard."""
    return Progress(run, plan.train_steps, plan.log_step_count_steps, events=tensorboard(run.path))


def tensorboard(folder: pathlib.Path) -> Callable[[str, int, dict[str, float]], None]:
    """Returns a function that writes scalars as TensorBoard events: "train" to `folder` itself.

    It receives the kind (a subfolder, but for "train"), the step and {name: value}.
    """
    import tensorflow as tf

    writers: dict[str, Any] = {}

    def write(kind: str, step: int, values: dict[str, float]) -> None:
        if kind not in writers:
            where = folder if kind == "train" else folder / kind
            writers[kind] = tf.summary.create_file_writer(str(where))
        with writers[kind].as_default(step=step), tf.device("CPU:0"):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        writers[kind].flush()

    return write


def resume(model: keras.Model, run: RunDirectory, progress: Progress) -> checkpoints.State:
    """Restores the newest whole checkpoint of `run`; State(step=0) if there is none.

    Metrics of the steps after it are left out: these steps will be made again.
    """
    newest = checkpoints.latest(run.checkpoints_dir, progress.say)
    if newest is None:
        run.cut_metrics(0)
        return checkpoints.State(step=0)
    state = checkpoints.restore(model, newest)
    run.cut_metrics(state.step)
    progress.say(f"Continuing from {newest} (step {state.step}).")
    return state


def _steps(
    model: keras.Model,
    dataset: Any,
    run: RunDirectory,
    plan: Plan,
    state: checkpoints.State,
    *,
    progress: Progress,
    evaluate: Callable[[int], None] | None,
    strategy: Any,
) -> checkpoints.State:
    step, batches = state.step, state.batches
    train_step = distribution.step_function(model, strategy)
    saved_at = time.monotonic()
    evaluated_at = -math.inf
    iterator = distribution.batches(dataset, strategy)
    while step < plan.train_steps:
        started = time.monotonic()
        batch = next(iterator, None)
        if batch is None:
            raise UserError(
                f"Expected training data without end. Received: {batches} batches. Make the "
                "dataset with training=True, or repeat it."
            )
        loss = train_step(batch)
        if not math.isfinite(loss):
            raise UserError(_not_finite(loss, step + 1, batch, run))
        step, batches = step + 1, batches + 1
        now = time.monotonic()
        progress.step(
            step,
            loss,
            distribution.count_tokens(batch),
            now - started,
            lambda: np.asarray(model.optimizer.learning_rate),
        )
        by_time = plan.save_checkpoints_secs
        due = now - saved_at >= by_time if by_time else step % plan.local_eval_frequency == 0
        if not due and step < plan.train_steps:
            continue
        state = checkpoints.State(step=step, batches=batches)
        checkpoints.save(run.checkpoints_dir, model, state, keep_max=plan.keep_checkpoint_max)
        saved_at = time.monotonic()
        throttled = saved_at - evaluated_at < plan.eval_throttle_seconds
        if evaluate is not None and (not throttled or step == plan.train_steps):
            evaluated_at = saved_at
            evaluate(step)
    return state


def _not_finite(loss: float, step: int, batch: dict, run: RunDirectory) -> str:
    shapes = {name: tuple(ids.shape) for name, ids in batch.items() if getattr(ids, "shape", None)}
    newest = checkpoints.latest(run.checkpoints_dir)
    kept = f"the newest checkpoint is {newest}" if newest else "there is no checkpoint yet"
    return (
        f"Expected a finite loss. Received: {loss} at step {step}, on a batch of {shapes}; {kept}. "
        "Lower learning_rate_constant, raise learning_rate_warmup_steps, or set clip_grad_norm."
    )

"""The training loop: step, report, save, evaluate, until `train_steps`; continues where it stopped.

It is a loop of our own, not Model.fit: fit reports the loss averaged over an epoch where T2T
reports the step's, hands its callbacks no batch, which the token rate and the message about a bad
batch need, and applies a step whose loss is not a number. All that is public of fit is kept:
compile, the model's compute_loss and the optimizer.
"""

import contextlib
import dataclasses
import functools
import json
import math
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from t2t_repro.errors import Interrupted, UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints, distribution, guards, signals
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.events import EventWriter
from t2t_repro.training.progress import Progress
from t2t_repro.training.request import Plan
from t2t_repro.training.saving import PERMANENT, NoSaver, Saver
from t2t_repro.training.summaries import Summaries

Evaluate = Callable[[int, Callable[[], None]], dict[str, float]]
_EVALUATE = "evaluate"  # in a state's `extra`: an evaluation belongs to this checkpoint
_NOT_FINITE = "nonfinite_steps"  # how many steps were left out since the run began
_SECONDS = "seconds"  # how long the run has trained, all its processes together


def train(
    model: keras.Model,
    make_dataset: Callable[[int], Any],
    run: RunDirectory,
    plan: Plan,
    *,
    progress: Progress | None = None,
    evaluate: Evaluate | None = None,
    encoders: Mapping[str, Any] | None = None,
    devices: Devices = ONE,
    summaries: Summaries | None = None,
) -> checkpoints.State:
    """Trains `model` in `run`, from its newest whole checkpoint if there is one.

    Args:
        model: built and compiled; its loss is its own.
        make_dataset: called with the number of batches to leave out; returns the rest of an endless
            tf.data.Dataset of {"inputs", "targets"} that is the same at every start.
        run: gets checkpoints and metrics.
        plan: how long to train, and when to save and evaluate.
        progress: how to report; None: as `plan` says, to standard output.
        evaluate: called with the step, while its checkpoint is being written, and a function that
            waits until it is whole. Returns {metric: value}, and reports them by itself.
        encoders: of "inputs" and "targets", for what is written of a bad batch; None: ids alone.
        devices: what `devices.choose` returned. Of several workers the chief alone writes.
        summaries: what to report beside the loss; None: norms and padding, to metrics.jsonl and
            TensorBoard.

    Returns:
        Where the run stands at the end.

    Raises:
        UserError: if the loss or a gradient is not finite (the step is named), there is no memory,
            all checkpoints are damaged, or the data end.
        Interrupted: on a signal, inside `signals.watching`. The step that ran is saved.
        OSError: if a checkpoint could not be written; the earlier ones are whole.
    """
    writer = None if progress or summaries else make_writer(run)
    progress = progress or make_progress(run, plan, writer)
    every, last = plan.log_step_count_steps, plan.train_steps
    summaries = summaries or Summaries(model, every, last, writer=writer)
    state = checkpoints.State(step=0)
    if devices.cluster.is_chief:
        state = resume(model, run, progress, restart_damaged=plan.restart_damaged_run)
        summaries.restart(state.step)
    note = {"step": state.step, "batches": state.batches, "extra": state.extra}
    state = checkpoints.State(**json.loads(devices.share(model, json.dumps(note))))
    keeper = _Keeper(model, run, plan, state, progress, evaluate)
    if not devices.cluster.is_chief:
        keeper.saver = NoSaver()
    # Until the last checkpoint is whole, a signal waits; but not while nothing is to be saved.
    with contextlib.closing(progress), signals.deferred(), contextlib.closing(keeper.saver):
        keeper.finish_evaluation()
        (stop,) = devices.totals([devices.cluster.is_chief and keeper.is_time_to_stop()])
        ended = "the run is at" if state.step >= plan.train_steps else "it stopped early at"
        if state.step >= plan.train_steps or stop:
            progress.say(f"Nothing to train: {ended} step {state.step} of {plan.train_steps}.")
            return state
        with signals.immediate():
            dataset = make_dataset(state.batches)
        return _steps(model, dataset, run, plan, keeper, progress, encoders, devices, summaries)


def make_progress(run: RunDirectory, plan: Plan, writer: EventWriter | None = None) -> Progress:
    """Returns a Progress to standard output, metrics.jsonl and, if there is one, TensorBoard."""
    events = writer.scalars if writer else None
    return Progress(run, plan.train_steps, plan.log_step_count_steps, events=events)


def make_writer(run: RunDirectory) -> EventWriter | None:
    """Returns the writer of a run's TensorBoard events; None under other backends than TensorFlow.

    It would load TensorFlow, which may be absent there, or take the memory of a GPU.
    """
    return EventWriter(run.path) if keras.backend.backend() == "tensorflow" else None


def resume(
    model: keras.Model, run: RunDirectory, progress: Progress, *, restart_damaged: bool = False
) -> checkpoints.State:
    """Restores the newest whole checkpoint of `run`; State(step=0) if there is none.

    Metrics of the steps after it are left out: these steps will be made again.

    Raises:
        UserError: if there are checkpoints but none is whole, unless `restart_damaged`.
    """
    newest = checkpoints.latest(run.checkpoints_dir, progress.say)
    if newest is None:
        damaged = len(checkpoints.list_checkpoints(run.checkpoints_dir))
        if damaged and not restart_damaged:
            raise UserError(
                f"Expected a whole checkpoint in {run.checkpoints_dir}. Received: {damaged}, none "
                "of them whole, as said above. Put back a copy of one, or give "
                "--restart_damaged_run to train again from step 0."
            )
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
    keeper: "_Keeper",
    progress: Progress,
    encoders: Mapping[str, Any] | None,
    devices: Devices,
    summaries: Summaries,
) -> checkpoints.State:
    step, batches = keeper.state.step, keeper.state.batches
    left_out = keeper.state.extra.get(_NOT_FINITE, 0)
    train_step = distribution.step_function(model, devices)
    saved_at = time.monotonic()
    iterator = distribution.batches(dataset)
    while step < plan.train_steps:
        started = time.monotonic()
        batch = next(iterator, None)
        if batch is None:
            raise UserError(
                f"Expected training data without end. Received: {batches} batches. Make the "
                "dataset with training=True, or repeat it."
            )
        batches += 1
        try:
            with guards.naming_the_batch(f"step {step + 1}", batch):
                loss = train_step(batch, summaries.observer(step + 1))
        except distribution.NotFinite as error:
            left_out += 1
            bad = {"number": batches, "step": step + 1, "loss": error.loss}
            file: Any = "see the chief's"
            if devices.cluster.is_chief:
                file = guards.write_batch(run, batch, **bad, encoders=encoders)
            said = f"{error} at step {step + 1}, on a batch of {guards.shapes(batch)} ({file})"
            if left_out > plan.max_nonfinite_steps:
                raise UserError(_not_finite(said, left_out, run)) from error
            progress.say(f"Left out a batch, {left_out} of {plan.max_nonfinite_steps}: {said}.")
            continue
        step += 1
        by_time = plan.save_checkpoints_secs
        late = time.monotonic() - saved_at >= by_time
        due = step == plan.train_steps or (
            late if by_time else step % plan.local_eval_frequency == 0
        )
        # What all workers must agree on. The chief's clock decides what is due by time.
        received, tokens = signals.received(), distribution.count_tokens(batch)
        own = [tokens, received > 0, due and devices.cluster.is_chief]
        tokens, signalled, due = devices.totals(own)
        signum = received or (signal.SIGTERM if signalled else 0)
        seconds = time.monotonic() - started
        summaries.count(batch)
        progress.step(
            *(step, loss, tokens, seconds, lambda: np.asarray(model.optimizer.learning_rate)),
            more=functools.partial(summaries.values, step, batch),
        )
        summaries.sample(step)
        keeper.saver.check()
        if not due and not signum:
            continue
        extra = {_NOT_FINITE: left_out} if left_out else {}
        state = checkpoints.State(step=step, batches=batches, extra=extra)
        keeper.save(state, evaluate=bool(due))
        saved_at = time.monotonic()
        if signum:
            keeper.saver.wait()
            devices.totals([0])  # no worker leaves before the chief has saved
            raise Interrupted(signum, keeper.where())
        stop = keeper.finish_evaluation() and keeper.is_time_to_stop()
        if plan.early_stopping and devices.totals([stop])[0]:
            early = plan.early_stopping
            progress.say(
                f"Stopping early at step {step}: {early.metric} has not got better by "
                f"{early.metric_delta} for {early.steps} steps."
            )
            break
    keeper.saver.wait()
    return keeper.state


class _Keeper:
    """Saves the run's state, evaluates it, and keeps the best.

    Attributes:
        state: that of the newest checkpoint, which may still be being written.
    """

    def __init__(self, model, run, plan, state, progress, evaluate):
        self.saver = Saver(run.checkpoints_dir, plan.keep_checkpoint_max)
        self.state = state
        self._model, self._run, self._plan = model, run, plan
        self._progress, self._evaluate = progress, evaluate
        self._began = time.monotonic() - state.extra.get(_SECONDS, 0.0)
        self._evaluated_at = -math.inf

    def save(self, state: checkpoints.State, *, evaluate: bool) -> None:
        """Begins to write a checkpoint; `evaluate`: an evaluation belongs to it."""
        now = time.monotonic()
        last = state.step == self._plan.train_steps
        throttled = now - self._evaluated_at < self._plan.eval_throttle_seconds and not last
        each = 3600 * self._plan.keep_checkpoint_every_n_hours
        before, seconds = self.state.extra.get(_SECONDS, 0.0), round(now - self._began, 3)
        extra = {
            **state.extra,
            _SECONDS: seconds,
            _EVALUATE: evaluate and self._evaluate is not None and not throttled,
            PERMANENT: seconds // each > before // each,
        }
        self.state = dataclasses.replace(state, extra=extra)
        self.saver.save(self._model, self.state)

    def finish_evaluation(self) -> bool:
        """Evaluates the newest checkpoint if that is due and was not done; returns whether it is.

        One that was evaluated before a kill is not evaluated again, but may not be among the best.
        """
        step = self.state.step
        if self._evaluate is None or not self.state.extra.get(_EVALUATE):
            return False
        rows = [row for row in self._run.read_metrics() if row.get("kind") == "eval"]
        done = [row for row in rows if row["step"] == step]
        self._evaluated_at = time.monotonic()
        try:
            with signals.immediate():
                values = done[-1] if done else self._evaluate(step, self.saver.wait)
        except Interrupted as stop:
            self.saver.wait()
            raise Interrupted(stop.signum, self.where()) from None
        self.saver.wait()
        best = self._plan.keep_best
        if best and best.add(self._run, step, values) and not done:
            self._progress.say(f"Among the best by {best.metric}: {best.directory(self._run).path}")
        return True

    def is_time_to_stop(self) -> bool:
        """Whether the evaluations so far end the run."""
        early = self._plan.early_stopping
        return early is not None and early.reached(self._run.read_metrics())

    def where(self) -> str:
        """Returns where the run stands, for the message of a signal."""
        if isinstance(self.saver, NoSaver):
            return f" at step {self.state.step}, saved by the chief"
        path = self._run.checkpoints_dir / f"ckpt-{self.state.step}"
        return f" at step {self.state.step}, saved as {path}"


def _not_finite(said: str, count: int, run: RunDirectory) -> str:
    newest = checkpoints.latest(run.checkpoints_dir)
    kept = f"the newest checkpoint is {newest}" if newest else "there is no checkpoint yet"
    return (
        f"Expected a finite loss and gradients. Received: {said}; {kept}. Lower "
        "learning_rate_constant, raise learning_rate_warmup_steps, or set clip_grad_norm; "
        f"--max_nonfinite_steps={count} leaves the step out."
    )

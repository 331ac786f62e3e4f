"""The training loop: step, report, save, evaluate, until `train_steps`; continues where it stopped.

It makes the model's own step, as Model.fit does, in a loop of its own: fit reports the loss
averaged over an epoch where T2T reports the step's, and hands its callbacks no batch, which the
token rate and the message about a bad batch need.
"""

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from t2t_repro import process
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.models.guarded import GuardedModel
from t2t_repro.problem import Split
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import (
    ahead,
    checkpoints,
    distribution,
    events,
    guards,
    model_state,
    moving_average,
)
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.log import TrainingLog, make_log
from t2t_repro.training.request import Plan
from t2t_repro.training.saving import PERMANENT, NoSaver, Saver
from t2t_repro.training.summaries import Summaries

Evaluate = Callable[[int, Callable[[], None]], dict[str, float]]
_EVALUATE = "evaluate"  # in a state's `extra`: an evaluation belongs to this checkpoint
_NOT_FINITE = "nonfinite_steps"  # how many steps were left out since the run began
_PADDING = "padding"  # what `Summaries` has counted since the last report
_SECONDS = "seconds"  # how long the run has trained, all its processes together


class Trainer:
    """Trains a model in a run, from its newest whole checkpoint if there is one.

    Args:
        model: built and compiled; its loss is its own.
        make_dataset: called with the number of batches to leave out; returns the rest of an endless
            tf.data.Dataset of {"inputs", "targets"} that is the same at every start.
        run: gets checkpoints and metrics.
        plan: how long to train, and when to save and evaluate.
        log: how to report; None: as `plan` says, to standard output.
        evaluate: called with the step, while its checkpoint is being written, and a function that
            waits until it is whole. Returns {metric: value}, and reports them by itself.
        split: what `evaluate` evaluates.
        sample: which part of it, and what is decoded, in words, as in metrics.jsonl.
        encoders: of "inputs" and "targets", for what is written of a bad batch; None: ids alone.
        devices: what `devices.choose` returned. Of several workers the chief alone writes.
        summaries: what to report beside the loss; None: norms and padding, to metrics.jsonl and
            TensorBoard.
    """

    def __init__(
        self,
        model: GuardedModel,
        make_dataset: Callable[[int], Any],
        run: RunDirectory,
        plan: Plan,
        *,
        log: TrainingLog | None = None,
        evaluate: Evaluate | None = None,
        split: str = Split.EVAL,
        sample: str = "all",
        encoders: Mapping[str, Any] | None = None,
        devices: Devices = ONE,
        summaries: Summaries | None = None,
    ):
        writer = None if log or summaries else events.make_writer(run)
        every, last = plan.log_step_count_steps, plan.train_steps
        self._model, self._make_dataset, self._run, self._plan = model, make_dataset, run, plan
        self._log = log or make_log(run, plan, writer)
        self._evaluate, self._encoders, self._devices = evaluate, encoders, devices
        self._summaries = summaries or Summaries(model, every, last, writer=writer)
        self._evaluated = {"split": split, "sample": sample}
        self._is_chief = devices.cluster.is_chief
        self._saver = Saver(run.checkpoints_dir, plan.keep_checkpoint_max)
        if not self._is_chief:
            self._saver = NoSaver()
        self._state = checkpoints.State(step=0)  # that of the newest checkpoint
        self._step = self._batches = self._left_out = 0
        self._began = self._saved_at = time.monotonic()

    def train(self) -> checkpoints.State:
        """Trains until the plan ends; returns where the run stands then.

        Raises:
            UserError: if the loss or a gradient is not finite (the step is named), there is no
                memory, all checkpoints are damaged, or the data end.
            Interrupted: on a signal, inside `process.handle_signals`. The step that ran is saved.
            OSError: if a checkpoint could not be written; the earlier ones are whole.
        """
        self._begin()
        plan, log, saver = self._plan, self._log, self._saver
        # Until the last checkpoint is whole, a signal waits; but not while nothing is to be saved.
        with contextlib.closing(log), process.defer_signals(), contextlib.closing(saver):
            self._finish_evaluation()
            reason = self._reason_to_stop() if self._is_chief else ""
            (stop,) = self._devices.all_reduce([bool(reason)])
            done = self._step >= plan.train_steps
            if done or stop:
                ended = "the run is at" if done else "it stopped early at"
                why = "" if done else f": {reason}. --eval_early_stopping_steps=0 trains on"
                log.say(f"Nothing to train: {ended} step {self._step} of {plan.train_steps}{why}.")
                return self._state
            with process.deliver_signals():
                dataset = self._make_dataset(self._batches)
            left = plan.train_steps - self._step
            with ahead.of(dataset, self._devices, left, log.say) as programs:
                train_step = distribution.step_function(self._model, self._devices, programs)
                self._saved_at = time.monotonic()
                batches = distribution.batches(dataset)
                while self._step < plan.train_steps and not stop:
                    started = time.monotonic()
                    batch = self._next(batches)
                    loss = self._loss_of(train_step, batch)
                    if loss is None:
                        self._after_left_out()
                    else:
                        stop = self._after_step(batch, loss, started)
            saver.wait()
        return self._state

    def _begin(self) -> None:
        """Puts the model and this worker where the newest checkpoint of the chief stands."""
        state = self._state
        if self._is_chief:
            state = resume(self._model, self._run, self._log)
            self._summaries.restart(state.step, state.extra.get(_PADDING, (0, 0)))
        note = {"step": state.step, "batches": state.batches, "extra": state.extra}
        self._state = state = checkpoints.State(**self._devices.broadcast(self._model, note))
        self._step, self._batches = state.step, state.batches
        self._left_out = state.extra.get(_NOT_FINITE, 0)
        self._began = time.monotonic() - state.extra.get(_SECONDS, 0.0)

    def _next(self, batches) -> dict:
        """Returns the next batch."""
        batch = next(batches, None)
        if batch is None:
            raise UserError(
                f"Expected training data without end. Received: {self._batches} batches. Make the "
                "dataset with training=True, or repeat it."
            )
        self._batches += 1
        return batch

    def _loss_of(self, train_step: distribution.TrainStep, batch: dict) -> float | None:
        """Makes a step; returns its loss, None where it was not finite and is left out."""
        step = self._step + 1
        try:
            with guards.naming_the_batch(f"step {step}", batch):
                loss = train_step(batch, self._summaries.observer(step))
        except distribution.NotFinite as error:
            self._left_out += 1
            file: Any = "see the chief's"
            if self._is_chief:
                bad: dict[str, Any] = {"number": self._batches, "step": step, "loss": error.loss}
                file = guards.write_batch(self._run, batch, **bad, encoders=self._encoders)
            said = f"{error} at step {step}, on a batch of {guards.shapes(batch)} ({file})"
            most = self._plan.max_nonfinite_steps
            if self._left_out > most:
                raise UserError(_not_finite(said, self._left_out, self._run)) from error
            self._log.say(f"Left out a batch, {self._left_out} of {most}: {said}.")
            return None
        except UserError:
            raise
        except Exception as error:
            # A terminal's signal goes to XLA's compiler as well, which is another process.
            signum = process.received_signal()
            if not signum or not distribution.was_compiling(self._model):
                raise
            self._batches -= 1  # it is still to come
            if self._step > self._state.step:
                self._save(evaluate=False)
            self._saver.wait()
            raise Interrupted(signum, self._where() if self._step else "") from error
        self._step = step
        return loss

    def _after_step(self, batch: dict, loss: float, started: float) -> bool:
        """Reports a step, and saves and evaluates where that is due; returns whether to stop."""
        step, summaries = self._step, self._summaries
        # What all workers must agree on. The chief's clock decides what is due by time.
        received = process.received_signal()
        own = [distribution.count_tokens(batch), received > 0, self._is_due() and self._is_chief]
        tokens, signalled, due = self._devices.all_reduce(own)
        signum = received or (signal.SIGTERM if signalled else 0)
        seconds = time.monotonic() - started
        summaries.count(batch)
        self._log.step(
            *(step, loss, tokens, seconds, lambda: np.asarray(self._model.optimizer.learning_rate)),
            more=functools.partial(summaries.values, step, batch),
        )
        summaries.sample(step)
        self._saver.check()
        if not due and not signum:
            return False
        self._save(evaluate=bool(due))
        if signum:
            self._end_at(signum)
        reason = self._reason_to_stop() if self._finish_evaluation() else ""
        if self._plan.early_stopping is None or not self._devices.all_reduce([bool(reason)])[0]:
            return False
        self._log.say(f"Stopping early at step {step}: {reason}.")
        return True

    def _after_left_out(self) -> None:
        """Ends at a signal; where no step was made since the last save, the batch comes again."""
        received = process.received_signal()
        (signalled,) = self._devices.all_reduce([received > 0])
        if signalled:
            self._end_at(received or signal.SIGTERM)

    def _end_at(self, signum: int) -> None:
        """Saves the last step, unless it is saved, and raises Interrupted."""
        if self._step > self._state.step:
            self._save(evaluate=False)
        self._saver.wait()
        self._devices.all_reduce([0])  # no worker leaves before the chief has saved
        raise Interrupted(signum, self._where() if self._step else "")

    def _is_due(self) -> bool:
        """Whether to save and evaluate after this step."""
        if self._step == self._plan.train_steps:
            return True
        if self._plan.save_checkpoints_secs:
            return time.monotonic() - self._saved_at >= self._plan.save_checkpoints_secs
        return self._step % self._plan.local_eval_frequency == 0

    def _save(self, *, evaluate: bool) -> None:
        """Begins to write a checkpoint; `evaluate`: an evaluation belongs to it."""
        now = time.monotonic()
        each = 3600 * self._plan.keep_checkpoint_every_n_hours
        before, seconds = self._state.extra.get(_SECONDS, 0.0), round(now - self._began, 3)
        extra = {
            **({_NOT_FINITE: self._left_out} if self._left_out else {}),
            _SECONDS: seconds,
            _PADDING: self._summaries.counted(),
            _EVALUATE: evaluate and self._evaluate is not None,
            PERMANENT: seconds // each > before // each,
        }
        self._state = checkpoints.State(step=self._step, batches=self._batches, extra=extra)
        self._saver.save(self._model, self._state)
        self._saved_at = time.monotonic()

    def _finish_evaluation(self) -> bool:
        """Evaluates the newest checkpoint if that is due and was not done; returns whether it is.

        One that was evaluated before a kill is not evaluated again, but may not be among the best.
        """
        step = self._state.step
        if self._evaluate is None or not self._state.extra.get(_EVALUATE):
            return False
        wanted = {"kind": "eval", "step": step, **self._evaluated}
        judges = (self._plan.keep_best, self._plan.early_stopping)
        needed = {judge.metric for judge in judges if judge}
        # Runs of old say no sample.
        rows = [{"sample": wanted["sample"], **row} for row in self._run.read_metrics()]
        done = [row for row in rows if row.items() >= wanted.items() and row.keys() >= needed]
        try:
            with process.deliver_signals(), moving_average.in_place(self._model):
                values = done[-1] if done else self._evaluate(step, self._saver.wait)
        except Interrupted as stop:
            self._saver.wait()
            raise Interrupted(stop.signum, self._where()) from None
        self._saver.wait()
        best, say = self._plan.keep_best, self._log.say
        if best and best.add(self._run, step, values, **self._evaluated, say=say) and not done:
            say(f"Among the best by {best.metric}: {best.directory(self._run).path}")
        return True

    def _reason_to_stop(self) -> str:
        """Returns why the evaluations so far end the run; "": they do not."""
        early = self._plan.early_stopping
        sample = self._evaluated["sample"]
        return early.reason(self._run.read_metrics(), sample) if early else ""

    def _where(self) -> str:
        """Returns where the run stands, for the message of a signal."""
        step = self._state.step
        if not self._is_chief:
            return f" at step {step}, saved by the chief"
        return f" at step {step}, saved as {self._run.checkpoints_dir / f'ckpt-{step}'}"


class NoWholeCheckpoint(UserError):
    """There are checkpoints, and all are damaged."""


def resume(model: GuardedModel, run: RunDirectory, log: TrainingLog) -> checkpoints.State:
    """Restores the newest whole checkpoint of `run`; State(step=0) if there is none.

    Metrics of the steps after it are left out: these steps will be made again.

    Raises:
        NoWholeCheckpoint: if there are some but none is whole.
    """
    newest = checkpoints.latest(run.checkpoints_dir, log.say)
    if newest is None:
        damaged = len(checkpoints.list_checkpoints(run.checkpoints_dir))
        if damaged:
            raise NoWholeCheckpoint(
                f"Expected a whole checkpoint in {run.checkpoints_dir}. Received: {damaged}, none "
                "of them whole, as said above. Put back a copy of one, or remove that folder to "
                "train again from step 0."
            )
        run.cut_metrics(0)
        return checkpoints.State(step=0)
    state = model_state.restore(model, newest)
    run.cut_metrics(state.step)
    log.say(f"Continuing from {newest} (step {state.step}).")
    return state


def _not_finite(said: str, count: int, run: RunDirectory) -> str:
    newest = checkpoints.latest(run.checkpoints_dir)
    kept = f"the newest checkpoint is {newest}" if newest else "there is no checkpoint yet"
    return (
        f"Expected a finite loss and gradients. Received: {said}; {kept}. {guards.WHAT_TO_DO}; "
        f"--max_nonfinite_steps={count} leaves the step out."
    )

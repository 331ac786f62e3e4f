"""What a run says while it trains: a line for people, metrics.jsonl for programs."""

import math
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from t2t_repro.progress import duration
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training.events import EventWriter
from t2t_repro.training.request import Plan
from t2t_repro.training.state import BLEU_SIGNATURE, DECODED_BLEU


class TrainingLog:
    """Reports steps and evaluations of one run.

    Args:
        run: gets metrics.jsonl.
        train_steps: where the run ends.
        every: report each this many steps.
        stream: where the lines go; a terminal gets one line that is written over and over between
            reports, anything else a line per report.
        events: called with "train" or "eval", the step and {name: value} of each report.
    """

    def __init__(
        self,
        run: RunDirectory,
        train_steps: int,
        every: int,
        stream: TextIO | None = None,
        events: Callable[[str, int, dict[str, float]], None] | None = None,
    ):
        self._run = run
        self._train_steps = train_steps
        self._every = every
        self._stream = stream or sys.stdout
        self._events = events or (lambda kind, step, values: None)
        self._seconds = self._total_seconds = 0.0
        self._tokens = self._steps = self._total_steps = 0
        self._shown = 0.0
        self._unfinished_line = False

    def step(
        self,
        step: int,
        loss: float,
        tokens: int,
        seconds: float,
        learning_rate: Callable[[], Any],
        more: Callable[[], dict[str, float]] = dict,
    ) -> None:
        """Adds one step.

        Args:
            step: how many steps are done.
            loss: that of this step.
            tokens: its real target tokens.
            seconds: how long it took.
            learning_rate: called for its value when there is something to report.
            more: called for what else to record of a step that is reported.
        """
        first = self._total_steps == 0
        self._total_steps += 1
        if not first:  # the first step of a process compiles
            self._steps += 1
            self._tokens += tokens
            self._seconds += seconds
            self._total_seconds += seconds
        now = time.monotonic()
        report = step % self._every == 0 or step == self._train_steps
        overwrite = self._stream.isatty() and now - self._shown > 0.5
        if not report and not overwrite:
            return
        self._shown = now
        rate = float(learning_rate())
        tokens_per_second = self._tokens / self._seconds if self._seconds else 0.0
        text = f"step {step}/{self._train_steps} | loss {loss:.4f} | learning rate {rate:.3e}"
        if self._seconds:
            left = (self._train_steps - step) * self._total_seconds / (self._total_steps - 1)
            text += f" | {tokens_per_second:,.0f} tokens/s | {duration(left)} left"
        if not report:
            self._write(text, overwrite=True)
            return
        self.say(text)
        values = {"loss": loss, "learning_rate": rate, "tokens_per_second": tokens_per_second}
        self._record("train", step, values | more())
        self._tokens = self._steps = 0
        self._seconds = 0.0

    def evaluation(
        self,
        step: int,
        values: dict[str, float],
        split: str,
        seconds: float,
        *,
        sample: str = "all",
        signature: str = "",
        record: bool = True,
    ) -> None:
        """Reports what an evaluation found.

        Args:
            step: that of the weights.
            values: {metric: value}.
            split: what was evaluated.
            seconds: how long it took.
            sample: how much of the split that is, in words.
            signature: sacreBLEU's, of `DECODED_BLEU`.
            record: write it into metrics.jsonl and the events too.
        """
        shown = " | ".join(f"{name} {value:.4f}" for name, value in values.items())
        forced = "else teacher-forced" if DECODED_BLEU in values else "teacher-forced"
        what = f"{split} ({sample}; {forced})"
        self.say(f"step {step} | {what}: {shown} | {duration(seconds)}")
        if record:
            labels = {BLEU_SIGNATURE: signature} if signature else {}
            self._record("eval", step, values, split=split, sample=sample, **labels)

    def recorded(self, step: int, split: str, sample: str) -> dict[str, float]:
        """Returns what `evaluation` has recorded of these before; {} if nothing."""
        wanted = {"kind": "eval", "step": step, "split": split, "sample": sample}
        for row in reversed(self._run.read_metrics()):
            if {"sample": sample, **row}.items() >= wanted.items():  # runs of old say no sample
                others = (*wanted, "time", BLEU_SIGNATURE)
                return {name: float(row[name]) for name in row if name not in others}
        return {}

    def say(self, text: str) -> None:
        """Prints a line of its own."""
        self._write(text, overwrite=False)

    def close(self) -> None:
        """Ends a line that was to be written over."""
        if self._unfinished_line:
            print(file=self._stream, flush=True)
            self._unfinished_line = False

    def _write(self, text: str, overwrite: bool) -> None:
        clear = "\r\x1b[K" if self._unfinished_line else ""
        print(clear + text, end="" if overwrite else "\n", file=self._stream, flush=True)
        self._unfinished_line = overwrite

    def _record(self, kind: str, step: int, values: dict[str, float], **labels: str) -> None:
        # JSON has no NaN: what is not finite is written as text.
        finite = {name: v if math.isfinite(v) else str(v) for name, v in values.items()}
        head = {"kind": kind, "step": step, "time": round(time.time(), 3)} | labels
        self._run.append_metrics(head | finite)
        self._events(kind, step, values)


class SilentLog(TrainingLog):
    """That of a worker which leaves the reports to the chief."""

    def _write(self, text: str, overwrite: bool) -> None:
        pass

    def _record(self, kind: str, step: int, values: dict[str, float], **labels: str) -> None:
        pass


def make_log(run: RunDirectory, plan: Plan, writer: EventWriter | None = None) -> TrainingLog:
    """Returns a log to standard output, metrics.jsonl and, if there is one, TensorBoard."""
    events = writer.scalars if writer else None
    return TrainingLog(run, plan.train_steps, plan.log_step_count_steps, events=events)

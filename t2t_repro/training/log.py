"""What a run reports: a line for people, metrics.jsonl for programs, events for TensorBoard.

TensorBoard's files are written with its own writer. It loads TensorFlow where that is installed, so
that a run under JAX writes none: its metrics.jsonl has the numbers.
"""

import dataclasses
import math
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import keras
import numpy as np
from keras import ops

from t2t_repro.progress import duration
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.state import BLEU_SIGNATURE, DECODED_BLEU

TRAIN = "train"  # the kind whose events lie in the run directory itself
Samples = Callable[[int, "EventWriter"], None]  # writes samples of what the model does at a step
SUBLAYER = re.compile(r"((?:encoder|decoder)/layer_\d+/[^/]+)/")


@dataclasses.dataclass(eq=False)
class TrainingLog:
    """Reports steps and evaluations of one run.

    Attributes:
        run: gets metrics.jsonl; None: nothing is reported, for a worker that is not the chief.
        train_steps: where the run ends.
        every: report each this many steps, and the last.
        stream: where the lines go; a terminal gets one line that is overwritten between reports,
            anything else a line per report.
        writer: gets the events; None: there are none.
    """

    run: RunDirectory | None
    train_steps: int
    every: int
    stream: TextIO = dataclasses.field(default_factory=lambda: sys.stdout)
    writer: "EventWriter | None" = None

    def __post_init__(self):
        self._seconds = self._total_seconds = self._shown = 0.0
        self._tokens = self._total_steps = 0
        self._unfinished_line = False

    def is_due(self, step: int) -> bool:
        """Whether a step is reported."""
        return step % self.every == 0 or step == self.train_steps

    def step(
        self,
        step: int,
        loss: float,
        tokens: int,
        seconds: float,
        learning_rate: Callable[[], Any],
        more: Callable[[], tuple[dict[str, float], dict[str, float]]] = lambda: ({}, {}),
    ) -> None:
        """Adds one step.

        Args:
            step: how many steps are done.
            loss: that of this step.
            tokens: its real target tokens.
            seconds: how long it took.
            learning_rate: called for its value when there is something to report.
            more: called in reported steps for further values, and for those that go only into the
                events.
        """
        if self._total_steps:  # the first step of a process compiles
            self._tokens += tokens
            self._seconds += seconds
            self._total_seconds += seconds
        self._total_steps += 1
        now = time.monotonic()
        report = self.is_due(step)
        overwrite = self.stream.isatty() and now - self._shown > 0.5
        if not report and not overwrite:
            return
        self._shown = now
        rate = float(learning_rate())
        tokens_per_second = self._tokens / self._seconds if self._seconds else 0.0
        text = f"step {step}/{self.train_steps} | loss {loss:.4f} | learning rate {rate:.3e}"
        if self._seconds:
            left = (self.train_steps - step) * self._total_seconds / (self._total_steps - 1)
            text += f" | {tokens_per_second:,.0f} tokens/s | {duration(left)} left"
        if not report:
            self._write(text, overwrite=True)
            return
        self.say(text)
        values = {"loss": loss, "learning_rate": rate, "tokens_per_second": tokens_per_second}
        others, parts = more()
        self._record("train", step, values | others, parts)
        self._tokens, self._seconds = 0, 0.0

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
        forced = "other metrics teacher-forced" if DECODED_BLEU in values else "teacher-forced"
        what = f"{split} ({sample}; {forced})"
        self.say(f"step {step} | {what}: {shown} | {duration(seconds)}")
        if record:
            labels = {BLEU_SIGNATURE: signature} if signature else {}
            self._record("eval", step, values, {}, split=split, sample=sample, **labels)

    def recorded(self, step: int, split: str, sample: str) -> dict[str, float]:
        """Returns what `evaluation` recorded before for these; {} if nothing."""
        wanted = {"kind": "eval", "step": step, "split": split, "sample": sample}
        for row in reversed(self.run.read_metrics() if self.run else []):
            if {"sample": sample, **row}.items() >= wanted.items():  # old runs have no sample
                others = (*wanted, "time", BLEU_SIGNATURE)
                return {name: float(row[name]) for name in row if name not in others}
        return {}

    def restart(self, step: int) -> None:
        """Declares that the run resumes from a step: later reports are void."""
        if self.run is not None:
            self.run.cut_metrics(step)
        if self.writer is not None:
            self.writer.restart(step)

    def say(self, text: str) -> None:
        """Prints a line of its own."""
        self._write(text, overwrite=False)

    def close(self) -> None:
        """Ends a line that would be overwritten."""
        if self._unfinished_line:
            print(file=self.stream, flush=True)
            self._unfinished_line = False

    def _write(self, text: str, overwrite: bool) -> None:
        if self.run is None:
            return
        clear = "\r\x1b[K" if self._unfinished_line else ""
        print(clear + text, end="" if overwrite else "\n", file=self.stream, flush=True)
        self._unfinished_line = overwrite

    def _record(
        self,
        kind: str,
        step: int,
        values: dict[str, float],
        parts: dict[str, float],
        **labels: str,
    ) -> None:
        if self.run is None:
            return
        # JSON has no NaN: non-finite values are written as text.
        finite = {name: v if math.isfinite(v) else str(v) for name, v in values.items()}
        head = {"kind": kind, "step": step, "time": round(time.time(), 3)} | labels
        self.run.append_metrics(head | finite)
        if self.writer is not None:
            self.writer.scalars(kind, step, values | parts)


class EventWriter:
    """Writes events into a folder: those of "train" and of "" into it, others into a subfolder."""

    def __init__(self, folder: str | os.PathLike):
        self._folder = pathlib.Path(folder)
        self._writers: dict[str, Any] = {}

    def scalars(
        self, kind: str, step: int, values: Mapping[str, float], wall_time: float | None = None
    ) -> None:
        """Writes {name: value}, under the time `wall_time` in seconds; None: the present."""
        scalars = [{"tag": name, "simple_value": value} for name, value in values.items()]
        self._add(kind, step, wall_time, summary={"value": scalars})

    def text(self, kind: str, step: int, name: str, markdown: str) -> None:
        """Writes text in Markdown."""
        from tensorboard.plugins.text.metadata import create_summary_metadata

        self._strings(kind, step, name, [markdown], create_summary_metadata(name, ""))

    def picture(self, kind: str, step: int, name: str, png: bytes) -> None:
        """Writes a PNG."""
        from tensorboard.plugins.image.metadata import create_summary_metadata

        width, height = (str(int.from_bytes(png[at : at + 4], "big")) for at in (16, 20))
        strings = [width, height, png]
        self._strings(kind, step, name, strings, create_summary_metadata(name, ""))

    def restart(self, step: int) -> None:
        """Tells TensorBoard that the run resumes from `step`: later events are void."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        others = {path.parent.name for path in self._folder.glob("*/events.out.tfevents*")}
        for kind in (TRAIN, *sorted(others)):
            self._add(kind, step + 1, session_log={"status": SessionLog.START})

    def close(self) -> None:
        """Ends the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()  # what is written later begins files of its own

    def _strings(self, kind: str, step: int, name: str, strings: list, metadata: Any) -> None:
        from tensorboard.util.tensor_util import make_tensor_proto

        tensor = make_tensor_proto(np.array(strings, dtype=object))
        value = {"tag": name, "tensor": tensor, "metadata": metadata}
        self._add(kind, step, summary={"value": [value]})

    def _add(self, kind: str, step: int, wall_time: float | None = None, **content: Any) -> None:
        """Writes an event of a summary or another part of tensorboard's Event."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if kind not in self._writers:
            where = self._folder if kind == TRAIN else self._folder / kind
            self._writers[kind] = EventFileWriter(str(where))
        when = time.time() if wall_time is None else wall_time
        self._writers[kind].add_event(Event(wall_time=when, step=step, **content))
        self._writers[kind].flush()


def make_writer(run: RunDirectory) -> EventWriter | None:
    """Returns the writer of a run's TensorBoard events; None under other backends than TensorFlow.

    It would load TensorFlow, which may be absent there, or take the memory of a GPU.
    """
    return EventWriter(run.path) if keras.backend.backend() == "tensorflow" else None


def norms(
    model: keras.Model, gradients: np.ndarray | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the global norms of a model, and those of its parts.

    Args:
        model: built.
        gradients: float32 (trainable variables,), the squared norm of the gradient of each; None:
            not known.

    Returns:
        {"weight_norm": that of all trainable weights, "gradient_norm"}, and {"weight_norm/PART":
        ...}, of each sublayer and of the other parts.
    """
    squares = {} if gradients is None else {"gradient_norm": gradients}
    # Of each variable, computed where it lies.
    of_weights = [ops.sum(ops.square(ops.cast(v, "float32"))) for v in model.trainable_variables]
    squares["weight_norm"] = np.asarray(ops.stack(of_weights))
    whole = {name: float(np.sqrt(of.sum())) for name, of in squares.items()}
    parts = {
        f"{name}/{place}": float(np.sqrt(of[indices].sum()))
        for name, of in squares.items()
        for place, indices in _places(model).items()
    }
    return whole, parts


def _places(model: keras.Model) -> dict[str, list[int]]:
    """Returns which trainable variables belong to each sublayer or other part."""
    names = {id(v): name for name, v in checkpoints.weights(model).items()}
    places: dict[str, list[int]] = {}
    for index, variable in enumerate(model.trainable_variables):
        name = names[id(variable)]
        sublayer = SUBLAYER.match(name)
        place = sublayer[1] if sublayer else name.partition("/")[0]
        places.setdefault(place, []).append(index)
    return places

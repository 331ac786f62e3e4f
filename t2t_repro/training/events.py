"""What TensorBoard shows of a run: scalars, text, pictures and hyperparameters.

The files are written with tensorboard's own writer. It loads TensorFlow where that is installed, so
that a run under JAX writes none: its metrics.jsonl has the numbers.
"""

import dataclasses
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro.config import HParams
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training.system_errors import system_errors

TRAIN = "train"  # the kind whose events lie in the run directory itself


class EventWriter:
    """Writes events into a folder: those of "train" and of "" into it, others into a subfolder."""

    def __init__(self, folder: str | os.PathLike):
        self._folder = pathlib.Path(folder)
        self._writers: dict[str, Any] = {}

    def scalars(
        self, kind: str, step: int, values: Mapping[str, float], wall_time: float | None = None
    ) -> None:
        """Writes {name: value}, under the time `wall_time` in seconds; None: the present."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=k, simple_value=v) for k, v in values.items()]
        self._add(kind, step, scalars, wall_time)

    def text(self, kind: str, step: int, name: str, markdown: str) -> None:
        """Writes text in Markdown."""
        from tensorboard.plugins.text import metadata

        self._strings(kind, step, name, [markdown], metadata.create_summary_metadata(name, ""))

    def picture(self, kind: str, step: int, name: str, png: bytes) -> None:
        """Writes a PNG."""
        from tensorboard.plugins.image import metadata

        width, height = (str(int.from_bytes(png[at : at + 4], "big")) for at in (16, 20))
        strings = [width, height, png]
        self._strings(kind, step, name, strings, metadata.create_summary_metadata(name, ""))

    def hparams(self, name: str, hparams: HParams, metrics: Sequence[tuple[str, str]]) -> None:
        """Writes a run's hyperparameters for the HParams plugin.

        Args:
            name: of the run.
            hparams: all of them.
            metrics: kind and name of each scalar that runs are to be compared by.
        """
        from tensorboard.plugins.hparams import api, summary_v2

        values = {
            field: value if isinstance(value, bool | int | float) else str(value)
            for field, value in dataclasses.asdict(hparams).items()
        }
        described = [
            api.Metric(metric, group="" if kind == TRAIN else kind, display_name=f"{kind} {metric}")
            for kind, metric in metrics
        ]
        config = summary_v2.hparams_config_pb([api.HParam(k) for k in values], described)
        start = summary_v2.hparams_pb(values, trial_id=name)
        self._add(TRAIN, 0, [*config.value, *start.value])

    def restart(self, step: int) -> None:
        """Tells TensorBoard that the run goes on from `step`: later events are of steps undone."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        for kind in (TRAIN, *(path.name for path in self._folder.glob("*/") if _has_events(path))):
            session = SessionLog(status=SessionLog.START)
            event = Event(wall_time=time.time(), step=step + 1, session_log=session)
            with system_errors(self._folder):
                self._writer(kind).add_event(event)
                self._writer(kind).flush()

    def _strings(self, kind: str, step: int, name: str, strings: list, metadata: Any) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.util import tensor_util

        tensor = tensor_util.make_tensor_proto(np.array(strings, dtype=object))
        self._add(kind, step, [Summary.Value(tag=name, tensor=tensor, metadata=metadata)])

    def close(self) -> None:
        """Ends the files."""
        for writer in self._writers.values():
            with system_errors(self._folder):
                writer.close()
        self._writers.clear()  # what is written later begins files of its own

    def _add(self, kind: str, step: int, values: list, wall_time: float | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        when = time.time() if wall_time is None else wall_time
        with system_errors(self._folder):
            writer = self._writer(kind)
            writer.add_event(Event(wall_time=when, step=step, summary=Summary(value=values)))
            writer.flush()

    def _writer(self, kind: str) -> Any:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if kind not in self._writers:
            where = self._folder if kind == TRAIN else self._folder / kind
            self._writers[kind] = EventFileWriter(str(where))
        return self._writers[kind]


def _has_events(folder: pathlib.Path) -> bool:
    return any(folder.glob("events.out.tfevents*"))


def make_writer(run: RunDirectory) -> EventWriter | None:
    """Returns the writer of a run's TensorBoard events; None under other backends than TensorFlow.

    It would load TensorFlow, which may be absent there, or take the memory of a GPU.
    """
    return EventWriter(run.path) if keras.backend.backend() == "tensorflow" else None

"""A few training steps on made-up sentences, in a process of their own: what a step takes here."""

import dataclasses
import os
import statistics
import time
from collections.abc import Callable

from t2t_repro import memory, processes, registry
from t2t_repro.config import HParams
from t2t_repro.models.batch_shape import BatchShape

SECONDS = 20.0  # for the steps that count; the first, which compiles, comes before them
MOST_SECONDS = 240.0  # then the process is ended
MOST_STEPS = 10


@dataclasses.dataclass(frozen=True)
class Trial:
    """What steps took.

    Attributes:
        step_seconds: the median of a step's time; 0: none was made in `MOST_SECONDS`.
        memory: the largest of the process, bytes; on a GPU, of one's own memory.
        failure: how the memory ran out; "": it did not.
    """

    step_seconds: float = 0.0
    memory: int = 0
    failure: str = ""


def run(
    hparams: HParams,
    vocab_sizes: tuple[int, int],
    shape: BatchShape,
    worker_gpu: int | None = None,
    threads: tuple[int, int] = (0, 0),
    xla_compile: bool = False,
    load_user_code: Callable[[], None] | None = None,
) -> Trial:
    """Makes steps, on all the devices that a run would have, in a process of its own.

    Args:
        hparams: the model's and its optimizer's.
        vocab_sizes: of inputs and targets.
        shape: of each device's part of a batch.
        worker_gpu: as `devices.choose`.
        threads: as `devices.set_threads`.
        xla_compile: as `machine.compiles`.
        load_user_code: as in `TrainRequest`.
    """
    until = time.monotonic() + MOST_SECONDS
    ended = processes.run(
        *(_steps, hparams, vocab_sizes, shape, worker_gpu, threads, xla_compile),
        load_user_code,
        watch=lambda pid: time.monotonic() < until,
    )
    if ended.result is not None:
        return ended.result
    was_killed = time.monotonic() >= until
    return Trial(failure="" if was_killed else ended.lacked_memory())


def _steps(
    hparams: HParams,
    vocab_sizes: tuple[int, int],
    shape: BatchShape,
    worker_gpu: int | None,
    threads: tuple[int, int],
    xla_compile: bool,
    load_user_code: Callable[[], None] | None,
) -> Trial:
    os.environ.pop("TF_CONFIG", None)  # of a cluster, to which a trial does not belong
    if load_user_code:
        load_user_code()
    import numpy as np

    from t2t_repro.training import devices, distribution, machine, optimizers

    devices.set_threads(*threads)
    where = devices.choose(worker_gpu)
    with where.scope():
        model = registry.get_model(hparams.model).from_hparams(
            hparams, inputs_vocab_size=vocab_sizes[0], targets_vocab_size=vocab_sizes[1]
        )
        compiled = machine.compiles(xla_compile)
        model.compile(optimizer=optimizers.from_hparams(hparams), jit_compile=compiled)
        model.optimizer.build(model.trainable_variables)
    sentences = max(1, round(shape.sentences)) * where.local
    rng = np.random.default_rng(0)
    lengths = {"inputs": shape.source_length, "targets": shape.target_length}
    batch = {
        name: rng.integers(2, size, (sentences, max(1, round(lengths[name]))), dtype="int32")
        for (name, size) in zip(lengths, vocab_sizes, strict=True)
    }
    step = distribution.step_function(model, where)
    step(batch)
    taken: list[float] = []
    while len(taken) < 2 or (sum(taken) < SECONDS and len(taken) < MOST_STEPS):
        started = time.monotonic()
        step(batch)
        taken.append(time.monotonic() - started)
    return Trial(statistics.median(taken), machine.device_memory_peak() or memory.peak())

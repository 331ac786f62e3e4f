"""Into how many parts a step cuts its batch, and the threads that suit.

A step of a small model is thousands of operations, most too small for two threads. So each core
gets a part of the batch, and an operation one thread (benchmarks/RESULTS.md, "At width 128"). The
parts draw their own dropout: a run goes on with as many as it began with.
"""

import contextlib
import dataclasses

import keras

from t2t_repro.cores import available_cores
from t2t_repro.errors import UserError
from t2t_repro.hparam_rules import TRANSFORMER
from t2t_repro.training import devices
from t2t_repro.training.devices import Devices
from t2t_repro.training.request import TrainRequest

WIDEST = 256  # the largest hidden_size whose operations are small
PARTS = 2


def decided(request: TrainRequest, where: Devices) -> TrainRequest:
    """Returns the request with its `batch_parts` and `threads`, and tells TensorFlow of these.

    Args:
        request: what to train; its own batch_parts, if not 0, is what the user asks for.
        where: the devices that it has.

    Raises:
        UserError: if parts are asked for where several devices share the batch, or of JAX.
    """
    config, shared = request.config, _shared(where)
    if config.batch_parts > 1 and shared:
        raise UserError(
            "Expected one device of TensorFlow with --batch_parts. Received: "
            f"{config.batch_parts} parts, and {devices.described() if _is_jax() else where}. "
            "Leave --batch_parts out."
        )
    recorded = request.run.config().batch_parts if request.run.exists() else 0
    parts = config.batch_parts or recorded or _chosen(request, where)
    threads = request.threads
    if parts > 1 and not shared:
        devices.keep_freed_memory()
    if parts > 1 and not shared and threads == (0, 0):
        threads = (parts, max(1, available_cores() // parts))
        with contextlib.suppress(RuntimeError):  # TensorFlow runs: it has the threads that it has
            devices.set_threads(*threads)
    config = dataclasses.replace(config, batch_parts=parts)
    return dataclasses.replace(request, config=config, threads=threads)


def use(model: keras.Model, parts: int, where: Devices) -> None:
    """Lets a model's steps cut their batches, where no devices and no other backend computes."""
    if not _shared(where):
        model.batch_parts = parts


def described(parts: int) -> str:
    """Returns in words what a step does."""
    return (
        f"Each step computes its batch in {parts} parts side by side, each with dropout of its own "
        "(--batch_parts, kept in run.json)."
    )


def _chosen(request: TrainRequest, where: Devices) -> int:
    hparams, cores = request.config.hparams, available_cores()
    alone = where.kind == "CPU" and not _shared(where)
    small = hparams.model == TRANSFORMER and hparams.hidden_size <= WIDEST
    return PARTS if alone and small and cores >= PARTS and request.threads == (0, 0) else 1


def _shared(where: Devices) -> bool:
    """Whether several devices share the batch, or JAX computes the step."""
    return where.strategy is not None or _is_jax()


def _is_jax() -> bool:
    return keras.backend.backend() != "tensorflow"

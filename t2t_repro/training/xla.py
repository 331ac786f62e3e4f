"""Where XLA may be asked to compile the steps of a run (--xla_compile): TensorFlow's, on one GPU.

It compiles each shape of a batch anew. So training pads a batch to the longest that its bucket
allows, as under JAX, and a run has as many shapes as buckets.
"""

import keras

from t2t_repro.errors import UserError
from t2t_repro.hparam_rules import RECURRENT
from t2t_repro.training import devices
from t2t_repro.training.devices import Devices
from t2t_repro.training.request import TrainRequest


def check(request: TrainRequest, where: Devices) -> None:
    """Refuses --xla_compile where TensorFlow cannot do it, and a new run's where it is of no use.

    Raises:
        UserError: with the reason.
    """
    if not request.config.xla_compile:
        return
    is_jax, is_new, why = keras.backend.backend() == "jax", not request.run.exists(), ""
    model = request.config.hparams.model
    if is_jax and is_new:
        why = f"{devices.described()}, which compiles all steps"
    elif where.strategy is not None and not is_jax:
        why = f"{where}, of which TensorFlow cannot compile a step that they share; one can: "
        why += "--worker_gpu=1. With KERAS_BACKEND=jax the steps of several are compiled"
    elif model in RECURRENT and not is_jax:
        why = f"model={model}, whose loop over tokens TensorFlow cannot compile with its gradient; "
        why += "with KERAS_BACKEND=jax its steps are compiled"
    elif where.kind == "CPU" and not is_jax and is_new:
        why = (
            "a CPU, on which XLA compiles each shape of a batch anew, and a step gets no faster; "
            "with KERAS_BACKEND=jax all steps are compiled"
        )
    if why:
        raise UserError(
            f"Expected TensorFlow on one GPU with --xla_compile. Received: {why}. Leave "
            "--xla_compile out."
        )

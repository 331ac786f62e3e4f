"""The learning rate as a function of the step: every schedule that T2T's hparam sets name.

Source: T2T utils/learning_rate.py. The arithmetic is in float32 and in T2T's order, because near
the end of a cosine the difference shows. Where T2T's own result is not a number, ours is the limit.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.config import HParams
from t2t_repro.training import trainable

Factor = Callable[[HParams, Any], Any]  # (hparams, float32 step) -> float32 factor


def highest(hparams: HParams, steps: int) -> float:
    """Returns the highest rate of a training of `steps` batches, at 100 of them and at the end of
    the warm-up."""
    rate = Schedule(hparams)
    last = max(1, steps - 1)
    peak = min(max(1, hparams.learning_rate_warmup_steps * trainable.gathered(hparams)), last)
    return max(float(rate(step)) for step in (peak, *np.linspace(1, last, 100).astype(int)))


@keras.saving.register_keras_serializable("t2t_repro")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """The product of the factors that `learning_rate_schedule` names, never below
    `learning_rate_minimum` (a floor that T2T declares and does not read).

    `Schedule(hparams)(step)` is the rate of the update that follows `step` batches, for a Python
    number, a tensor or a variable; `float()` accepts it.

    Args:
        hparams: the whole configuration; a dictionary of its fields when loaded from a config.

    Raises:
        UserError: on an unknown name.
    """

    def __init__(self, hparams: HParams | dict[str, Any]):
        self.hparams = hparams if isinstance(hparams, HParams) else HParams(**hparams)
        trainable.check(self.hparams)
        self._factors = [_FACTORS[name] for name in self.hparams.factors]

    def __call__(self, step):
        """Returns the rate, a float32 scalar; `step` is the number of batches trained on so far."""
        step = ops.cast(ops.convert_to_tensor(step), "float32")
        if self.hparams.optimizer_multistep_accumulate_steps:
            step = step / float(self.hparams.optimizer_multistep_accumulate_steps)
        rate = ops.ones((), "float32")
        for factor in self._factors:
            rate = rate * factor(self.hparams, step)
        if self.hparams.learning_rate_minimum is not None:
            rate = ops.maximum(rate, self.hparams.learning_rate_minimum)
        return rate

    def get_config(self) -> dict[str, Any]:
        return {"hparams": dataclasses.asdict(self.hparams)}


# --- the named factors (T2T `learning_rate_factor`)


def _constant(hp, step):
    return hp.learning_rate_constant


def _linear_warmup(hp, step):
    if not hp.learning_rate_warmup_steps:
        return ops.ones_like(step)
    return ops.minimum(1.0, step / hp.learning_rate_warmup_steps)


def _linear_decay(hp, step):
    left = (hp.train_steps - step) / hp.learning_rate_decay_steps
    return ops.minimum(1.0, ops.maximum(0.0, left))


def _cosdecay(hp, step):
    """The cosine's period counts from step 0, so the rate jumps down where the warmup ends."""
    decay = 0.5 * (1.0 + ops.cos(math.pi * step / hp.learning_rate_decay_steps))
    return ops.where(step <= hp.learning_rate_warmup_steps, 1.0, decay)


def _single_cycle_cos_decay(hp, step):
    return _cosine_after_warmup(hp, step, hp.train_steps - hp.learning_rate_warmup_steps)


def _multi_cycle_cos_decay(hp, step):
    return _cosine_after_warmup(hp, step, hp.learning_rate_decay_steps)


def _cosine_after_warmup(hp, step, length):
    after_warmup = ops.maximum(step, hp.learning_rate_warmup_steps) - hp.learning_rate_warmup_steps
    return ops.cos(after_warmup * math.pi / length) / 2.0 + 0.5


def _rsqrt_decay(hp, step):
    return ops.rsqrt(ops.maximum(step, max(hp.learning_rate_warmup_steps, 1.0)))


def _rsqrt_normalized_decay(hp, step):
    return ops.sqrt(float(hp.learning_rate_warmup_steps)) * _rsqrt_decay(hp, step)


def _exp_decay(hp, step):
    periods = (step - hp.learning_rate_warmup_steps) / hp.learning_rate_decay_steps
    periods = ops.maximum(periods, 0.0)
    if hp.learning_rate_decay_staircase:
        periods = ops.floor(periods)
    return ops.power(_float32(hp.learning_rate_decay_rate), periods)


def _rsqrt_hidden_size(hp, step):
    return hp.hidden_size**-0.5


# --- the legacy schedule (T2T `legacy_learning_rate_schedule`)


def _legacy(hp, step):
    """learning_rate times a decay scheme; all but "noam" warm up exponentially from 0.01."""
    if hp.learning_rate_decay_scheme == "noam":
        rate = _noam(hp, step)
    else:
        decay = _SCHEMES[hp.learning_rate_decay_scheme or "none"](hp, step)
        rate = ops.where(step < hp.learning_rate_warmup_steps, _exponential_warmup(hp, step), decay)
    return rate * correction(hp) * hp.learning_rate


def correction(hparams: HParams) -> float:
    """Returns T2T's factor for optimizers with a lower-case "adam" in their name, in the legacy
    schedule alone; "Adam" and "Adafactor" get none.
    """
    return 0.002 if "adam" in hparams.optimizer else 1.0


def _exponential_warmup(hp, step):
    if not hp.learning_rate_warmup_steps:
        return ops.ones_like(step)
    warmup = float(hp.learning_rate_warmup_steps)
    return ops.power(ops.exp(ops.log(_float32(0.01)) / warmup), warmup - step)


def _noam(hp, step):
    """Counts from step + 1, unlike the named factors."""
    count = step + 1.0
    decay = ops.power(count, -0.5)
    if hp.learning_rate_warmup_steps:
        warmup = ops.power(_float32(hp.learning_rate_warmup_steps), -1.5)
        decay = ops.minimum(count * warmup, decay)
    return 5000.0 * hp.hidden_size**-0.5 * decay


def _none(hp, step):
    return ops.ones_like(step)


def _cosine(hp, step):
    """Down and up again in 2 * learning_rate_cosine_cycle_steps."""
    cycle = float(hp.learning_rate_cosine_cycle_steps)
    position = cycle - ops.abs(cycle - ops.mod(step, 2 * cycle))
    return 0.5 * (1.0 + ops.cos(math.pi * position / cycle))


def _cyclelinear10x(hp, step):
    """Up tenfold in one warmup's length, down in the next: 0.3 to 3 and back."""
    cycle = float(hp.learning_rate_warmup_steps)
    position = (ops.mod(step, 2 * cycle) - cycle) / cycle
    return (1.0 - ops.abs(position) + 0.1) * 3.0


def _sqrt(hp, step):
    return 500.0 / ops.sqrt(ops.maximum(step - hp.learning_rate_warmup_steps, 1.0))


_FACTORS: dict[str, Factor] = {
    "constant": _constant,
    "linear_warmup": _linear_warmup,
    "linear_decay": _linear_decay,
    "cosdecay": _cosdecay,
    "single_cycle_cos_decay": _single_cycle_cos_decay,
    "multi_cycle_cos_decay": _multi_cycle_cos_decay,
    "rsqrt_decay": _rsqrt_decay,
    "rsqrt_normalized_decay": _rsqrt_normalized_decay,
    "exp_decay": _exp_decay,
    "rsqrt_hidden_size": _rsqrt_hidden_size,
    "legacy": _legacy,
}
_SCHEMES: dict[str, Factor] = {
    "noam": _noam,
    "none": _none,
    "exp": _exp_decay,  # unlike T2T's held at 1 before the warmup's end, where nobody sees it
    "cosine": _cosine,
    "cyclelinear10x": _cyclelinear10x,
    "sqrt": _sqrt,
}


def _float32(value: float):
    return ops.convert_to_tensor(value, "float32")

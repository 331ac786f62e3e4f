"""The optimizer's state in a tensor2tensor checkpoint, both ways.

TensorFlow 1 names slots after their variable and the optimizer: KERNEL/Adam is the first that the
optimizer made, KERNEL/Adam_1 the second. T2T 1.15 has them all below "training/".
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from t2t_repro.config import HParams, snake_case
from t2t_repro.errors import UserError
from t2t_repro.interop.t2t_checkpoint import Checkpoint
from t2t_repro.interop.tensor2tensor import Entry, arrays_of, assign, entries
from t2t_repro.models.transformer import Transformer
from t2t_repro.training import checkpoints
from t2t_repro.training.optimizers import KINDS, Adafactor, Adam
from t2t_repro.training.trainable import gathered

WITHOUT = "To import without the optimizer state, add --nooptimizer_state."


def load(model: Transformer, checkpoint: Checkpoint) -> None:
    """Sets the slots and the step of a compiled model's optimizer.

    Raises:
        UserError: if slots are missing, extra or of another shape (all are listed), or of another
            optimizer.
    """
    kind, slots = _kind(model), checkpoint.slots()
    if set(slots) != {kind}:
        raise UserError(
            f"Expected optimizer slots named {kind}, those of optimizer={model.hparams.optimizer}. "
            f"Received: {', '.join(sorted(slots)) or 'none'} in {checkpoint.prefix}. Give the "
            f"--hparams of the checkpoint's training. {WITHOUT}"
        )
    arrays = {
        _slot(owner, kind, i): checkpoint.array(name)
        for owner, names in slots[kind].items()
        for i, name in enumerate(names)
    }
    assign(list(_slot_entries(model)), arrays, "slots", WITHOUT)
    checkpoints.begin_averages(model)
    model.optimizer.iterations.assign(checkpoint.step())


def export(model: Transformer) -> dict[str, np.ndarray]:
    """Returns the slots of a compiled model's optimizer, and its counters, under T2T's names.

    Raises:
        UserError: as `check`.
    """
    check(model.hparams)
    hp, step = model.hparams, int(model.optimizer.iterations)
    arrays: dict[str, np.ndarray] = arrays_of(_slot_entries(model))
    if isinstance(_optimizer(model), Adam):
        powers = step // gathered(hp) + 1
        for number, beta in ((1, hp.optimizer_adam_beta1), (2, hp.optimizer_adam_beta2)):
            arrays[f"training/beta{number}_power"] = _power(beta, powers)
    if hp.optimizer_multistep_accumulate_steps:
        batch = (step + 1) % hp.optimizer_multistep_accumulate_steps
        arrays["training/iter"] = np.array(batch, "int32")
    return arrays


def unknown_there(hparams: HParams) -> str:
    """Returns "NAME=VALUE" of the hparam with which tensor2tensor has no such slots, or ""."""
    if hparams.freeze:  # there, every variable has some
        return f"freeze={hparams.freeze}"
    kind = KINDS.get(snake_case(hparams.optimizer))
    if not (kind and kind.t2t_slots):
        return f"optimizer={hparams.optimizer}"
    # There, means are taken over the last two of three dimensions, here over those of a matrix.
    factored = kind.t2t_slots == "Adafactor" and hparams.optimizer_adafactor_factored
    return "attention_variables_3d=True" if factored and hparams.attention_variables_3d else ""


def check(hparams: HParams, advice: str = "") -> None:
    """Refuses hparams with which tensor2tensor has no such slots.

    Args:
        hparams: those of the model.
        advice: what else to do, for the error.

    Raises:
        UserError: naming the result of `unknown_there`.
    """
    if unknown := unknown_there(hparams):
        raise UserError(
            "Expected hparams with the same optimizer state in tensor2tensor as in t2t_repro. "
            f"Received: {unknown}. {advice}".rstrip()
        )


def _optimizer(model: Transformer) -> Any:
    """Returns the optimizer that has the slots, also from inside one that scales the loss
    (float16)."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def _slot_entries(model: Transformer) -> Iterator[Entry]:
    """Yields each slot of the optimizer with T2T's names, each once."""
    kind, optimizer = _kind(model), _optimizer(model)
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    for entry in entries(model):
        if not entry.variable.trainable:
            continue
        index = optimizer._get_variable_index(entry.variable)
        tables = [getattr(optimizer, t, None) for t in ("_momentums", "_velocities", "_sums")]
        whole = [table[index] for table in tables if table]
        for i, variable in enumerate(whole):
            names = tuple(_slot(name, kind, i) for name in entry.names)
            yield Entry(variable, entry.axis, names, entry.shapes)
        if isinstance(optimizer, Adafactor):
            yield from _second_moments(entry, optimizer._second_moments[index], len(whole))


def _second_moments(entry: Entry, parts: list, first: int) -> Iterator[Entry]:
    """Yields Adafactor's means, one set for each of T2T's variables."""
    for name, shape, slots in zip(entry.names, entry.shapes, parts, strict=True):
        shapes = [shape] if len(slots) == 1 else [shape[:-1], (*shape[:-2], shape[-1])]
        for i, (variable, slot_shape) in enumerate(zip(slots, shapes, strict=True), first):
            yield Entry(variable, 0, (_slot(name, "Adafactor", i),), (slot_shape,))


def _slot(owner: str, kind: str, number: int) -> str:
    return f"training/{owner}/{kind}" + (f"_{number}" if number else "")


def _kind(model: Transformer) -> str:
    """Returns the kinds of T2T's slots for the optimizer."""
    return KINDS[snake_case(model.hparams.optimizer)].t2t_slots or ""


def _power(beta: float, exponent: int) -> np.ndarray:
    """Returns beta**exponent as TensorFlow 1 comes to it, one float32 product after another."""
    product = np.float32(1.0)
    for _ in range(exponent):
        product *= np.float32(beta)
        if product < np.finfo("float32").tiny:
            return np.zeros((), "float32")
    return np.asarray(product)

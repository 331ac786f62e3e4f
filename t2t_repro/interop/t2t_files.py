"""hparams.json and flags.txt beside a tensor2tensor checkpoint, both ways."""

import dataclasses
import json
import pathlib
from collections.abc import Collection
from typing import Any

from t2t_repro import fields, schema, t2t_compat
from t2t_repro.config import FIELDS, OURS, RECURRENT, HParams, snake_case
from t2t_repro.errors import UserError

_OF_LSTMS: dict[str, Any] = {"daisy_chain_variables": False}  # where variables lie, nothing else
_ONLY_MULTIPROBLEMS = "multiproblem_"  # read by runs of several problems, which no Transformer is

_UP_TO_1_12 = "symbol_modality_skip_top"  # an hparam that no later version has
_FIRST_SCHEDULES = ("linear_warmup_rsqrt_decay", "warmup_and_decay")  # of 1.4.4 to 1.5.2
_BLOCK_LENGTH = 128  # of T2T's Transformer, which has no hparam for it


def read_hparams(path: pathlib.Path, ignored: Collection[str] = ()) -> dict[str, Any]:
    """Returns {name: value} of T2T's hparams.json for the hparams that are ours.

    Args:
        path: the file.
        ignored: fields of the file to leave out.

    Raises:
        UserError: if it is not readable, or holds a field that we lack at another value than T2T's
            default: all of them are named.
    """
    try:
        values = schema.read(path, dict[str, Any])
    except ValueError as error:
        raise UserError(
            f"Expected {path} to be an hparams.json of tensor2tensor. Received: {error}."
        ) from error
    own = {
        name: t2t_compat.from_t2t_value(FIELDS[name], v)
        for name, v in values.items()
        if name in FIELDS
    }
    known = own.keys() | set(ignored)
    foreign = {
        name: v
        for name, v in values.items()
        if not (name in known or name.startswith(_ONLY_MULTIPROBLEMS))
        and (name, v) not in _OF_LSTMS.items()
    }
    if wrong := t2t_compat.complaints(foreign, FIELDS):
        raise UserError(
            f"{path}: {' '.join(wrong.values())} If your model does not depend on these hparams, "
            f"add --ignore_hparams={','.join(wrong)}."
        )
    if "self_attention_type" not in ignored:
        _check_attention(own.get("self_attention_type"))
    if _UP_TO_1_12 in values:
        _read_as_then(own)
    return {name: value for name, value in own.items() if name not in ignored}


def _read_as_then(own: dict[str, Any]) -> None:
    """Changes hparams of T2T 1.4 to 1.12 to those with the same learning rate in 1.15.

    These versions call optimizers "Adam", and the legacy rate of these is a 500th (1.12's
    utils/learning_rate.py; from 1.13 on that of "adam"). Up to 1.5.2 that schedule has other names,
    or none, and Adafactor's is a 500th too (1.5.2's utils/optimize.py).
    """
    schedule = own.get("learning_rate_schedule")
    is_first = "learning_rate_decay_scheme" in own and schedule in (None, *_FIRST_SCHEDULES)
    if is_first:
        own["learning_rate_schedule"] = "legacy"
    if schedule == _FIRST_SCHEDULES[0]:
        own["learning_rate_decay_scheme"] = "noam"
    optimizer = own.get("optimizer")
    if is_first and optimizer == "Adafactor" and "learning_rate" in own:
        own["learning_rate"] /= 500
    elif optimizer and "Adam" in optimizer:
        own["optimizer"] = snake_case(optimizer)


def _check_attention(kind: Any) -> None:
    """Refuses a type of self-attention that differs in T2T's decoder.

    Raises:
        UserError: on that type.
    """
    if kind == "local_unmasked":
        raise UserError(
            "Expected another self_attention_type for a tensor2tensor model. Received: "
            "local_unmasked. With it, tensor2tensor's decoder sees the tokens that it has to "
            "predict. Use local_mask_right, which t2t_repro and tensor2tensor compute alike."
        )


def write_hparams(hparams: HParams) -> str:
    """Returns hparams.json as T2T 1.15.7 writes it: every field that its Transformer reads.

    Raises:
        UserError: if T2T would compute something else.
    """
    if hparams.attention_score == "dot_product" and not hparams.attention_variables_3d:
        raise UserError(
            "Expected attention_score=scaled_dot_product with attention_variables_3d=False. "
            "Received: attention_score=dot_product. tensor2tensor cannot run this model."
        )
    kind, length = hparams.self_attention_type, hparams.attention_block_length
    _check_attention(kind)
    if kind == "local_mask_right" and length != _BLOCK_LENGTH:
        raise UserError(
            f"Expected attention_block_length={_BLOCK_LENGTH}, which is fixed in tensor2tensor's "
            f"Transformer. Received: {length}. tensor2tensor cannot run this model."
        )
    values = {
        name: t2t_compat.default(name)
        for name, (accepted, _) in t2t_compat.T2T_ONLY.items()
        if accepted and name not in t2t_compat.BEFORE_1_15
    }
    ours = fields.tagged(HParams, OURS)
    values |= {k: v for k, v in dataclasses.asdict(hparams).items() if k not in ours}
    values["warm_start_from_second"] = ""
    # As its LSTMs' sets have it: they run in loops, through which no variable is handed on.
    values["daisy_chain_variables"] = hparams.model not in RECURRENT
    return json.dumps(values, indent=0, sort_keys=True)


def read_flags(path: pathlib.Path) -> dict[str, str]:
    """Returns {flag: value} of T2T's flags.txt; {} where there is none."""
    if not path.is_file():
        return {}
    flags = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, has_value, value = line.strip().removeprefix("--").partition("=")
        if has_value:
            flags[name] = value
    return flags


def write_flags(**flags: str) -> str:
    """Returns flags.txt."""
    return "".join(f"--{name}={value}\n" for name, value in flags.items())

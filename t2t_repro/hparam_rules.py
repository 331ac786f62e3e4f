"""What the text of some hparams must be, each a rule of `fields`."""

import re

from t2t_repro import fields
from t2t_repro.errors import UserError

SEQUENCE_LETTERS = "adnz"
FREEZABLE = ("embeddings", "encoder", "decoder")


def sequence(name: str, sequence: str) -> None:
    """The letters of what is done before or after a sublayer."""
    if set(sequence) - set(SEQUENCE_LETTERS) and sequence != "none":
        raise UserError(
            f"Expected {name} to be 'none' or letters of '{SEQUENCE_LETTERS}' (add the residual, "
            f"dropout, normalize, add it by a gate that begins as zero). Received: {sequence!r}."
        )


def without_residual(name: str, sequence: str) -> None:
    """No letter of a residual, of what is done before a sublayer."""
    if set(sequence) & set("az"):
        raise UserError(
            f"Expected {name} without 'a' and 'z': there is no residual to add before a sublayer. "
            f"Received: {sequence!r}."
        )


def axes(last: int) -> fields.Rule:
    """Returns the rule of axes from -last to last."""

    def check(name: str, dims: str) -> None:
        if not re.fullmatch(rf"(-?[0-{last}](,-?[0-{last}])*)?", dims.replace(" ", "")):
            raise UserError(
                f"Expected {name} to be axes from -{last} to {last} with commas between, such "
                f"as 0,1, or nothing. Received: {dims!r}."
            )

    return check


def parts(name: str, parts: str) -> None:
    """Some of FREEZABLE, and not all."""
    asked = [part.strip() for part in parts.split(",")] if parts else []
    if set(asked) - set(FREEZABLE) or len(set(asked)) < len(asked):
        raise UserError(
            f"Expected {name} to be some of {', '.join(FREEZABLE)} with commas between. "
            f"Received: {parts!r}."
        )
    if len(asked) == len(FREEZABLE):
        raise UserError(f"Expected {name} to leave something to train. Received: all, {parts!r}.")

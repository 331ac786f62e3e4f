"""What t2t-compare compares: pairs of sequences under one hparam set, or whole sets."""

import dataclasses
import re
from collections.abc import Sequence
from typing import NoReturn

from t2t_repro.errors import UserError

# A set, and in brackets what is changed of this one alone.
_SET = re.compile(r"\s*([^\s,\[\]]+)\s*(?:\[([^\[\]]*)\])?\s*(?:,|$)")


@dataclasses.dataclass(frozen=True)
class Variant:
    """One of those that are compared.

    Attributes:
        name: "none/dan", "transformer_base_v1"; where several are of one set, with their changes:
            "lstm_attention[hidden_size=256]".
        hparams_set: its set.
        hparams: changes of this one alone, as t2t-trainer's flag.
        sequences: "PREPROCESS/POSTPROCESS" in the place of the set's; "": the set's own.
        text: what the user wrote for it; "": the name.
    """

    name: str
    hparams_set: str
    hparams: str = ""
    sequences: str = ""
    text: str = ""

    @property
    def folder(self) -> str:
        """What the user wrote as a part of a folder's name."""
        return re.sub(r"[^\w.=]+", "-", self.text or self.name).strip("-")

    @property
    def described(self) -> str:
        """Its name as a reader knows it: "post-norm (none/dan)", or the name."""
        before, after = ("n" in part.removeprefix("none") for part in self._pair)
        words = {(False, True): "post-norm", (True, False): "pre-norm"}.get((before, after))
        return f"{words} ({self.name})" if words and self.sequences else self.name

    @property
    def _pair(self) -> tuple[str, str]:
        before, _, after = self.sequences.partition("/")
        return before, after


def of_sequences(hparams_set: str, text: str) -> tuple[Variant, ...]:
    """Reads "none/dan,n/da": pairs of layer_preprocess_sequence/layer_postprocess_sequence.

    Raises:
        UserError: if there are not two different pairs. (`Grid` refuses wrong letters.)
    """
    pairs = tuple(piece.strip() for piece in text.split(",") if piece.strip())
    for pair in pairs:
        if not re.fullmatch(r"[^/]+/[^/]+", pair):
            raise UserError(
                f"Expected each of --sequences to be PREPROCESS/POSTPROCESS, such as none/dan or "
                f"n/da. Received: {pair!r}."
            )
    if len(set(pairs)) < max(2, len(pairs)):
        raise UserError(
            "Expected --sequences to be at least two different pairs with commas between, such as "
            f"none/dan,n/da. Received: {text!r}."
        )
    return tuple(Variant(pair, hparams_set, sequences=pair) for pair in pairs)


def of_sets(text: str) -> tuple[Variant, ...]:
    """Reads "transformer_base_v1,lstm_attention[hidden_size=256,dropout=0.3]".

    Raises:
        UserError: if there are not two different ones. (`Grid` refuses unknown names.)
    """
    asked, at = [], 0
    while at < len(text.rstrip(", ")):
        piece = _SET.match(text, at)
        if not piece:
            _refuse(text)
        asked.append((piece[1], (piece[2] or "").strip()))
        at = piece.end()
    sets, found = [hparams_set for hparams_set, _ in asked], []
    for hparams_set, changes in asked:
        written = f"{hparams_set}[{changes}]" if changes else hparams_set
        name = hparams_set if sets.count(hparams_set) == 1 else written
        found.append(Variant(name, hparams_set, changes, text=written))
    if len({variant.folder for variant in found}) < max(2, len(found)):
        _refuse(text)
    return tuple(found)


def _refuse(text: str) -> NoReturn:
    raise UserError(
        "Expected --hparams_sets to be at least two different sets with commas between, each with "
        "changes of its own in brackets, such as transformer_base_v1,lstm_attention[dropout=0.3]. "
        f"Received: {text!r}."
    )


def against(variants: Sequence[Variant]) -> str:
    """Returns a title: "Post-norm against pre-norm" where these two are all."""
    names = [variant.described for variant in variants]
    if [name.partition(" ")[0] for name in names] == ["post-norm", "pre-norm"]:
        return "Post-norm against pre-norm"
    return " against ".join(names)

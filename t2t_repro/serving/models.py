"""What is served: one model, or one for each of several pairs of languages."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import cast

from t2t_repro.errors import UserError
from t2t_repro.serving import exported
from t2t_repro.serving.exported import ExportedModel

_CODE = "[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?"
_NEXT = re.compile(f",(?={_CODE}-{_CODE}=)")
_MODEL = re.compile(f"(?:({_CODE})-({_CODE})=)?(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model, and what it is asked for by.

    Attributes:
        name: its languages, such as "de-en"; the folder's where they are not known.
        source, target: their codes in ISO 639, or "".
        model: what translates.
    """

    name: str
    source: str
    target: str
    model: ExportedModel


@dataclasses.dataclass(frozen=True)
class Folder:
    """An export that --model names."""

    path: pathlib.Path
    source: str = ""
    target: str = ""

    def load(self) -> ServedModel:
        """Returns its model.

        Raises:
            UserError: if it cannot be loaded.
        """
        name = f"{self.source}-{self.target}" if self.source else self.path.resolve().name
        return ServedModel(name, self.source, self.target, exported.ExportedModel(self.path))


def find(given: Sequence[str]) -> list[Folder]:
    """Returns the exports that --model names: "DIR", "de-en=DIR" or "de-en=DIR,en-de=DIR".

    Raises:
        UserError: if there is none, one is none, or several have no languages, or the same.
    """
    folders = []
    for part in (part for value in given for part in _NEXT.split(value)):
        source, target, path = cast(re.Match, _MODEL.fullmatch(part)).groups()
        folders.append(Folder(exported.find(path), source or "", target or ""))
    if not folders:
        raise UserError(
            "Expected --model, the folder that t2t-exporter wrote. Received: none. Name it."
        )
    pairs = {(folder.source.lower(), folder.target.lower()) for folder in folders}
    if len(folders) > 1 and (len(pairs) < len(folders) or ("", "") in pairs):
        raise UserError(
            "Expected of several models the languages of each, no two the same. Received: "
            f"--model={','.join(given)}. Give such as --model=de-en=DIR --model=en-de=DIR."
        )
    return folders

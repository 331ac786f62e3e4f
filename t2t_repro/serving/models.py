"""What is served: one model, or one for each of several pairs of languages."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from t2t_repro import registry
from t2t_repro.certificate import record
from t2t_repro.certificate.record import Certificate
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import sha256
from t2t_repro.serving import exported
from t2t_repro.serving.exported import ExportedModel

if TYPE_CHECKING:  # these load TensorFlow, which reads its environment when it is loaded
    from t2t_repro.decoding.engine import Engine
    from t2t_repro.serving.engine_model import EngineModel

_CODE = "[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?"
_CTRANSLATE2 = "model.bin"
_NEXT = re.compile(f",(?={_CODE}-{_CODE}=)")
_MODEL = re.compile(f"(?:({_CODE})-({_CODE})=)?(.*)", re.DOTALL)

Model: TypeAlias = "ExportedModel | EngineModel"
OpenEngine = Callable[[pathlib.Path, dict[str, Any]], "Engine"]  # a folder, its encoders


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model, and what it is asked for by.

    Attributes:
        name: its languages, such as "de-en"; the folder's where they are not known.
        source, target: their codes in ISO 639, or "".
        model: what translates.
        certificate: that of t2t-exporter, where there is one that is as it was written.
    """

    name: str
    source: str
    target: str
    model: Model
    certificate: Certificate | None = None


@dataclasses.dataclass(frozen=True)
class Folder:
    """An export that --model names."""

    path: pathlib.Path
    source: str = ""
    target: str = ""

    def load(self, open_engine: OpenEngine) -> ServedModel:
        """Returns its model.

        Args:
            open_engine: opens that of a CTranslate2 model.

        Raises:
            UserError: if it cannot be loaded.
        """
        certificate = record.read_or_none(self.path)
        model: Model
        if (self.path / _CTRANSLATE2).is_file():
            model = self._engine_model(certificate, open_engine)
        else:
            model = exported.ExportedModel(self.path)
        languages = self.source, self.target
        if not self.source and certificate:
            languages = languages_of(certificate.problem)
        name = "-".join(languages) if languages[0] else self.path.resolve().name
        return ServedModel(name, *languages, model, certificate)

    def _engine_model(
        self, certificate: Certificate | None, open_engine: OpenEngine
    ) -> "EngineModel":
        from t2t_repro.serving.engine_model import EngineModel

        if certificate is None:
            raise UserError(
                f"Expected --model, an export with its {record.NAME}. Received: {self.path}, a "
                "CTranslate2 model without one that is as it was written, which would say how its "
                "text is read. Export the run again."
            )
        encoders = registry.get_problem(certificate.problem).feature_encoders(os.fspath(self.path))
        engine = open_engine(self.path, encoders)
        settings = DecodeHParams(**certificate.decoding)  # type: ignore[arg-type]
        return EngineModel(engine, encoders, settings, sha256(self.path / _CTRANSLATE2))


def languages_of(problem: str) -> tuple[str, str]:
    """Returns the codes that a problem's name has, as in translate_ende_wmt32k_rev, or "", ""."""
    found = re.match("translate_([a-z]{2})([a-z]{2})_", problem)
    pair = (found[1], found[2]) if found else ("", "")
    return pair[::-1] if problem.endswith("_rev") else pair


def find(given: Sequence[str]) -> list[Folder]:
    """Returns the exports that --model names: "DIR", "de-en=DIR" or "de-en=DIR,en-de=DIR".

    Raises:
        UserError: if there is none, one is none, or several have no languages, or the same.
    """
    folders = []
    for part in (part for value in given for part in _NEXT.split(value)):
        source, target, path = cast(re.Match, _MODEL.fullmatch(part)).groups()
        folder = pathlib.Path(path).expanduser()
        if not (folder / _CTRANSLATE2).is_file():
            folder = exported.find(folder)
        folders.append(Folder(folder, source or "", target or ""))
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

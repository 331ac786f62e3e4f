"""What is served: one model, or one for each of several pairs of languages."""

import asyncio
import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from t2t_repro import imports, provenance, registry
from t2t_repro.corpora.checks.languages import load_identifier
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import sha256
from t2t_repro.problem import Problem
from t2t_repro.serving import exported
from t2t_repro.serving.exported import ExportedModel

if TYPE_CHECKING:  # it loads TensorFlow, which reads its environment when it is loaded
    from t2t_repro.decoding.engine import Engine
    from t2t_repro.serving.engine_model import EngineModel

_CODE = "[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?"
_CTRANSLATE2 = "model.bin"
_NEXT = re.compile(f",(?={_CODE}-{_CODE}=)")
_MODEL = re.compile(f"(?:({_CODE})-({_CODE})=)?(.*)", re.DOTALL)
_BEAMS = 4  # of most exports
_FEW_CHARACTERS = 2000  # are counted in about the time that it takes to ask another thread

Model: TypeAlias = "ExportedModel | EngineModel"
OpenEngine = Callable[[pathlib.Path, Problem], "Engine"]  # CTranslate2's


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model, and what it is asked for by.

    Attributes:
        name: its languages, such as "de-en"; the folder's where they are not known.
        source, target: their codes in ISO 639, or "".
        model: what translates.
        record: that of t2t-exporter, where there is one that is as it was written.
    """

    name: str
    source: str
    target: str
    model: Model
    record: provenance.Provenance | None = None

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each text has; what takes long is done by another thread."""
        model = self.model
        if model.counts_at_once and sum(map(len, texts)) <= _FEW_CHARACTERS:
            return model.count_tokens(texts)
        return await asyncio.to_thread(model.count_tokens, texts)


@dataclasses.dataclass(frozen=True)
class Folder:
    """An export that --model names."""

    path: pathlib.Path
    source: str = ""
    target: str = ""

    @property
    def is_ctranslate2(self) -> bool:
        """Whether it is a CTranslate2 model."""
        return (self.path / _CTRANSLATE2).is_file()

    def load(self, open_engine: OpenEngine) -> ServedModel:
        """Returns its model; `open_engine` opens that of CTranslate2.

        Raises:
            UserError: if it cannot be loaded.
        """
        record = provenance.read(self.path)
        model: Model
        if self.is_ctranslate2:
            model = self._engine_model(record, open_engine)
        else:
            model = exported.ExportedModel(self.path)
        languages = self.source, self.target
        if not self.source and record:
            languages = languages_of(record.problem)
        name = "-".join(languages) if languages[0] else self.path.resolve().name
        return ServedModel(name, *languages, model, record)

    def _engine_model(
        self, record: provenance.Provenance | None, open_engine: OpenEngine
    ) -> "EngineModel":
        if record is None:
            raise UserError(
                f"Expected --model, an export with its {provenance.NAME}. Received: {self.path}, a "
                "CTranslate2 model without one that is as it was written, which would say how its "
                "text is read. Export the run again."
            )
        from t2t_repro.serving.engine_model import EngineModel

        problem = registry.get_problem(record.problem)
        encoders = problem.feature_encoders(os.fspath(self.path))
        settings = DecodeHParams(**record.decoding)  # type: ignore[arg-type]
        engine = open_engine(self.path, problem)
        return EngineModel(engine, encoders, settings, sha256(self.path / _CTRANSLATE2))


def searches(max_batch_size: int) -> int:
    """Returns how many batches to compute at the same time: as t2t-decoder, of such batches.

    To be called before anything is loaded.
    """
    imports.quiet_tensorflow()
    from t2t_repro.decoding.program import share_cores

    return share_cores(max_batch_size * _BEAMS)


def languages_of(problem: str) -> tuple[str, str]:
    """Returns the codes that a problem's name has, as in translate_ende_wmt32k_rev, or "", "".

    Another name may look like codes (translate_text_...): those of no known language are none.
    """
    found = re.match("translate_([a-z]{2})([a-z]{2})_", problem)
    known = found and set(load_identifier().nb_classes).issuperset(found.groups())
    pair = (found[1], found[2]) if found and known else ("", "")
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
        found = Folder(folder, source or "", target or "")
        if not found.is_ctranslate2:
            exported.find(folder)
        folders.append(found)
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

"""Is there an engine that translates as an export does, and in less time? --engine=auto asks."""

import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from t2t_repro import registry
from t2t_repro.certificate import record
from t2t_repro.certificate.record import Certificate
from t2t_repro.decoding.quickest import Way, quickest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.serving.batching import Batcher
from t2t_repro.serving.exported import ExportedModel, Question

if TYPE_CHECKING:  # these load TensorFlow, which reads its environment when it is loaded
    from t2t_repro.decoding.engine import Engine
    from t2t_repro.serving.engine_model import EngineModel

OpenEngine = Callable[[pathlib.Path, Problem], "Engine"]  # CTranslate2's, of an export of any form
Quicken = Callable[[pathlib.Path, Certificate | None, ExportedModel], "EngineModel | None"]
_OWN, _OTHER = "the export itself", "CTranslate2"


def engine_model(
    folder: pathlib.Path, certificate: Certificate, open_engine: OpenEngine, sha256: str
) -> "EngineModel":
    """Returns an engine for the model in a folder, with the vocabulary that lies there.

    Raises:
        UserError: if the engine cannot be had, or the problem is not known.
    """
    from t2t_repro.serving.engine_model import EngineModel

    problem = registry.get_problem(certificate.problem)
    encoders = problem.feature_encoders(os.fspath(folder))
    settings = DecodeHParams(**certificate.decoding)  # type: ignore[arg-type]
    return EngineModel(open_engine(folder, problem), encoders, settings, sha256)


def find(
    folder: pathlib.Path,
    certificate: Certificate | None,
    export: ExportedModel,
    *,
    open_engine: OpenEngine,
    searches: int,
    say: Callable[[str], None] = print,
) -> "EngineModel | None":
    """Returns an engine with the weights of an export, where it is quicker; None: where it is not.

    Both translate the sentences of the certificate, as the server would, and have to agree.

    Args:
        folder: of the export.
        certificate: of the export; None: there is none.
        export: as it was loaded.
        open_engine: opens the engine.
        searches: how many batches are computed at the same time.
        say: is told what was chosen, and why.
    """
    found, name = None, _OWN
    if certificate is None or not certificate.golden:
        reason = f"it has no {record.NAME} with sentences that both could translate"
    else:
        try:
            found = engine_model(folder, certificate, open_engine, export.sha256)
        except (UserError, OSError) as error:
            reason = f"{_OTHER} does not compute it. {error}"
        else:
            sources = [each.source for each in certificate.golden]
            ways = {_OWN: _way(export, searches), _OTHER: _way(found, searches)}
            named = f"the {len(sources)} sentences of {record.NAME}"
            name, reason = quickest(ways, sources, named)
    say(f"--engine=auto takes {name} for {folder}: {reason}")
    return found if name == _OTHER else None


def _way(model: Any, searches: int) -> Way:
    def translate(sources: list[str]) -> list[str]:
        batcher = Batcher({"": model.translate}, searches=searches, max_queue=len(sources))
        questions = [Question(source, beams=False) for source in sources]
        futures = batcher.submit("", questions, model.count_tokens(sources))
        batcher.close()
        return [future.result()[0].translation for future in futures]

    return translate

"""The engines that t2t-decoder knows by name; a job is carried out by the one that it names."""

import os
from collections.abc import Callable

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.translate import Report
from t2t_repro.interop import ctranslate2, export
from t2t_repro.interop.ctranslate2_engine import CTranslate2Engine
from t2t_repro.interop.form import ExportRequest
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.training import checkpoints


def carry_out(request: DecodeRequest, run: TrainedRun, say: Report) -> DecodeJob:
    """Does what is asked for with a run, and returns the job that it was.

    Args:
        request: what.
        run: whose model decodes.
        say: receives warnings and the progress.

    Raises:
        UserError: if the request contradicts itself or the run, or the engine cannot follow it.
    """
    kind, load = ENGINES[request.engine]
    job = DecodeJob.of(request, run, kind.abilities)
    job.carry_out(load(job, say), say)
    return job


def _model(job: DecodeJob, say: Report) -> Engine:
    """The model of the run, or an ensemble of it and others."""
    searches = job.searches()
    others = [trained_run(path) for path in (job.request.ensemble or "").split(",") if path]
    model = job.run.ensemble(
        others, job.request.checkpoint_path, with_weights=job.settings.return_alignments, say=say
    )
    return ModelEngine(model, searches)


def _ctranslate2(job: DecodeJob, say: Report) -> Engine:
    """CTranslate2 with the model of the run, which is written if need be."""
    ctranslate2.library()
    path = job.request.engine_dir
    if not path:
        source = job.run.checkpoint(job.request.checkpoint_path)
        path = os.fspath(job.run.path / "export" / f"ctranslate2-{checkpoints.step_of(source)}")
        if not os.path.exists(path):
            request = ExportRequest(
                format="ctranslate2", export_dir=path, checkpoint_path=os.fspath(source)
            )
            export.export(job.run, request, say)
    engine = CTranslate2Engine(path, job.request.compute_type)
    say(f"Decoding with CTranslate2 ({engine.compute_type}) and {path}")
    engine.check_vocabularies(job.run.encoders)
    return engine


# What --engine names: the kind, and what loads one for a job.
ENGINES: dict[str, tuple[type[Engine], Callable[[DecodeJob, Report], Engine]]] = {
    "tensorflow": (ModelEngine, _model),
    "ctranslate2": (CTranslate2Engine, _ctranslate2),
}

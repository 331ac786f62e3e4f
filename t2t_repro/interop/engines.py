"""A job of t2t-decoder is carried out by the engine that it names."""

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.translate import Report
from t2t_repro.runs import trained_run
from t2t_repro.training import devices, machine


def carry_out(job: DecodeJob, say: Report) -> None:
    """Does a job; `say` receives warnings and the progress.

    Raises:
        UserError: if the engine cannot be loaded, or cannot follow the job.
    """
    if job.request.engine == "ctranslate2":
        from t2t_repro.interop import ctranslate2_engine

        job.carry_out(ctranslate2_engine.load(job, say), say)
    else:
        job.carry_out(_model(job, say), say)


def _model(job: DecodeJob, say: Report) -> Engine:
    """The model of the run, or an ensemble of it and others."""
    where = devices.here(job.request.worker_gpu)
    for warning in machine.warnings(where, job.request.worker_gpu):
        say(f"Warning: {warning}")
    searches = job.searches()
    named = (path.strip() for path in (job.request.ensemble or "").split(","))
    others = [trained_run(path) for path in named if path]
    model = job.run.on(where).ensemble(
        others, job.request.checkpoint_path, with_weights=job.settings.return_alignments, say=say
    )
    return ModelEngine(model, searches)

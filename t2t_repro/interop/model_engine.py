"""The model itself as an engine of t2t-decoder, on Keras's backend."""

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.translate import Report
from t2t_repro.runs import trained_run
from t2t_repro.training import devices, machine


def load(job: DecodeJob, say: Report) -> Engine:
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


def of_model(job: DecodeJob, own: ModelEngine, say: Report) -> Engine:
    """The engine that is there."""
    return own

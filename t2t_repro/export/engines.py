"""Loads the engine of a t2t-decoder job."""

import os

from t2t_repro.decoding.ctranslate2_engine import CTranslate2Engine, library
from t2t_repro.decoding.decode_files import DecodeJob, Report
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.search import Engine, check_follows
from t2t_repro.decoding.settings import KEPT, DecodeHParams
from t2t_repro.export import forms
from t2t_repro.files import locked, sha256
from t2t_repro.process import available_cores
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints, devices
from t2t_repro.training.state import WEIGHTS


def for_job(job: DecodeJob, say: Report) -> Engine:
    """Returns the engine of a job; `say` receives warnings.

    Raises:
        UserError: if the engine cannot be loaded.
    """
    return (_ctranslate2 if job.request.engine == "ctranslate2" else _model)(job, say)


def _model(job: DecodeJob, say: Report) -> Engine:
    """The model of the run, or an ensemble of it and others."""
    where = devices.here(job.request.worker_gpu)
    searches = job.searches()
    named = (path.strip() for path in (job.request.ensemble or "").split(","))
    others = [trained_run(path) for path in named if path]
    model = job.run.on(where).ensemble(
        others, job.request.checkpoint_path, with_weights=job.settings.return_alignments, say=say
    )
    return ModelEngine(model, searches)


def _ctranslate2(job: DecodeJob, say: Report) -> Engine:
    """CTranslate2 with the model of the run, which is written if need be."""
    library()
    check_follows(CTranslate2Engine, job.settings)  # before a model is written
    path = job.request.engine_dir or written(job, say)
    engine = CTranslate2Engine(path, job.request.compute_type, threads=available_cores())
    say(f"Decoding with the CTranslate2 model {path}, compute type {engine.compute_type}")
    engine.check_vocabularies(job.run.encoders)
    return engine


def written(job: DecodeJob, say: Report) -> str:
    """Returns the folder of a job's model in its run, which the first who asks for it writes."""
    source = job.run.checkpoint(job.request.checkpoint_path)
    # The same step may be made again of other weights, such as the mean of more checkpoints.
    weights = sha256(source / WEIGHTS)[:8]
    path = job.run.path / "export" / f"ctranslate2-{checkpoints.step_of(source)}-{weights}"
    path.parent.mkdir(exist_ok=True)
    with locked(path.parent, say):  # the shards of a file are decoded beside one another
        if not path.exists():
            # What a problem says of its own and no export keeps is followed by who decodes.
            names = set(job.run.decode_settings().changed()) - set(KEPT)
            request = forms.ExportRequest(
                format="ctranslate2",
                export_dir=os.fspath(path),
                checkpoint_path=os.fspath(source),
                decode_hparams=",".join(f"{n}={getattr(DecodeHParams, n)}" for n in sorted(names)),
            )
            forms.export(job.run, request, say)
    return os.fspath(path)

"""A job of t2t-decoder is carried out by the engine that it names.

A module of ENGINES has the class of its engine as KIND, whose `abilities` are asked before anything
is loaded, and `load(job, say)`, which returns an engine for a job; `of_model(job, own, say)` is the
same where the model is loaded already, and `own` its engine.
"""

import importlib
from typing import Any

from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.request import ENGINES, DecodeRequest
from t2t_repro.decoding.translate import Report
from t2t_repro.runs import TrainedRun


def carry_out(request: DecodeRequest, run: TrainedRun, say: Report) -> DecodeJob:
    """Does what is asked for with a run, and returns the job that it was.

    Args:
        request: what.
        run: whose model decodes.
        say: receives warnings and the progress.

    Raises:
        UserError: if the request contradicts itself or the run, or the engine cannot follow it.
    """
    module = module_of(request.engine)
    job = DecodeJob.of(request, run, module.KIND.abilities, say)
    job.carry_out(module.load(job, say), say)
    return job


def module_of(engine: str) -> Any:
    """Returns the module that has an engine."""
    return importlib.import_module(f"t2t_repro.interop.{ENGINES[engine][0]}")

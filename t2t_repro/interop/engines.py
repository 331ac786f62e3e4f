"""A job of t2t-decoder is carried out by the engine that it names.

A module of ENGINES has `load(job, say)`, which returns an engine for a job; `of_model(job, own,
say)` is the same where the model is loaded already, and `own` its engine.
"""

import importlib
from typing import Any

from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.request import ENGINES
from t2t_repro.decoding.translate import Report


def carry_out(job: DecodeJob, say: Report) -> None:
    """Does a job; `say` receives warnings and the progress.

    Raises:
        UserError: if the engine cannot be loaded, or cannot follow the job.
    """
    job.carry_out(module_of(job.request.engine).load(job, say), say)


def module_of(engine: str) -> Any:
    """Returns the module that has an engine."""
    return importlib.import_module(f"t2t_repro.interop.{ENGINES[engine].module}")

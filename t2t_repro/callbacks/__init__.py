"""Callbacks of Keras: what t2t-trainer does beside its steps, for `Model.fit`.

Keras's own callbacks work beside them. The order counts: `Bleu`, which adds to the logs, comes
before those that read them.
"""

from t2t_repro.callbacks.monitoring import (
    BestCheckpoints,
    Bleu,
    Samples,
    StopOnNonFinite,
    Summaries,
)
from t2t_repro.callbacks.resume import ExactResume
from t2t_repro.decoding.dev_bleu import DevSample, TextSample

__all__ = [
    "BestCheckpoints",
    "Bleu",
    "DevSample",
    "ExactResume",
    "Samples",
    "StopOnNonFinite",
    "Summaries",
    "TextSample",
]

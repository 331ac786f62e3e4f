"""Callbacks of Keras: what t2t-trainer does beside its steps, for `Model.fit`."""

from t2t_repro.callbacks.resume import ExactResume

__all__ = ["ExactResume"]

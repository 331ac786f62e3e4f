"""Scores of finished output."""

from t2t_repro.parsing import parseval as parseval

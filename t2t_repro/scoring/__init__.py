"""Scores of finished output; also the public name of `parseval`, which is in parsing/."""

from t2t_repro.parsing import parseval as parseval

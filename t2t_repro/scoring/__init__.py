"""Scores of finished output; the public door of two, `bleu` and `parseval`, which parsing/ has."""

from t2t_repro.parsing import parseval as parseval

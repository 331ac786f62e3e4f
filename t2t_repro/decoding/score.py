"""How probable a model finds the translations of a file of lines "source TAB target".

The end of a sentence counts as a token, as in tensor2tensor's `t2t-decoder --score_file`.
"""

import contextlib
import json
import math
import os
from itertools import islice
from typing import NamedTuple

from t2t_repro import progress
from t2t_repro.decoding.search import Advance, Engine, Pair, ignore
from t2t_repro.decoding.translate import WINDOW, Report, Translator
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID


class LogLikelihood(NamedTuple):
    """The log-likelihood of a target: the sum over its tokens, its end included, and their
    number."""

    log_prob: float
    tokens: int

    @property
    def mean(self) -> float:
        """The mean negative log-likelihood of a token: tensor2tensor's score."""
        return -self.log_prob / self.tokens


def score_pairs(
    engine: Engine, pairs: list[Pair], batch_size: int = 0, advance: Advance = ignore
) -> list[LogLikelihood]:
    """Returns the score of each pair, in their order; for the arguments see `Engine`."""
    rows = engine.token_log_probs(pairs, batch_size, advance)
    return [LogLikelihood(float(row.sum()), len(row)) for row in rows]


def score_file(
    translator: Translator,
    source: str | os.PathLike,
    target: str | os.PathLike,
    *,
    json_file: str | os.PathLike | None = None,
    report: Report = print,
) -> LogLikelihood:
    """Scores a file of lines "source TAB target".

    Args:
        translator: whose engine scores. Under its `t2t_exact` the mean alone is written, as
            tensor2tensor does; `batch_size` of its settings is as `Engine.token_log_probs`'s.
        source: UTF-8 text, plain or `.gz`.
        target: gets a line for each pair: the mean negative log-likelihood of a token, a tab, and
            the sum. It appears when everything is done.
        json_file: gets, for each pair, an object with its texts and scores.
        report: receives, at the end, how many sentences were scored in what time, and the mean.

    Returns:
        The sum over all pairs.

    Raises:
        UserError: on a line that is not two texts with a tab between, one that cannot be encoded,
            or one of more tokens than the model has positions.
    """
    total = sum(1 for _ in raw.stripped_lines(source))
    batch_size = translator.settings.batch_size
    log_prob, tokens = 0.0, 0
    with contextlib.ExitStack() as files:
        advance = files.enter_context(progress.report("", total, "sentences", say=report))
        output = files.enter_context(writing(target))
        details = files.enter_context(writing(json_file)) if json_file else None
        numbered = enumerate(raw.lines(source), start=1)
        while window := list(islice(numbered, WINDOW)):
            texts = [[part.strip() for part in line.split("\t")] for _, line in window]
            pairs = [
                _encoded(translator, text, f"Line {number} of {os.fspath(source)}")
                for text, (number, _) in zip(texts, window, strict=True)
            ]
            scores = score_pairs(translator.engine, pairs, batch_size, advance)
            for text, score in zip(texts, scores, strict=True):
                log_prob, tokens = log_prob + score.log_prob, tokens + score.tokens
                beside = "" if translator.t2t_exact else f"\t{-score.log_prob:.6f}"
                output.write(f"{score.mean:.6f}{beside}\n")
                row = {"source": text[0], "target": text[1], **score._asdict()}
                row["mean_negative_log_likelihood"] = score.mean
                if details:
                    details.write(json.dumps(row, ensure_ascii=False) + "\n")
    whole = LogLikelihood(log_prob, tokens)
    report(
        f"Wrote {os.fspath(target)}. Negative log-likelihood {whole.mean:.6f} per token over all "
        f"{tokens:,} tokens, perplexity {math.exp(min(whole.mean, 700)):.4f}"
    )
    return whole


def _encoded(translator: Translator, text: list[str], where: str) -> Pair:
    if len(text) != 2:
        raise UserError(
            f"{where}: expected a source, one tab, and a target. Received: {len(text) - 1} tabs. "
            "To join two files by tabs, run: paste SOURCES TARGETS"
        )
    source, target = (
        [*translator.ids_of(side, part, where), EOS_ID]
        for side, part in zip(("inputs", "targets"), text, strict=True)
    )
    longest, most = max(len(source), len(target)), translator.engine.learned_positions
    if most and longest > most:
        raise UserError(
            f"{where}: expected at most {most} tokens per side, because the model learned as many "
            f"positions (hparam max_length). Received: {longest}. Remove the line."
        )
    return source, target

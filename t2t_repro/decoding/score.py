"""How probable a model finds the translations of a file of lines "source TAB target".

The end of a sentence counts as a token, as in tensor2tensor's `t2t-decoder --score_file`.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from t2t_repro import progress
from t2t_repro.decoding.engine import Engine, Pair
from t2t_repro.decoding.settings import Ability
from t2t_repro.decoding.translate import WINDOW, Report
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID


class LogLikelihood(NamedTuple):
    """What a target got: the sum over its tokens, its end included, and how many they are."""

    log_prob: float
    tokens: int

    @property
    def mean(self) -> float:
        """The mean negative log-likelihood of a token: tensor2tensor's score."""
        return -self.log_prob / self.tokens


def score_pairs(
    engine: Engine,
    pairs: list[Pair],
    batch_size: int = 0,
    advance: Callable[[int], None] = lambda count: None,
) -> list[LogLikelihood]:
    """Returns the score of each pair, in their order; for the arguments see `Engine`."""
    rows = engine.token_log_probs(pairs, batch_size, advance)
    return [LogLikelihood(float(row.sum()), len(row)) for row in rows]


def score_file(
    engine: Engine,
    encoders: dict[str, Any],
    source: str | os.PathLike,
    target: str | os.PathLike,
    *,
    json_file: str | os.PathLike | None = None,
    batch_size: int = 0,
    t2t_exact: bool = False,
    report: Report = print,
) -> LogLikelihood:
    """Scores a file of lines "source TAB target".

    Args:
        engine: what scores.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        source: UTF-8 text, plain or `.gz`.
        target: gets a line for each pair: the mean negative log-likelihood of a token, a tab, and
            the sum. It appears when all is done.
        json_file: gets, for each pair, an object with its texts and scores.
        batch_size: as `Engine.token_log_probs`'s.
        t2t_exact: write the mean alone, as tensor2tensor does.
        report: receives, at the end, how many sentences were scored in what time.

    Returns:
        The sum over all pairs.

    Raises:
        UserError: on a line that is not two texts with a tab between, one that cannot be encoded,
            or one of more tokens than the model has positions.
    """
    engine.check({Ability.SCORE_FILE})
    total = sum(1 for _ in raw.lines(source))
    if not total:
        raise UserError(f"Expected pairs of sentences in {source}. Received: an empty file.")
    log_prob, tokens = 0.0, 0
    with contextlib.ExitStack() as files:
        advance = files.enter_context(progress.report("", total, "sentences", say=report))
        output = files.enter_context(writing(target))
        details = files.enter_context(writing(json_file)) if json_file else None
        texts = _texts(source)
        while window := list(islice(texts, WINDOW)):
            pairs = [_encoded(text, encoders, engine, where) for where, text in window]
            scores = score_pairs(engine, pairs, batch_size, advance)
            for (_, text), score in zip(window, scores, strict=True):
                log_prob, tokens = log_prob + score.log_prob, tokens + score.tokens
                beside = "" if t2t_exact else f"\t{-score.log_prob:.6f}"
                output.write(f"{score.mean:.6f}{beside}\n")
                if details:
                    details.write(_as_json(text, score) + "\n")
    return LogLikelihood(log_prob, tokens)


def _texts(source: str | os.PathLike) -> Iterator[tuple[str, tuple[str, str]]]:
    for number, line in enumerate(raw.lines(source), start=1):
        where = f"Line {number} of {os.fspath(source)}"
        parts = line.split("\t")
        if len(parts) != 2:
            raise UserError(
                f"{where}: expected a source and a target with one tab between. Received: "
                f"{len(parts) - 1} tabs in {line[:60]!r}. Join two files: paste SOURCES TARGETS."
            )
        yield where, (parts[0].strip(), parts[1].strip())


def _encoded(text: tuple[str, str], encoders: dict, engine: Engine, where: str) -> Pair:
    ids = []
    for name, part in zip(("inputs", "targets"), text, strict=True):
        try:
            ids.append([*encoders[name].encode(part), EOS_ID])
        except (ValueError, KeyError) as error:
            raise UserError(
                f"{where}: expected text that the vocabulary of the {name} can encode. "
                f"Received: {part!r} ({error}). Mend the line."
            ) from error
    longest, most = max(map(len, ids)), engine.learned_positions
    if most and longest > most:
        raise UserError(
            f"{where}: expected at most {most} tokens a side, for which the model has learned "
            f"positions (hparam max_length). Received: {longest}. Leave the line out."
        )
    return ids[0], ids[1]


def _as_json(text: tuple[str, str], score: LogLikelihood) -> str:
    values = {
        "source": text[0],
        "target": text[1],
        "log_prob": score.log_prob,
        "tokens": score.tokens,
        "mean_negative_log_likelihood": score.mean,
    }
    return json.dumps(values, ensure_ascii=False)

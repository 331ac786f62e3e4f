"""Experiment: label smoothing hurts perplexity and helps BLEU; learned positions are as good.

Label smoothing "hurts perplexity, as the model learns to be more unsure, but improves accuracy and
BLEU score" (paper, section 5.4); learned positions give "nearly identical results" (table 3, E).
Both are tried on a translation that is made up, so that its ambiguity is known: a symbol has three
translations, which come with the probabilities SHARES, whatever stands beside it. Hence it is known
what nobody does better: the perplexity of who knows these probabilities, that of who has learned
perfectly what label smoothing asks for, and the BLEU of who writes the likeliest translations.

Models learn it from new pairs at each step, and from a few pairs over and over: like every real
corpus, these can be learned by heart with all that is chance in them.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_repro import progress
from t2t_repro.config import HParams
from t2t_repro.decoding.decode import decode
from t2t_repro.paper import scaled as conclusions
from t2t_repro.paper.scaled import Conclusion, Verdict
from t2t_repro.scoring import bleu
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments.copying import Batch
from t2t_repro.studies.experiments.result import Result
from t2t_repro.text.encoders import EOS_ID, NUM_RESERVED_TOKENS
from t2t_repro.views import pictures

SYMBOLS = 20
LENGTHS = (4, 8)
SHARES = (0.6, 0.3, 0.1)
SHIFTS = (3, 8, 14)  # a symbol's translations are those so many places behind it
LAYERS = 1  # of the encoder, and of the decoder
SEEDS = 3
STEPS = 400
SENTENCES = 32  # to a step
FEW_PAIRS = 256
RATE, WARMUP = 2e-3, 50
TRIED = 300  # pairs, the same for all models
SMOOTHING = 0.1

BASE, UNSMOOTHED, LEARNED = "as the paper", "without label smoothing", "learned positions"
CHANGES: dict[str, dict[str, Any]] = {
    BASE: {},
    UNSMOOTHED: {"label_smoothing": 0.0},
    LEARNED: {"pos": "emb", "max_length": LENGTHS[1] + 1},
}
NEW, FEW = "new pairs at each step", f"{FEW_PAIRS} pairs over and over"
PAIRS = (NEW, FEW)

HURTS = Conclusion("it hurts perplexity", UNSMOOTHED, BASE, "perplexity")
HELPS = Conclusion("it helps BLEU", BASE, UNSMOOTHED)
ALIKE = Conclusion("learned positions are as good", BASE, LEARNED, equal=True)


class Row(NamedTuple):
    """A row of the CSV: one training, tried on pairs that it did not see.

    perplexity: of a token, without smoothing.
    accuracy: the share of the references' tokens that the model, given those before, prefers.
    bleu: of a search with a beam of 4, in percent.
    """

    variant: str
    pairs: str
    seed: int
    perplexity: float
    accuracy: float
    bleu: float


class Known(NamedTuple):
    """What who knows the channel has on the pairs that are tried.

    perplexity, bleu: as in Row.
    smoothed: the perplexity of who has learned what label smoothing asks for.
    """

    perplexity: float
    smoothed: float
    bleu: float


def small(variant: str) -> HParams:
    """Returns the configuration of one of CHANGES."""
    return copying.small(LAYERS, **{"label_smoothing": SMOOTHING, **CHANGES[variant]})


def draw_pairs(draw: np.random.Generator, pairs: int) -> Batch:
    """Returns pairs of a sentence and a translation, int32 (B, longest + 1) each."""
    inputs = copying.draw_batch(draw, pairs, LENGTHS, SYMBOLS)["inputs"]
    which = draw.choice(len(SHARES), inputs.shape, p=SHARES)
    return {"inputs": inputs, "targets": translated(inputs, np.take(SHIFTS, which))}


def translated(ids: np.ndarray, shift) -> np.ndarray:
    """Returns the translations `shift` places behind each symbol; the rest stays."""
    symbols = (ids - NUM_RESERVED_TOKENS + shift) % SYMBOLS + NUM_RESERVED_TOKENS
    return np.where(ids >= NUM_RESERVED_TOKENS, symbols, ids).astype("int32")


def batches(pairs: str, seed: int) -> Iterator[Batch]:
    """Yields the batches of a training."""
    draw = np.random.default_rng(seed)
    few = draw_pairs(draw, FEW_PAIRS)
    for _ in range(STEPS):
        if pairs == NEW:
            yield draw_pairs(draw, SENTENCES)
        else:
            chosen = draw.integers(0, FEW_PAIRS, SENTENCES)
            yield {name: ids[chosen] for name, ids in few.items()}


def tried() -> Batch:
    """Returns the pairs on which all are tried."""
    return draw_pairs(np.random.default_rng(2**32), TRIED)


def run() -> Result:
    """Trains each variant on both kinds of pairs with each seed; minutes of processor time."""
    rows, batch = [], tried()
    total = len(CHANGES) * len(PAIRS) * SEEDS * STEPS
    with progress.report("channel", total, "steps") as advance:
        for variant in CHANGES:
            make = functools.partial(copying.transformer, small(variant), SYMBOLS)
            learner = copying.Learner(make)
            for pairs in PAIRS:
                for seed in range(SEEDS):
                    advance(0, f"{variant}, {pairs}, seed {seed}")
                    learner.begin(seed)
                    copying.train(learner, batches(pairs, seed), RATE, WARMUP, advance)
                    rows.append(Row(variant, pairs, seed, *measure(learner, batch)))
    return result_of(rows)


def measure(learner: copying.Learner, batch: Batch) -> tuple[float, float, float]:
    """Returns the last three columns of Row."""
    scores = learner.evaluate(batch)
    ids, _ = decode(learner.model, batch["inputs"], beam_size=4, alpha=0.6, decode_length=2)
    return math.exp(scores["loss"]), scores["accuracy"], bleu_of(ids[:, 0], batch["targets"])


def bleu_of(ids: np.ndarray, references: np.ndarray) -> float:
    """Returns the BLEU of symbols, in percent."""
    texts = [
        [[i for i in row if i > EOS_ID] for row in each.tolist()] for each in (ids, references)
    ]
    return 100 * bleu.token_bleu(*texts)


def known(batch: Batch) -> Known:
    """Returns what who knows the channel has."""
    inputs, targets = batch["inputs"], batch["targets"]
    chances = np.zeros(targets.shape)
    for share, shift in zip(SHARES, SHIFTS, strict=True):
        chances += share * (translated(inputs, shift) == targets)
    chances = np.where(targets == EOS_ID, 1.0, chances)[targets > 0]
    others = SYMBOLS + NUM_RESERVED_TOKENS - 1
    smoothed = (1 - SMOOTHING) * chances + SMOOTHING / others * (1 - chances)
    likeliest = translated(inputs, SHIFTS[0])
    best, asked = (float(np.exp(-np.mean(np.log(each)))) for each in (chances, smoothed))
    return Known(best, asked, bleu_of(likeliest, targets))


def result_of(rows: Sequence[Row]) -> Result:
    """Returns what the rows show."""
    best = known(tried())
    return Result(rows, picture(rows, best), sentences(rows, best))


def of(rows: Sequence[Row], variant: str, pairs: str) -> dict[int, conclusions.Result]:
    """Returns {seed: what its training ended with}."""
    chosen = [row for row in rows if row[:2] == (variant, pairs)]
    return {row.seed: conclusions.Result(row.bleu, row.perplexity) for row in chosen}


def judge(rows: Sequence[Row], conclusion: Conclusion, pairs: str) -> Verdict:
    """Returns what the trainings on one kind of pairs say of a conclusion."""
    found = {name: of(rows, name, pairs) for name in CHANGES}
    return conclusions.judge(conclusion, found, float("inf"))


def sentences(rows: Sequence[Row], best: Known) -> tuple[str, str]:
    """Says what the rows show, by the rules of table 3's conclusions (conclusions.judge).

    The claim on label smoothing is supported where with one kind of pairs both its halves are
    confirmed. That on positions is supported where it is confirmed with both kinds, and not where
    with one it is not confirmed; else the numbers do not tell.
    """

    def told(one: str, other: str, pairs: str) -> str:
        ours, theirs = (
            list(zip(*of(rows, each, pairs).values(), strict=True)) for each in (one, other)
        )
        perplexity, score = (
            f"{copying.spread(ours[i])} against {copying.spread(theirs[i])}" for i in (1, 0)
        )
        return f"with {pairs} perplexity is {perplexity}, BLEU {score}"

    halves = {pairs: [judge(rows, each, pairs).word for each in (HURTS, HELPS)] for pairs in PAIRS}
    supported = any(set(words) == {conclusions.CONFIRMED} for words in halves.values())
    first = "As section 5.4 says" if supported else "The numbers do not support section 5.4"
    parts = [
        f"{told(BASE, UNSMOOTHED, pairs)} ({HURTS.text}: {hurts}; {HELPS.text}: {helps})"
        for pairs, (hurts, helps) in halves.items()
    ]
    first += (
        f": after {STEPS} steps with label smoothing against none, {'; '.join(parts)} (mean, least "
        f"and greatest of {SEEDS} seeds; who knows the channel has {best.perplexity:.2f} and "
        f"{best.bleu:.2f}, and {best.smoothed:.2f} with what smoothing asks for)."
    )
    verdicts = [judge(rows, ALIKE, pairs) for pairs in PAIRS]
    words = {verdict.word for verdict in verdicts}
    if words == {conclusions.CONFIRMED}:
        second = "As table 3 (E) says, learned positions are nearly identical to sinusoids: "
    elif conclusions.NOT_CONFIRMED in words:
        second = "Not as table 3 (E) says, learned positions and sinusoids differ: "
    else:
        second = "Whether learned positions are nearly identical to sinusoids is not told: "
    second += "; ".join(
        f"{told(LEARNED, BASE, pairs)}, a difference of {-verdict.difference:+.2f} +- "
        f"{verdict.interval:.2f}"
        for pairs, verdict in zip(PAIRS, verdicts, strict=True)
        if verdict.difference is not None and verdict.interval is not None
    )
    second += (
        f" (nearly identical: the 95 % interval of the difference lies within "
        f"{conclusions.EQUAL_WITHIN} BLEU)."
    )
    return first, second


def picture(rows: Sequence[Row], best: Known):
    """Draws perplexity and BLEU, a mark for each training."""
    title = f"A translation of known ambiguity, after {STEPS} steps"
    figure, axes = pictures.figure(2, title=title, width=5.0, height=4.0)
    lines = (
        {"knows the channel": best.perplexity, "learned what smoothing asks for": best.smoothed},
        {"knows the channel": best.bleu},
    )
    for i, (column, name) in enumerate({"perplexity": "perplexity", "bleu": "BLEU"}.items()):
        for j, variant in enumerate(CHANGES):
            places = {pairs: k + (j - 1) / 5 for k, pairs in enumerate(PAIRS)}
            points = [
                (places[row.pairs], getattr(row, column)) for row in rows if row.variant == variant
            ]
            x, y = zip(*points, strict=True)
            axes[i].plot(x, y, "os^"[j], label=variant, markersize=5, alpha=0.8)
        for (label, level), dashes in zip(lines[i].items(), ("--", ":"), strict=False):
            axes[i].axhline(level, color="#888888", linestyle=dashes, linewidth=1, label=label)
        axes[i].set_xticks(range(len(PAIRS)), PAIRS)
        axes[i].set(ylabel=f"{name}, a mark a seed", xlim=(-0.5, len(PAIRS) - 0.5))
        axes[i].legend(fontsize=7)
    axes[0].set_yscale("log")
    pictures.logarithmic_ticks(axes[0].yaxis, (1.0, 2.0, 3.0, 5.0))
    return figure

"""Experiment: positions beyond the training length (paper, section 3.5).

The paper chose sinusoids because they "may allow the model to extrapolate to sequence lengths
longer than the ones encountered during training". A small pre-norm model learns to copy up to
TRAINED symbols and then copies more, with three kinds of positions:

    sinusoidal   pos "timing"
    learned      pos "emb", with vectors for every length tried: those beyond stay as drawn
    relative     pos None, and self_attention_type "dot_product_relative" (Shaw et al. 2018) up to a
                 distance of 20, as T2T's transformer_relative

Each symbol is written given the right ones before it; nothing is decoded.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_repro import progress
from t2t_repro.config import HParams
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments.result import Result
from t2t_repro.views import pictures

TRAINED = 16  # symbols at most
LENGTHS = (4, 8, 12, 16, 17, 18, 20, 24, 32, 48, 64)  # tried
TWICE = 2 * TRAINED
SYMBOLS = 20
LAYERS = 2  # of the encoder, and of the decoder
SEEDS = 3
STEPS = 600
SENTENCES = 64  # to a step
RATE, WARMUP = 2e-3, 50
TRIED = 100  # sentences of each length
KEEPS = 0.9  # the share of its accuracy at TRAINED that a kind must keep at TWICE to extrapolate

SINUSOIDAL, LEARNED, RELATIVE = "sinusoidal", "learned", "relative"
CHANGES: dict[str, dict[str, Any]] = {
    SINUSOIDAL: {"pos": "timing"},
    LEARNED: {"pos": "emb", "max_length": max(LENGTHS) + 1},
    RELATIVE: {
        "pos": None,
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 20,
    },
}


class Row(NamedTuple):
    """A row of the CSV: one trained model at one length.

    accuracy: the share of tokens that it writes, the end mark included.
    whole: the share of sentences with every token right.
    """

    positions: str
    seed: int
    length: int
    accuracy: float
    whole: float


def small(positions: str) -> HParams:
    """Returns the configuration of one of CHANGES."""
    return copying.small(LAYERS, **CHANGES[positions])


def run() -> Result:
    """Trains each kind with each seed; three or four minutes of processor time."""
    rows = []
    with progress.report("extrapolation", len(CHANGES) * SEEDS * STEPS, "steps") as advance:
        for kind in CHANGES:
            learner = copying.Learner(functools.partial(copying.transformer, small(kind), SYMBOLS))
            for seed in range(SEEDS):
                advance(0, f"{kind} positions, seed {seed}")
                learner.begin(seed)
                draw = np.random.default_rng(seed)
                batches = (
                    copying.draw_batch(draw, SENTENCES, (1, TRAINED), SYMBOLS) for _ in range(STEPS)
                )
                copying.train(learner, batches, RATE, WARMUP, advance)
                rows += [Row(kind, seed, length, *tried(learner, length)) for length in LENGTHS]
    return result_of(rows)


def tried(learner: copying.Learner, length: int) -> tuple[float, float]:
    """Returns the accuracies of Row on sentences of a length, the same for all models."""
    draw = np.random.default_rng(2**32 + length)
    scores = learner.evaluate(copying.draw_batch(draw, TRIED, (length, length), SYMBOLS))
    return scores["accuracy"], scores["accuracy_per_sequence"]


def result_of(rows: Sequence[Row]) -> Result:
    """Returns what the rows show."""
    return Result(rows, picture(rows), sentences(rows))


def accuracies(rows: Sequence[Row], kind: str, length: int) -> list[float]:
    """Returns the accuracy of each seed."""
    return [row.accuracy for row in rows if (row.positions, row.length) == (kind, length)]


def guessed(length: int) -> float:
    """Returns the accuracy of writing the first TRAINED symbols rightly and guessing the rest.

    The rest are the symbols at positions beyond the training, and the end mark.
    """
    return (TRAINED + (length + 1 - TRAINED) / (SYMBOLS + 1)) / (length + 1)


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    A kind extrapolates where with every seed it keeps at least KEEPS of its accuracy at TRAINED
    when the sentences have TWICE the symbols. One kind is better than another at a length where the
    worst of its seeds is better than the best of the other's.
    """

    def kept(kind: str) -> bool:
        pairs = zip(accuracies(rows, kind, TWICE), accuracies(rows, kind, TRAINED), strict=True)
        return all(there >= KEEPS * here for there, here in pairs)

    holds = [kind for kind in CHANGES if kept(kind)]
    supported = SINUSOIDAL in holds
    first = "As the paper hopes: " if supported else "The numbers do not support the paper's hope: "
    parts = [
        f"{copying.spread(accuracies(rows, kind, TRAINED))} at {TRAINED} and "
        f"{copying.spread(accuracies(rows, kind, TWICE))} at {TWICE} with {kind} ones"
        for kind in CHANGES
    ]
    first += (
        f"of models trained on at most {TRAINED} symbols the accuracy is {', '.join(parts)} "
        f"(mean, least and greatest of {SEEDS} seeds; with the first {TRAINED} right and the rest "
        f"guessed it is {guessed(TWICE):.2f}), so {KEEPS:.0%} of it is kept at {TWICE} with "
        f"{' and '.join(holds) or 'none of them'}."
    )
    beyond = [length for length in LENGTHS if length > TRAINED]

    def better(one: str, other: str) -> list[int]:
        return [
            length
            for length in beyond
            if min(accuracies(rows, one, length)) > max(accuracies(rows, other, length))
        ]

    parts = [
        f"{one} than {other} positions at {lengths(better(one, other))}"
        for one in CHANGES
        for other in CHANGES
        if one != other and better(one, other)
    ]
    second = f"Of the {len(beyond)} greater lengths tried, better with every seed are "
    second += f"{', '.join(parts)}." if parts else "none of them than any other."
    return first, second


def lengths(some: Sequence[int]) -> str:
    """Returns "17, 20 and 24"."""
    *most, last = map(str, some)
    return f"{', '.join(most)} and {last}" if most else last


def picture(rows: Sequence[Row]):
    """Draws both accuracies against the length: the mean of the seeds and their range."""
    figure, axes = pictures.figure(2, title=f"Copying, trained on up to {TRAINED} symbols")
    titles = {"accuracy": "tokens right", "whole": "sentences wholly right"}
    for each, (column, title) in zip(axes, titles.items(), strict=True):
        for kind, marker in zip(CHANGES, "os^", strict=True):
            of = [
                [getattr(r, column) for r in rows if (r.positions, r.length) == (kind, length)]
                for length in LENGTHS
            ]
            pictures.band(each, LENGTHS, of, marker=marker, label=kind, markersize=4)
        if column == "accuracy":
            beyond = [length for length in LENGTHS if length >= TRAINED]
            label = f"the first {TRAINED} right, the rest guessed"
            each.plot(beyond, [guessed(length) for length in beyond], "k--", lw=0.8, label=label)
        each.axvline(TRAINED, color="#999999", linestyle=":", label="longest in training")
        each.set(title=title, xlabel="symbols to copy", ylabel="share", ylim=(-0.02, 1.02))
        each.set_xticks((*LENGTHS[:4], *LENGTHS[6:]))
        each.legend(fontsize=7)
    return figure

"""Which is better, each with its best warm-up; after a whole training, or at an early look.

At each depth a variant stands with its *best warm-up*, that of the lowest mean dev loss over its
seeds that did not diverge. The trainings were *whole* if there are at least `SEEDS` seeds, none of
them diverged, each ended better than word frequencies, and the dev loss fell by less than `STILL`
in the last quarter of the steps; or, where the learning rate fell to nothing by the last step, if
it ended below `SHARE` of the dev loss of word frequencies. Otherwise the result is an early look.
"""

import itertools
import math
import statistics
from collections.abc import Sequence

from t2t_repro.study.results import FREQUENCIES, CellResult, Results, compare
from t2t_repro.study.tables import Table

SEEDS = 3
STILL = 0.01  # of the dev loss
NOTHING = 0.01  # of the highest learning rate
SHARE = 0.5


def table(results: Results) -> Table:
    """Returns a row for each two variants at each depth, and then in each setting."""
    study, rows = results.study, []
    pairs = list(itertools.combinations(study.names, 2))
    for depth, names in itertools.product(study.depths, pairs):
        best = [_best_warmup(results, depth, name) for name in names]
        sides = [cells for _, cells in best]
        doubts = [
            doubt
            for name, of in zip(names, best, strict=True)
            for doubt in _doubts(results, depth, name, *of)
        ]
        seeds = len({r.seed for r in sides[0]} & {r.seed for r in sides[1]})
        if seeds < SEEDS:
            doubts.append(f"{seeds} of {SEEDS} seeds")
        of = " and ".join("-" if w is None else f"{w:,}" for w, _ in best)
        warmups = "the set's" if study.warmups == [None] else f"best: {of}"
        rows.append((depth, warmups, *_differences(names, sides), "; ".join(doubts)))
    for (depth, warmup), names in itertools.product(study.settings, pairs):
        cells = (results.select(depth=depth, warmup=warmup, name=name) for name in names)
        sides = [[r for r in of if r.ended] for of in cells]
        if warmup is not None and all(sides):
            rows.append((depth, f"{warmup:,}", *_differences(names, sides), None))
    return Table(
        "verdict",
        "How certain is this",
        "depth | warm-up | of | dev loss :+.3f | ± :.3f | BLEU :+.2f | ±  :.2f | better | "
        "early look, because",
        rows,
        (
            "dev loss and BLEU: the first variant minus the second, seed by seed. better: the 95 % "
            "interval over the seeds (Student's t) excludes 0. best: the warm-up with the lowest "
            "mean dev loss, for each variant. With best or the set's warm-up, an empty last column "
            "means complete trainings.",
        ),
    )


def sentences(results: Results, found: Table) -> list[str]:
    """Returns the table in words, a sentence for each two variants at each depth."""
    study = results.study
    steps = f"{study.variants[0].hparams.train_steps:,} steps"
    said = []
    for row in found.as_dict()["rows"]:
        early = row["early look, because"]
        if early is None:
            continue
        what = f"An early look, after {steps}" if early else f"A whole training of {steps}"
        where = "" if row["depth"] is None else f" with {row['depth']} layers"
        ahead = row["better"].replace(" by ", " is ahead by ").replace(", ", " and ")
        better = "no difference is certain" if row["better"] == "-" else ahead
        said.append(f"{what}{where}, {row['of'].replace(' less ', ' against ')}: {better}.")
    return said


def _differences(names: tuple[str, str], sides: Sequence[Sequence[CellResult]]) -> tuple:
    """Returns two names, how they differ by dev loss and by BLEU, and which is better by what."""
    loss, bleu = (compare(sides[0], sides[1], by) for by in ("dev_loss", "bleu"))
    values = [v for of in (loss, bleu) for v in ((of.mean, of.half) if of else (None, None))]
    known = [(of, by) for of, by in ((loss, "dev loss"), (bleu, "BLEU")) if of is not None]
    better = [f"{names[of.better]} by {by}" for of, by in known if of.better is not None]
    return (f"{names[0]} less {names[1]}", *values, ", ".join(better) or "-")


def _best_warmup(
    results: Results, depth: int | None, name: str
) -> tuple[int | None, list[CellResult]]:
    """Returns the warm-up of the lowest mean loss, and its runs that did not diverge.

    The mean is of those runs alone, so that where others diverged the verdict is in doubt, and
    not that of a worse warm-up. Of equal means that of which fewer diverged goes first.
    """
    found = []
    for warmup in results.study.warmups:
        cells = results.select(depth=depth, warmup=warmup, name=name)
        ended = [r for r in cells if r.ended]
        mean = statistics.fmean(r.dev_loss or 0 for r in ended) if ended else math.inf
        found.append((mean, len(cells) - len(ended), warmup, ended))
    *_, warmup, cells = min(found, key=lambda each: each[:2])
    return (warmup if cells else None), cells


def _doubts(
    results: Results, depth: int | None, name: str, warmup: int | None, cells: Sequence[CellResult]
) -> list[str]:
    """Returns why the trainings of a variant with its best warm-up were not whole."""
    there = results.select(depth=depth, name=name)
    if not cells:
        return [f"{len(there)} of {len(there)} trainings of {name} diverged"] if there else []
    doubts = []
    if diverged := sum(r.variant.warmup == warmup for r in there) - len(cells):
        doubts.append(f"{diverged} trainings of {name} diverged")
    if poor := sum(r.status == FREQUENCIES for r in cells):
        return [*doubts, f"{poor} of {len(cells)} trainings of {name} knew only word frequencies"]
    learned = all((r.dev_loss or math.inf) < SHARE * (r.unigram_loss or 0) for r in cells)
    if learned and _ends_at_nothing(cells[0]):
        return doubts
    fall = _late_fall(cells)
    if fall is None:
        return [*doubts, f"{name} was evaluated too rarely to see whether its dev loss still fell"]
    still = f"the dev loss of {name} still fell by {fall:.1%} in the last quarter of the steps"
    return [*doubts, still] if fall >= STILL else doubts


def _ends_at_nothing(of: CellResult) -> bool:
    """Returns whether the rate has fallen to nothing by the last step."""
    from t2t_repro.training import learning_rate

    hparams = of.variant.hparams
    end = float(learning_rate.Schedule(hparams)(hparams.train_steps))
    return end <= NOTHING * learning_rate.highest(hparams, hparams.train_steps)


def _late_fall(cells: Sequence[CellResult]) -> float | None:
    """Returns by what share the dev loss fell in the last quarter of the steps, in the mean.

    Between evaluations it is read off lines; None: the first of them came later.
    """
    import numpy as np

    falls = []
    for result in cells:
        begin = 0.75 * result.dev[-1][0] if result.dev else 0
        if not result.dev or result.dev[0][0] > begin:
            return None
        steps, losses = zip(*result.dev, strict=True)
        before = float(np.interp(begin, steps, losses))
        falls.append((before - losses[-1]) / before)
    return statistics.fmean(falls)

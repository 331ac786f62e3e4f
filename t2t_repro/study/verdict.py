"""Which is better, each with its best warm-up; after a whole training, or at an early look.

At each depth a variant stands with its *best warm-up*, that of the lowest mean dev loss over its
seeds that did not diverge. The trainings were *whole* if there are at least `SEEDS` seeds, none of
them diverged, each ended better than word frequencies, and the dev loss fell by less than `STILL`
in the last quarter of the steps; or, where the learning rate fell to nothing by the last step, if
it ended below `SHARE` of the dev loss of word frequencies. Else what is seen is an early look.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from t2t_repro.study.results import FREQUENCIES, CellResult, Difference, Results, compare
from t2t_repro.study.variants import Cell, Grid, setting_in_words

SEEDS = 3
STILL = 0.01  # of the dev loss
NOTHING = 0.01  # of the highest learning rate
SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is known of two variants at one depth.

    Attributes:
        depth: None: each set's own.
        names: of the two.
        warmups: the best of each; None: the set's own, or there is none.
        loss, bleu: by dev loss and by BLEU; None where there are none.
        doubts: why the trainings were not whole; empty: they were.
    """

    depth: int | None
    names: tuple[str, str]
    warmups: tuple[int | None, int | None]
    loss: Difference | None
    bleu: Difference | None
    doubts: tuple[str, ...]

    def sentence(self, steps: int) -> str:
        """Returns who is better, by what, and if it is an early look, why."""
        where = "" if self.depth is None else f" at depth {self.depth}"
        first, second = (
            name if warmup is None else f"{name} (warm-up {warmup:,})"
            for name, warmup in zip(self.names, self.warmups, strict=True)
        )
        head = "Early look" if self.doubts else "After a whole training"
        head += f", {steps:,} steps{where}"
        why = f" Early, because {'; '.join(self.doubts)}." if self.doubts else ""
        if self.loss is None:
            return f"{head}: {first} and {second} have no seed to compare.{why}"
        seeds = f"{self.loss.seeds} seed{'s' * (self.loss.seeds > 1)}"
        measured = [("dev loss", self.loss, ".3f"), ("BLEU", self.bleu, ".2f")]
        known = [(what, of, form) for what, of, form in measured if of is not None]
        better = {self.names[of.better] for _, of, _ in known if of.better is not None}
        by = " and ".join(what for what, of, _ in known if of.better is not None)
        said = f"{better.pop()} is better by {by}" if len(better) == 1 else "no difference is shown"
        figures = ", ".join(f"{what} {of.in_words(form)}" for what, of, form in known)
        return f"{head}, {seeds}: {said}. {first} and {second}: {figures}.{why}"


def verdicts(results: Results) -> list[Verdict]:
    """Returns one for each two variants at each depth."""
    return [
        _verdict(results, depth, names)
        for depth in results.grid.depths
        for names in itertools.combinations(results.grid.names, 2)
    ]


def _verdict(results: Results, depth: int | None, names: tuple[str, str]) -> Verdict:
    best = [_best_warmup(results, depth, name) for name in names]
    doubts = []
    for name, (warmup, cells) in zip(names, best, strict=True):
        there = results.of(depth=depth, variant=name)
        there = [r for r in there if r.cell.warmup == warmup] if cells else there
        if not there:
            doubts.append(f"{name} has no result yet")
        elif diverged := len(there) - len(cells):
            doubts.append(f"{diverged} of {len(there)} trainings of {name} diverged")
        if cells:
            doubts += _unfinished(results.grid, name, cells)
    sides = [cells for _, cells in best]
    loss, bleu = (compare(sides[0], sides[1], by) for by in ("dev_loss", "bleu"))
    if loss is not None and loss.seeds < SEEDS:
        doubts.append(f"of {SEEDS} seeds there are {loss.seeds}")
    return Verdict(depth, names, (best[0][0], best[1][0]), loss, bleu, tuple(doubts))


def _unfinished(grid: Grid, name: str, cells: Sequence[CellResult]) -> list[str]:
    """Returns why the trainings of a variant were not whole."""
    if poor := sum(r.status == FREQUENCIES for r in cells):
        return [f"{poor} of {len(cells)} trainings of {name} ended at word frequencies"]
    learned = all((r.dev_loss or np.inf) < SHARE * (r.unigram_loss or 0) for r in cells)
    if _ends_at_nothing(grid, cells[0].cell) and learned:
        return []
    fall = _late_fall(cells)
    if fall is None:
        return [f"{name} was evaluated too seldom"]
    still = f"the dev loss of {name} fell by {fall:.1%} in the last quarter of the steps"
    return [still] if fall >= STILL else []


def _best_warmup(
    results: Results, depth: int | None, name: str
) -> tuple[int | None, list[CellResult]]:
    """Returns the warm-up of the lowest mean loss, and its cells that did not diverge.

    The mean is of those cells alone, so that where others diverged the verdict is in doubt, and
    not that of a worse warm-up. Of equal means that of which fewer diverged goes first.
    """
    found = []
    for warmup in results.grid.warmups:
        cells = results.of(depth=depth, warmup=warmup, variant=name)
        ended = [r for r in cells if r.ended]
        mean = float(np.mean([r.dev_loss for r in ended])) if ended else np.inf
        found.append((mean, len(cells) - len(ended), warmup, ended))
    *_, warmup, cells = min(found, key=lambda each: each[:2])
    return (warmup if cells else None), cells


def _ends_at_nothing(grid: Grid, cell: Cell) -> bool:
    """Whether nothing would be learned behind the last step: the rate has fallen to nothing."""
    from t2t_repro.training import learning_rate

    hparams, steps = grid.hparams_of(cell), grid.train_steps
    end = float(learning_rate.schedule(hparams)(steps))
    return end <= NOTHING * learning_rate.highest(hparams, steps)


def _late_fall(cells: Sequence[CellResult]) -> float | None:
    """Returns by what share the dev loss fell in the last quarter of the steps, in the mean.

    Between evaluations it is read off lines; None: the first of them came later.
    """
    falls = []
    for result in cells:
        begin = 0.75 * result.dev[-1][0] if result.dev else 0
        if not result.dev or result.dev[0][0] > begin:
            return None
        steps, losses = zip(*result.dev, strict=True)
        before = np.interp(begin, steps, losses)
        falls.append((before - losses[-1]) / before)
    return float(np.mean(falls))


def by_setting(results: Results) -> list[tuple[str, str, str, Difference]]:
    """Returns (setting, first, second, difference in dev loss) of each two in each setting."""
    found = []
    for depth, warmup in results.grid.settings():
        for pair in itertools.combinations(results.grid.names, 2):
            here = [r for r in results.of(depth=depth, warmup=warmup) if r.ended]
            first, second = ([r for r in here if r.cell.variant == name] for name in pair)
            difference = compare(first, second, "dev_loss")
            if difference is not None:
                found.append((setting_in_words(depth, warmup), *pair, difference))
    return found

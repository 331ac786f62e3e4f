"""Which is better after a whole training, each with the warm-up that suits it: or why not known.

At each depth a variant stands with its *best warm-up*, that of the lowest mean dev loss over its
seeds that did not diverge. Two variants are compared by dev loss and by BLEU, over the seeds that
both have. The 95 % interval of the difference is of 1,000 resamples that draw seeds and, the same
ones for all cells, dev sentences. One is *better* by a measure if it is so with every seed and the
interval leaves zero out. That is an answer only if the trainings were whole, of at least `SEEDS`
seeds, none of them diverged, and each ended better than word frequencies. A training is whole if
its learning rate fell to nothing by its last step, or if in the last quarter of the steps the dev
loss, on lines between the evaluations, fell by less than `STILL`.

Few seeds support little, whatever is drawn from them: that all of n agree happens by chance in one
of 2 ** (n - 1) comparisons of two that are alike. The answer says that number.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from t2t_repro.scoring.bleu import SacreBleu
from t2t_repro.studies.compare.cell_result import FREQUENCIES, CellResult
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.studies.compare.resampling import RESAMPLES, SEED, UNCORRECTED, interval, lower
from t2t_repro.studies.compare.results import Results
from t2t_repro.studies.tables import Table, columns

SEEDS = 3
STILL = 0.01  # of the dev loss
NOTHING = 0.01  # of the highest learning rate
_LAST = 0.75  # of the steps are before the last quarter


@dataclasses.dataclass(frozen=True)
class Measured:
    """Two variants by one measure: the means over the seeds, and the difference, first less second.

    `low` and `high` bound 95 % of the resamples; `better` is 0 for the first, 1, or None.
    """

    first: float
    second: float
    low: float
    high: float
    better: int | None

    @property
    def difference(self) -> float:
        """The first less the second."""
        return self.first - self.second

    def in_words(self, form: str) -> str:
        """Returns "2.101 against 2.152 (-0.051, 95 % from -0.060 to -0.041)"."""
        sign = f"+{form}"
        return (
            f"{self.first:{form}} against {self.second:{form}} ({self.difference:{sign}}, 95 % "
            f"from {self.low:{sign}} to {self.high:{sign}})"
        )


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is known of two variants at one depth.

    Attributes:
        depth: None: each set's own.
        names: of the two.
        called: the same as a reader knows them: "post-norm (none/dan)".
        warmups: the best of each; None: the set's own, or there is none.
        seeds: that both have.
        loss, bleu: by dev loss and by BLEU; None where there are none.
        doubts: why this is no answer; empty: it is.
    """

    depth: int | None
    names: tuple[str, str]
    called: tuple[str, str]
    warmups: tuple[int | None, int | None]
    seeds: int
    loss: Measured | None
    bleu: Measured | None
    doubts: tuple[str, ...]

    def sentence(self, steps: int) -> str:
        """Returns the answer, or that there is none and why."""
        first, second = map(_with_warmup, self.called, self.warmups)
        where = "" if self.depth is None else f" at depth {self.depth}"
        pair = f"of {first} and {second}{where}"
        measured = [("dev loss", self.loss, ".3f"), ("BLEU", self.bleu, ".2f")]
        known = [(what, of, form) for what, of, form in measured if of]
        figures = "; ".join(f"{what} {of.in_words(form)}" for what, of, form in known)
        if self.doubts:
            text = f"Which {pair} is better after a whole training cannot be said here: "
            return text + "; ".join(self.doubts) + "." + (f" So far: {figures}." if known else "")
        by = {what: of.better for what, of, _ in known if of.better is not None}
        chance = f"that all {self.seeds} seeds agree happens by chance in 1 of {self._chance}"
        head = f"After a whole training of {steps:,} steps with {self.seeds} seeds, {pair}: "
        if not by:
            return f"{head}neither is shown to be better; {figures}."
        winners = {index: [what for what in by if by[what] == index] for index in by.values()}
        said = [f"{self.called[i]} is better by {' and '.join(w)}" for i, w in winners.items()]
        rest = [what for what, of, _ in known if of.better is None]
        undecided = [f"{' and '.join(rest)} decides nothing"] if rest else []
        return f"{head}{', '.join(said + undecided)}; {figures}; {chance}."

    @property
    def _chance(self) -> int:
        return 2 ** (self.seeds - 1)


def _with_warmup(called: str, warmup: int | None) -> str:
    if warmup is None:
        return called
    said = f"warm-up {warmup:,}"
    return f"{called[:-1]}, {said})" if called.endswith(")") else f"{called} ({said})"


def verdicts(results: Results) -> list[Verdict]:
    """Returns one for each two variants at each depth."""
    return [
        _verdict(results, depth, names)
        for depth in results.grid.depths
        for names in itertools.combinations(results.grid.names, 2)
    ]


def table(found: Sequence[Verdict]) -> Table:
    """Returns what was measured for them."""
    rows = []
    for verdict in found:
        for what, of in (("dev loss", verdict.loss), ("BLEU", verdict.bleu)):
            if of:
                better = "-" if of.better is None else verdict.names[of.better]
                names = [
                    name if warmup is None else f"{name}, {warmup:,}"
                    for name, warmup in zip(verdict.names, verdict.warmups, strict=True)
                ]
                ends = of.first, of.second, of.difference, of.low, of.high
                rows.append((verdict.depth, *names, verdict.seeds, what, *ends, better))
    return Table(
        "verdicts",
        "Each with its best warm-up",
        columns(
            "depth | one | other | seeds | by | mean of one :.3f | of the other :.3f | "
            "difference :+.3f | from :+.3f | to :+.3f | better"
        ),
        rows,
        (
            "Behind a name: its best warm-up, that of the lowest mean dev loss over the seeds that "
            f"did not diverge. From and to bound 95 % of {RESAMPLES:,} resamples of seeds and of "
            "dev sentences, the same ones for all. Better: with every seed, and the interval "
            "leaves zero out. Warm-ups are chosen by the sentences that are scored, which flatters "
            f"who has more of them to choose from. {UNCORRECTED}",
        ),
    )


def _verdict(results: Results, depth: int | None, names: tuple[str, str]) -> Verdict:
    best = [_best_warmup(results, depth, name) for name in names]
    called = results.grid.called(names[0]), results.grid.called(names[1])
    warmups = tuple(warmup for warmup, _ in best)
    sides = [cells for _, cells in best]
    shared = set.intersection(*({r.cell.seed for r in side} for side in sides))
    first, second = ([r for r in side if r.cell.seed in shared] for side in sides)
    doubts = []
    for name, words, (warmup, cells) in zip(names, called, best, strict=True):
        there = results.of(depth=depth, variant=name)
        if cells:
            there = [r for r in there if r.cell.warmup == warmup]
        if not there:
            doubts.append(f"of {words} no training came to its end")
        if diverged := len(there) - len(cells):
            doubts.append(f"{diverged} of {len(there)} trainings of {words} diverged")
        if poor := sum(r.status == FREQUENCIES for r in cells):
            doubts.append(f"{poor} of {words} ended no better than word frequencies")
        if not cells or _ends_at_nothing(results.grid, cells[0].cell):
            continue
        fall = _late_fall(cells)
        if fall is None:
            doubts.append(f"{words} was evaluated too seldom to see whether it still learned")
        elif fall >= STILL:
            doubts.append(
                f"in the last quarter of the steps the dev loss of {words} still fell by "
                f"{fall:.1%}, so that these are no whole trainings (with a learning rate that "
                "falls to 0 they would be)"
            )
    if all(sides) and len(shared) < SEEDS:
        count = f"{len(shared)} seed{'s' * (len(shared) != 1)}"
        doubts.append(f"{count} of each, where {SEEDS} are needed")
    loss = _by_loss(first, second) if shared else None
    with_text = shared and all(r.hypotheses for r in (*first, *second))
    bleu = _by_bleu(first, second) if with_text else None
    suits = warmups[0], warmups[1]
    return Verdict(depth, names, called, suits, len(shared), loss, bleu, tuple(doubts))


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
        ended = [r for r in cells if r.diverged_at is None and r.dev_loss is not None]
        mean = float(np.mean([r.dev_loss for r in ended])) if ended else np.inf
        found.append((mean, len(cells) - len(ended), warmup, ended))
    *_, warmup, cells = min(found, key=lambda each: each[:2])
    return (warmup if cells else None), sorted(cells, key=lambda r: r.cell.seed)


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
        if not result.dev:
            return None
        last, end = result.dev[-1]
        begin = _LAST * last
        if result.dev[0][0] > begin:
            return None
        steps, losses = zip(*result.dev, strict=True)
        before = np.interp(begin, steps, losses)
        falls.append((before - end) / before)
    return float(np.mean(falls)) if falls else None


def _by_loss(first: Sequence[CellResult], second: Sequence[CellResult]) -> Measured:
    sides = [
        np.array([r.sentences["loss"] for r in side if r.sentences]) for side in (first, second)
    ]
    tokens = np.array(first[0].sentences["tokens"])  # type: ignore[index]

    def of_draw(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the losses of both sides, (draws, seeds) each, given (draws, sentences)."""
        total = (counts @ tokens)[:, None]
        one, other = (counts @ side.T / total for side in sides)
        return one, other

    return _measured(of_draw, len(tokens), lower_is_better=True)


def _by_bleu(first: Sequence[CellResult], second: Sequence[CellResult]) -> Measured:
    metric = SacreBleu(first[0].references or [])
    sides = [
        np.array([metric.statistics(r.hypotheses or []) for r in side]) for side in (first, second)
    ]

    def of_draw(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums = (np.einsum("ds,nsk->dnk", counts, side).tolist() for side in sides)
        one, other = (
            np.array([[metric.of_statistics(cell) for cell in draw] for draw in of]) for of in sums
        )
        return one, other

    return _measured(of_draw, sides[0].shape[1], lower_is_better=False)


def _measured(
    of_draw: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    sentences: int,
    *,
    lower_is_better: bool,
) -> Measured:
    """Returns the means and their interval.

    Args:
        of_draw: makes of how often each sentence is taken, (D, S), both sides' scores, (D, seeds).
        sentences: S.
        lower_is_better: as of a loss.
    """
    one, other = of_draw(np.ones((1, sentences)))
    each = (one - other)[0]
    draw = np.random.default_rng(SEED)
    counts = draw.multinomial(sentences, np.full(sentences, 1 / sentences), RESAMPLES)
    resampled = np.subtract(*of_draw(counts.astype(np.float64)))
    seeds = draw.integers(len(each), size=resampled.shape)
    differences = np.take_along_axis(resampled, seeds, axis=1).mean(axis=1)
    low, high = interval(differences)
    better = lower(each.tolist(), (low, high))
    if better is not None and not lower_is_better:
        better = 1 - better
    return Measured(float(one.mean()), float(other.mean()), low, high, better)

"""What the cells of a comparison show together, and what their numbers support.

In a setting (depth and warm-up) one variant is *better* than another if its dev loss is lower
with every seed, and the 95 % interval of the difference, from 1,000 paired bootstrap resamples of
the dev sentences over all seeds, leaves zero out. A run that diverged counts as higher than any
that did not; the interval is that of the seeds with which neither did. The report repeats this
rule, and those of cell_result.py.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.scoring.significance import paired_bootstrap
from t2t_repro.studies.compare import cell_result
from t2t_repro.studies.compare.cell_result import ABOVE, FREQUENCIES, NOT_FINITE, CellResult
from t2t_repro.studies.compare.grid import CELLS, RESULT_FILE, Cell, Grid, run_of
from t2t_repro.studies.compare.resampling import RESAMPLES, SEED, interval, lower

Setting = tuple[int | None, int | None]  # depth and warm-up; None: each set's own


@dataclasses.dataclass(frozen=True)
class Difference:
    """The dev loss of one variant less that of another, in one setting, over all their seeds.

    `low` and `high` bound 95 % of the resamples. All three are None where one diverged. `seeds` is
    how many both have.
    """

    depth: int | None
    warmup: int | None
    first: str
    second: str
    loss: float | None
    low: float | None
    high: float | None
    better: str | None  # the one that is better by the rule above
    seeds: int


@dataclasses.dataclass(frozen=True)
class Bleu:
    """sacrebleu's paired bootstrap: the score, half of its 95 % interval, and p against the first
    variant of the same setting and seed (None of that itself, and where it has no translations)."""

    score: float
    interval: float
    p_value: float | None
    signature: str

    def __str__(self) -> str:
        p = "" if self.p_value is None else f" (p = {self.p_value:.3f})"
        return f"{self.score:.1f} ± {self.interval:.1f}{p}"


@dataclasses.dataclass(frozen=True)
class Results:
    """What the finished cells of a grid hold.

    Attributes:
        grid: the comparison.
        by_cell: the finished ones.
    """

    grid: Grid
    by_cell: Mapping[Cell, CellResult]

    def of(self, **wanted: Any) -> list[CellResult]:
        """Returns the results of the cells whose attributes have these values."""
        return [
            result
            for cell, result in self.by_cell.items()
            if all(getattr(cell, name) == value for name, value in wanted.items())
        ]

    def target_loss(self, depth: int | None, warmup: int | None) -> float | None:
        """Returns the loss that all cells of a setting reach: the highest end of a dev curve.

        Cells that diverged are left out.
        """
        cells = self.of(depth=depth, warmup=warmup)
        ends = [r.dev[-1][1] for r in cells if r.dev and r.diverged_at is None]
        return max(ends, default=None)

    @functools.cached_property
    def differences(self) -> list[Difference]:
        """Each pair of variants in each setting that has results of the same seeds."""
        pairs = []
        for depth, warmup in self.grid.settings():
            for names in itertools.combinations(self.grid.names, 2):
                sides = [self.of(depth=depth, warmup=warmup, variant=name) for name in names]
                shared = set.intersection(*({r.cell.seed for r in side} for side in sides))
                first, second = ([r for r in side if r.cell.seed in shared] for side in sides)
                if first:
                    pairs.append(_difference(first, second))
        return pairs

    def bleus(self) -> dict[Cell, Bleu]:
        """Returns the BLEU of each cell that has translations."""
        scores: dict[Cell, Bleu] = {}
        for depth, warmup in self.grid.settings():
            for seed in range(self.grid.seeds):
                scores |= bleu(self.of(depth=depth, warmup=warmup, seed=seed), self.grid.names[0])
        return scores

    def summary(self) -> list[str]:
        """Returns two sentences that the numbers support: who is better where, and how stable
        they are."""
        first = self._who_is_better()
        if len(self.by_cell) < len(self.grid.cells()):
            first = (
                f"Of the {len(self.by_cell)} cells that have ended, {first[0].lower()}{first[1:]}"
            )
        return [first, self._what_is_stable()]

    def _who_is_better(self) -> str:
        """A variant is best in a setting if it is better than each of the others."""
        pairs, steps = self.differences, f"After {self.grid.train_steps:,} steps"
        settings = [s for s in self.grid.settings() if s in {(d.depth, d.warmup) for d in pairs}]
        best: dict[str, list[Setting]] = {name: [] for name in self.grid.names}
        for setting in settings:
            here = [d for d in pairs if (d.depth, d.warmup) == setting]
            for name in self.grid.names:
                mine = [d.better for d in here if name in (d.first, d.second)]
                if mine and set(mine) == {name}:
                    best[name].append(setting)
        undecided = len(settings) - sum(map(len, best.values()))
        counts = sorted({pair.seeds for pair in pairs} or {self.grid.seeds})
        seeds = f"{' or '.join(map(str, counts))} seed{'s' * (counts[-1] > 1)}"
        if undecided == len(settings):
            all_of_them = " and ".join(map(self.grid.called, self.grid.names))
            found, than = f"support no difference between {all_of_them}", "the other's"
            if len(self.grid.names) > 2:
                found, than = f"name no best of {all_of_them}", "each of the others'"
            where = f"none of {len(settings)} settings" if len(settings) > 1 else "no setting"
            return (
                f"{steps} the numbers {found}: in {where} of depth and warm-up does one end with a "
                f"dev loss that is lower than {than} with each of {seeds} and outside the "
                "bootstrap's 95 % interval."
            )
        parts = [
            f"{self.grid.called(name)} in {len(mine)}" + (f" ({_settings(mine)})" if mine else "")
            for name, mine in sorted(best.items(), key=lambda item: -len(item[1]))
        ]
        rest = f", and {undecided} cannot be decided" if undecided else ""
        many = f"{len(settings)} settings" if len(settings) > 1 else "one setting"
        return (
            f"{steps} with {seeds}, the lower dev loss of the {many} of depth "
            f"and warm-up is that of {', of '.join(parts)}{rest}."
        )

    def _what_is_stable(self) -> str:
        said = []
        for words, statuses in (
            ("Diverged", (NOT_FINITE, ABOVE)),
            ("no better than word frequencies at the end", (FREQUENCIES,)),
        ):
            parts, shares = [], set()
            for name in self.grid.names:
                mine = self.of(variant=name)
                bad = [r for r in mine if r.status in statuses]
                of_bad = {(r.cell.depth, r.cell.warmup) for r in bad}
                where = _settings([s for s in self.grid.settings() if s in of_bad])
                parts.append(
                    f"{len(bad)} of {len(mine)} cells of {self.grid.called(name)}"
                    + f" ({where})" * bool(bad)
                )
                shares.add(len(bad) / max(1, len(mine)))
            if shares == {0.0}:
                said.append(f"{words}: none")
            else:
                same = ", which is alike and shows nothing" if len(shares) == 1 else ""
                said.append(f"{words}: {', '.join(parts)}{same}")
        if all(text.endswith(": none") for text in said):
            return (
                "No cell diverged and each ended better than word frequencies, so the numbers say "
                "nothing about which of them is the more stable."
            )
        return "; ".join(said) + "."


def load(grid: Grid, output_dir: pathlib.Path) -> Results:
    """Returns the results of the finished cells.

    Raises:
        UserError: if a result cannot be read, or cells of one seed saw other batches.
    """
    finished = (
        c for c in grid.cells() if (run_of(output_dir, grid, c).path / RESULT_FILE).is_file()
    )
    results = Results(grid, {cell: cell_result.load(output_dir, grid, cell) for cell in finished})
    alike = [{}] if grid.of_sequences else [{"variant": name} for name in grid.names]
    for seed in range(grid.seeds):
        for those in alike:  # sets may say other batches
            found = results.of(seed=seed, **those)
            seen = {r.fingerprint: r.cell for r in found}
            _check_one(seen, f"the same batches in the same order for seed {seed}", output_dir)
    for replicas in {result.replicas for result in results.by_cell.values()}:
        cell_result.check_replicas(output_dir, grid, replicas)
    counts = {tuple(r.sentences["tokens"]): c for c, r in results.by_cell.items() if r.sentences}
    _check_one(counts, "the same dev sentences in all cells", output_dir)
    return results


def _check_one(seen: Mapping[Any, Cell], what: str, output_dir: pathlib.Path) -> None:
    if len(seen) > 1:
        one, other, *_ = seen.values()
        raise UserError(
            f"Expected {what}. Received: others in {one} and in {other}: the data changed between "
            f"them. Remove the folder of the one that is wrong in {output_dir / CELLS}."
        )


def _difference(first: Sequence[CellResult], second: Sequence[CellResult]) -> Difference:
    """Compares two variants' cells of one setting, which are of the same seeds."""
    cell, names = first[0].cell, (first[0].cell.variant, second[0].cell.variant)
    pairs = list(zip(first, second, strict=True))
    each = [_less(*pair) for pair in pairs]
    ended = [pair for pair in pairs if all(r.diverged_at is None for r in pair)]
    bounds = bootstrap(*zip(*ended, strict=True)) if ended else (min(each), max(each))
    found = lower(each, bounds)
    better = None if found is None else names[found]
    if len(ended) < len(pairs):
        return Difference(cell.depth, cell.warmup, *names, None, None, None, better, len(pairs))
    loss = float(np.mean(each))
    return Difference(cell.depth, cell.warmup, *names, loss, *bounds, better, len(pairs))


def _less(first: CellResult, second: CellResult) -> float:
    """Returns one's dev loss less the other's; without end where one alone diverged."""
    if first.diverged_at is not None or second.diverged_at is not None:
        if first.diverged_at is not None and second.diverged_at is not None:
            return 0.0
        return np.inf if first.diverged_at is not None else -np.inf
    return first.dev_loss - second.dev_loss  # type: ignore[operator]


def bootstrap(first: Sequence[CellResult], second: Sequence[CellResult]) -> tuple[float, float]:
    """Returns the 2.5 and 97.5 % quantiles of the difference in dev loss, first less second.

    Each resample draws sentences with replacement, the same ones for all cells (Koehn 2004).
    """
    sides = [[r.sentences for r in side if r.sentences] for side in (first, second)]
    tokens = np.array(sides[0][0]["tokens"], np.float64)
    of_each = [np.mean([s["loss"] for s in side], axis=0) for side in sides]
    draws = np.random.default_rng(SEED).choice(len(tokens), (RESAMPLES, len(tokens)))
    return interval((of_each[0] - of_each[1])[draws].sum(axis=1) / tokens[draws].sum(axis=1))


def bleu(results: Sequence[CellResult], first: str) -> dict[Cell, Bleu]:
    """Returns the BLEU of translations of the same sentences, tested against the first variant's.

    Args:
        results: of one setting and seed, in the order of the variants.
        first: the first variant; where it has no translations nothing is tested.
    """
    with_text = [r for r in results if r.hypotheses]
    if not with_text:
        return {}
    tested, signature = paired_bootstrap(
        [r.hypotheses or [] for r in with_text], with_text[0].references or []
    )
    if with_text[0].cell.variant != first:
        tested = [each._replace(p_value=None) for each in tested]
    return {r.cell: Bleu(*found, signature) for r, found in zip(with_text, tested, strict=True)}


def _settings(settings: Sequence[Setting]) -> str:
    """Returns "depth 2 and 6 with warm-up 0, depth 12 with warm-up 4,000"."""
    by_warmup: dict[int | None, list[int | None]] = {}
    for depth, warmup in settings:
        by_warmup.setdefault(warmup, []).append(depth)
    return ", ".join(
        " ".join(
            [
                "each set's own depth"
                if depths == [None]
                else f"depth {' and '.join(map(str, depths))}",
                "and warm-up"
                if depths == [None] and warmup is None
                else "with its own warm-up"
                if warmup is None
                else f"with warm-up {warmup:,}",
            ]
        )
        for warmup, depths in sorted(by_warmup.items(), key=lambda item: item[0] or 0)
    )

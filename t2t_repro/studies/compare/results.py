"""What a comparison found: each cell's result, and what its numbers support.

The rules, which the report repeats:

* A cell *diverged* if a step's loss or gradients were not finite, which ends the run, or if the
  mean of the last tenth of its reported training losses is above the loss before the first step.
* It ended *at word frequencies* if its dev loss is not below that of a model that knows nothing
  else: it may have failed, or may need more steps.
* In a setting (depth and warm-up) one sequence is *better* than another if its dev loss is lower
  with every seed, and the 95 % interval of the difference, from 1,000 paired bootstrap resamples of
  the dev sentences over all seeds, leaves zero out; or if only the other one diverged.
"""

import dataclasses
import itertools
import json
import pathlib
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.studies.compare import grid
from t2t_repro.studies.compare.grid import RESULT_FILE, Cell, Plan

RESAMPLES = 1000
_SEED = 12345  # of the resamples, as sacrebleu's
_TENTH = 10

Curve = list[tuple[int, float]]
Places = dict[str, float]

NOT_FINITE, ABOVE = "not finite", "diverged"  # the two ways to diverge
FREQUENCIES, LEARNED = "at word frequencies", "learned"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a finished cell holds.

    Attributes:
        cell: which one.
        stopped_at: the step that was not finite; None: all steps were made.
        train, dev: [(step, loss)] as the run reported them.
        initial_loss: of training, before the first step.
        unigram_loss: the dev loss of word frequencies alone; None where there is no end.
        sentences: {"loss", "tokens", "right"}: of each dev sentence at the end; None: no end.
        hypotheses, references: dev translations at the end; None: none.
        tokens_per_second: the median over the reports.
        parameters: of the model.
        fingerprint: a hash of the first batches.
        gradients, activations: {step: {place: value}}.
    """

    cell: Cell
    stopped_at: int | None
    train: Curve
    dev: Curve
    initial_loss: float | None
    unigram_loss: float | None
    sentences: dict[str, list[float]] | None
    hypotheses: list[str] | None
    references: list[str] | None
    tokens_per_second: float
    parameters: int
    fingerprint: str
    gradients: dict[int, Places]
    activations: dict[int, Places]

    @property
    def dev_loss(self) -> float | None:
        """The cross entropy of a dev token at the end."""
        return self._per_token("loss")

    @property
    def accuracy(self) -> float | None:
        """The share of dev tokens predicted at the end, each given those before it."""
        return self._per_token("right")

    def _per_token(self, name: str) -> float | None:
        if self.sentences is None:
            return None
        return sum(self.sentences[name]) / sum(self.sentences["tokens"])

    @property
    def last_train_loss(self) -> float | None:
        """The mean of the last tenth of the reported losses."""
        losses = [loss for _, loss in self.train]
        return float(np.mean(losses[-max(1, len(losses) // _TENTH) :])) if losses else None

    @property
    def status(self) -> str:
        """One of the four words above, by the rules of this module."""
        if self.stopped_at is not None:
            return NOT_FINITE
        if self._is_above(self.last_train_loss):
            return ABOVE
        if self.dev_loss is not None and not self.dev_loss < (self.unigram_loss or np.inf):
            return FREQUENCIES
        return LEARNED

    @property
    def diverged_at(self) -> int | None:
        """The step at which it diverged: not finite, or above its beginning from there on."""
        if self.status == NOT_FINITE:
            return self.stopped_at
        if self.status != ABOVE:
            return None
        below = [step for step, loss in self.train if not self._is_above(loss)]
        return next(step for step, _ in self.train if step > max(below, default=0))

    def _is_above(self, loss: float | None) -> bool:
        return loss is not None and self.initial_loss is not None and loss > self.initial_loss

    def ending(self) -> str:
        """Returns how it ended, in words."""
        if self.diverged_at is not None:
            return f"{self.status} at step {self.diverged_at}"
        return f"dev loss {self.dev_loss:.3f}, {self.status}"

    def steps_to(self, loss: float) -> int | None:
        """Returns the first step at which the dev curve is at `loss`, on lines between its points.

        None if it never is; the curve's first point counts as its own step.
        """
        before = None
        for step, value in self.dev:
            if value <= loss:
                if before is None or value == before[1]:
                    return step
                share = (before[1] - loss) / (before[1] - value)
                return round(before[0] + share * (step - before[0]))
            before = (step, value)
        return None


def load(plan: Plan, output_dir: pathlib.Path) -> dict[Cell, Result]:
    """Returns the result of each finished cell.

    Raises:
        UserError: if a result cannot be read, or cells of one seed saw other batches.
    """
    results = {
        cell: load_cell(output_dir, cell)
        for cell in plan.cells()
        if (grid.run_of(output_dir, cell).path / RESULT_FILE).is_file()
    }
    for seed in range(plan.seeds):
        seen = {r.fingerprint: cell for cell, r in results.items() if cell.seed == seed}
        if len(seen) > 1:
            one, other, *_ = seen.values()
            raise UserError(
                f"Expected the same batches in the same order for seed {seed}. Received: others "
                f"in {one} and in {other}: the data changed between them. Remove the folder of "
                f"the one that is wrong in {output_dir / grid.CELLS}."
            )
    return results


def load_cell(output_dir: pathlib.Path, cell: Cell) -> Result:
    """Returns the result of a finished cell.

    Raises:
        UserError: if its file cannot be read.
    """
    run = grid.run_of(output_dir, cell)
    path = run.path / RESULT_FILE
    rows = run.read_metrics()

    def curve(kind: str) -> Curve:
        return [(row["step"], float(row["loss"])) for row in rows if row.get("kind") == kind]

    def by_step(values: dict[str, Places]) -> dict[int, Places]:
        return {int(step): places for step, places in values.items()}

    rates = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Result(
            **{
                **values,
                "cell": Cell(**values["cell"]),
                "gradients": by_step(values["gradients"]),
                "activations": by_step(values["activations"]),
            },
            train=curve("train"),
            dev=curve("eval"),
            tokens_per_second=float(np.median(rates)) if rates else 0.0,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"Expected {path} as t2t-compare wrote it. Received: {error!r}. Remove the file, and "
            "the same command writes it anew."
        ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The dev loss of one sequence less that of another, in one setting, over all their seeds.

    `low` and `high` bound 95 % of the resamples. All three are None where one has no end.
    """

    depth: int
    warmup: int
    first: str
    second: str
    loss: float | None
    low: float | None
    high: float | None
    better: str | None  # the sequence that is better by the rule above


def difference(
    setting: tuple[int, int], first: Sequence[Result], second: Sequence[Result]
) -> Difference | None:
    """Compares two sequences' cells, which are of the same seeds; None where there are none."""
    if not first or len(first) != len(second):
        return None
    names = first[0].cell.sequences, second[0].cell.sequences
    depth, warmup = setting
    known = Difference(
        depth=depth,
        warmup=warmup,
        first=names[0],
        second=names[1],
        loss=None,
        low=None,
        high=None,
        better=None,
    )
    failed = [any(r.diverged_at is not None for r in side) for side in (first, second)]
    if any(failed):
        better = names[failed.index(False)] if not all(failed) else None
        return dataclasses.replace(known, better=better)
    each = [a.dev_loss - b.dev_loss for a, b in zip(first, second, strict=True)]  # type: ignore
    low, high = bootstrap(first, second)
    better = None
    if max(each) < 0 and high < 0:
        better = names[0]
    elif min(each) > 0 and low > 0:
        better = names[1]
    return dataclasses.replace(known, loss=float(np.mean(each)), low=low, high=high, better=better)


def bootstrap(first: Sequence[Result], second: Sequence[Result]) -> tuple[float, float]:
    """Returns the 2.5 and 97.5 % quantiles of the difference in dev loss, first less second.

    Each resample draws sentences with replacement, the same ones for all cells (Koehn 2004).
    """
    sides = [[r.sentences for r in side if r.sentences] for side in (first, second)]
    tokens = np.array(sides[0][0]["tokens"], np.float64)
    of_each = [np.mean([s["loss"] for s in side], axis=0) for side in sides]
    draws = np.random.default_rng(_SEED).choice(len(tokens), (RESAMPLES, len(tokens)))
    sums = (of_each[0] - of_each[1])[draws].sum(axis=1) / tokens[draws].sum(axis=1)
    low, high = np.quantile(sums, (0.025, 0.975))
    return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Bleu:
    """sacrebleu's paired bootstrap: the score, half of its 95 % interval, and p against the first
    sequence of the same setting and seed (None of that itself)."""

    score: float
    interval: float
    p_value: float | None
    signature: str


def bleu(results: Sequence[Result]) -> dict[Cell, Bleu]:
    """Returns the BLEU of translations of the same sentences, tested against the first of them."""
    with_text = [r for r in results if r.hypotheses]
    if not with_text:
        return {}
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Sequence[str]]] = [
        (r.cell.name, r.hypotheses or []) for r in with_text
    ]
    references = [with_text[0].references or []]
    signatures, scores = PairedTest(systems, {"BLEU": BLEU()}, references, "bs")()
    signature, found = str(signatures["BLEU"]), typing.cast(list[Any], scores["BLEU"])
    return {
        r.cell: Bleu(s.score, float(s.ci), s.p_value, signature)
        for r, s in zip(with_text, found, strict=True)
    }


def differences(plan: Plan, results: dict[Cell, Result]) -> list[Difference]:
    """Returns each pair of sequences in each setting that has results of the same seeds."""
    found = []
    for depth, warmup in plan.settings():
        for pair in itertools.combinations(plan.sequences, 2):
            sides = [
                [r for c, r in results.items() if (c.depth, c.warmup, c.sequences) == key]
                for key in ((depth, warmup, name) for name in pair)
            ]
            shared = {r.cell.seed for r in sides[0]} & {r.cell.seed for r in sides[1]}
            first, second = ([r for r in side if r.cell.seed in shared] for side in sides)
            found.append(difference((depth, warmup), first, second))
    return [each for each in found if each is not None]


def target_loss(results: Sequence[Result]) -> float | None:
    """Returns the loss that all of a setting's cells reach: the highest last point of a dev curve.

    Cells that diverged are left out.
    """
    ends = [r.dev[-1][1] for r in results if r.dev and r.diverged_at is None]
    return max(ends, default=None)


def summary(plan: Plan, results: dict[Cell, Result], pairs: Sequence[Difference]) -> list[str]:
    """Returns two sentences that the numbers support: who is better where, and how stable
    they are.

    A sequence is best in a setting if it is better than each of the others.
    """
    settings = {(d.depth, d.warmup) for d in pairs}
    best: dict[str, list[tuple[int, int]]] = {name: [] for name in plan.sequences}
    for setting in sorted(settings):
        here = [d for d in pairs if (d.depth, d.warmup) == setting]
        for name in plan.sequences:
            mine = [d for d in here if name in (d.first, d.second)]
            if mine and all(d.better == name for d in mine):
                best[name].append(setting)
    first = _who_is_better(best, len(settings), plan)
    if len(results) < len(plan.cells()):
        first = f"Of the {len(results)} cells that have ended, {first[0].lower()}{first[1:]}"
    return [first, _what_is_stable(plan, results)]


def _who_is_better(best: dict[str, list[tuple[int, int]]], settings: int, plan: Plan) -> str:
    undecided = settings - sum(map(len, best.values()))
    names = " and ".join(plan.sequences)
    seeds = f"{plan.seeds} seed{'s' * (plan.seeds > 1)}"
    if undecided == settings:
        return (
            f"After {plan.train_steps:,} steps the numbers support no difference between {names}: "
            f"in none of the {settings} settings of depth and warm-up does one end with a dev loss "
            f"that is lower with each of {seeds} and outside the bootstrap's 95 % interval."
        )
    order = sorted(best, key=lambda name: -len(best[name]))
    parts = [
        f"{name} in {len(best[name])} ({_settings(best[name])})" if best[name] else f"{name} in 0"
        for name in order
    ]
    rest = f", and {undecided} cannot be decided" if undecided else ""
    return (
        f"After {plan.train_steps:,} steps with {seeds}, the lower dev loss of the {settings} "
        f"settings of depth and warm-up is that of {', of '.join(parts)}{rest}."
    )


def _what_is_stable(plan: Plan, results: dict[Cell, Result]) -> str:
    said = []
    for words, statuses in (
        ("Diverged", (NOT_FINITE, ABOVE)),
        ("no better than word frequencies at the end", (FREQUENCIES,)),
    ):
        parts, shares = [], set()
        for name in plan.sequences:
            mine = [r for c, r in results.items() if c.sequences == name]
            bad = [r for r in mine if r.status in statuses]
            where = _settings(sorted({(r.cell.depth, r.cell.warmup) for r in bad}))
            parts.append(f"{len(bad)} of {len(mine)} cells of {name}" + f" ({where})" * bool(bad))
            shares.add(len(bad) / max(1, len(mine)))
        if shares == {0.0}:
            said.append(f"{words}: none")
        else:
            same = ", which is alike and shows nothing" if len(shares) == 1 else ""
            said.append(f"{words}: {', '.join(parts)}{same}")
    if all(text.endswith(": none") for text in said):
        return (
            "No cell diverged and each ended better than word frequencies, so the numbers say "
            "nothing about which of the sequences is the more stable."
        )
    return "; ".join(said) + "."


def _settings(settings: Sequence[tuple[int, int]]) -> str:
    """Returns "depth 2 and 6 with warm-up 0, depth 12 with warm-up 4,000"."""
    by_warmup: dict[int, list[int]] = {}
    for depth, warmup in settings:
        by_warmup.setdefault(warmup, []).append(depth)
    return ", ".join(
        f"depth {' and '.join(map(str, depths))} with warm-up {warmup:,}"
        for warmup, depths in sorted(by_warmup.items())
    )

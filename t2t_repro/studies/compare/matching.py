"""Equal parameters: widths of the other sets with which they have as many as the first."""

import dataclasses
import functools
import math
import os
from typing import Any

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.fields import parse_overrides
from t2t_repro.hparam_rules import MODELS, TRANSFORMER
from t2t_repro.models import parameters
from t2t_repro.studies.compare.grid import Cell, Grid

MOST = 0.05  # of the first's parameters: more is not equal
_WIDEST = 8192
# What grows with hidden_size, in the same proportion.
_WIDTHS = (
    *("hidden_size", "filter_size", "attention_layer_size"),
    *("attention_key_channels", "attention_value_channels"),
)


def with_equal_parameters(grid: Grid) -> Grid:
    """Returns the grid with widths that give each variant as many parameters as the first has.

    Raises:
        UserError: if it has several depths, a width of a variant is asked for, a vocabulary is
            missing, a model is none of this package's, or a variant has none that comes within
            `MOST`.
    """
    if len(grid.depths) > 1:
        raise UserError(
            "Expected one depth with --match=parameters, as widths depend on it. Received: "
            f"{len(grid.depths)}. Compare one after another."
        )
    found = [grid.hparams_of(Cell(*grid.settings()[0], name, 0)) for name in grid.names]
    for variant, hparams in zip(grid.variants, found, strict=True):
        if hparams.model not in MODELS:
            raise UserError(
                "Expected models whose parameters are known by their hparams with "
                f"--match=parameters: {', '.join(MODELS)}. Received: model={hparams.model} of "
                f"{variant.name}. Give widths of its own in its brackets instead."
            )
    problem = registry.get_problem(grid.problem)
    where = os.fspath(grid.data_dir)
    sizes = problem.inputs_vocab_size(where), problem.targets_vocab_size(where)
    wanted = parameters.count(found[0], *sizes).total
    matched = [grid.variants[0]]
    for variant, hparams in zip(grid.variants[1:], found[1:], strict=True):
        changes = _widths(hparams, sizes, wanted, variant.name)
        text = ",".join(f"{name}={value}" for name, value in changes.items())
        own = _without(variant.hparams, changes)
        matched.append(dataclasses.replace(variant, hparams=",".join(filter(None, [own, text]))))
    return dataclasses.replace(grid, variants=tuple(matched))


def in_words(grid: Grid) -> str:
    """Returns what was chosen, a line for each variant."""
    problem = registry.get_problem(grid.problem)
    where = os.fspath(grid.data_dir)
    sizes = problem.inputs_vocab_size(where), problem.targets_vocab_size(where)
    lines = []
    for variant in grid.variants:
        hparams = grid.hparams_of(Cell(*grid.settings()[0], variant.name, 0))
        count = parameters.count(hparams, *sizes).total
        lines.append(f"{variant.name}: {count:,} parameters, {variant.hparams or 'as it is'}")
    return "\n".join(lines)


def _widths(hparams: HParams, sizes: tuple[int, int], wanted: int, name: str) -> dict[str, int]:
    """Returns the widths with which a configuration comes nearest to so many parameters."""
    unit = math.lcm(2, hparams.num_heads) if hparams.model == TRANSFORMER else 2
    own = {n: getattr(hparams, n) for n in _WIDTHS if not hparams.unread([n])}
    own = {n: value for n, value in own.items() if value}

    @functools.cache
    def count(units: int) -> int:
        changes: dict[str, Any] = {**scaled(units)}
        return parameters.count(dataclasses.replace(hparams, **changes), *sizes).total

    def scaled(units: int) -> dict[str, int]:
        share = units * unit / hparams.hidden_size
        return {n: max(1, round(value * share / unit)) * unit for n, value in own.items()}

    low, high = 1, _WIDEST // unit
    while low < high:  # the least with as many or more
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle) >= wanted else (middle + 1, high)
    units = min((max(1, low - 1), low), key=lambda each: abs(count(each) - wanted))
    if abs(count(units) - wanted) > MOST * wanted:
        raise UserError(
            f"Expected a width with which {name} has {wanted:,} parameters, up to {MOST:.0%}. "
            f"Received: {count(units):,} as the nearest. Give it other depths, or the first set "
            "another width."
        )
    return scaled(units)


def _without(text: str, changes: dict[str, int]) -> str:
    """Returns a variant's own changes, which say no width."""
    for name in sorted(parse_overrides(text).keys() & changes.keys()):
        raise UserError(
            f"Expected --match=parameters to choose {name}. Received: {text!r}. Leave it out."
        )
    return text

"""What the paper did for each row of tables 2 and 3, as runs of this project's programs.

Section 5.2: base for 100,000 steps in 12 hours, big for 300,000 in 3.5 days. Section 6.1: the mean
of the last 5 and 20 checkpoints, one every ten minutes, which were as many updates as 8 P100 make
in ten minutes; beam 4, alpha 0.6, at most the input's length and 50 more. Section 6.2: of table 3
the same search, but no averages.
"""

import dataclasses
from collections.abc import Mapping

from t2t_repro import registry
from t2t_repro.errors import unknown
from t2t_repro.problem import Split
from t2t_repro.studies.paper import published

MINUTES = 10  # between two checkpoints of the paper
ENDE, ENFR = "translate_ende_wmt14", "translate_enfr_wmt14"
_BASE, _BIG = published.TRAINING
_AVERAGED = {"base": 5, "big": 20}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """A row of a table as a run.

    Attributes:
        name: of the row, and of the run's folder.
        problem: on what it is trained; its dev split chooses, its test split is scored.
        hparams_set: its settings.
        hparams: changes to them, "name=value,name=value".
        averaged: how many of the last checkpoints are averaged; 1: the last alone.
        updates: between two checkpoints.
        seed: of the run.
        splits: what is translated and scored.
    """

    name: str
    problem: str
    hparams_set: str
    hparams: str = ""
    averaged: int
    updates: int
    seed: int = 0
    splits: tuple[str, ...] = (Split.EVAL, Split.TEST)


def _of_table2(name: str, problem: str, hparams_set: str) -> Recipe:
    model = _BIG if "_big" in hparams_set else _BASE
    steps = registry.get_hparams(hparams_set).train_steps
    return Recipe(
        name=name,
        problem=problem,
        hparams_set=hparams_set,
        averaged=_AVERAGED[model.model],
        updates=round(steps / (model.hours * 60 / MINUTES)),
    )


# The rows of table 2, and beside them what the paper leaves open: see docs/paper.md.
TABLE2 = {
    "ende_base": (ENDE, "paper_table3_base"),
    "ende_big": (ENDE, "paper_table3_big"),
    "enfr_base": (ENFR, "paper_table2_base_enfr"),
    "enfr_big": (ENFR, "paper_table2_big_enfr"),
    "ende_base_bpe": (f"{ENDE}_bpe37k", "paper_table3_base"),
    "ende_big_bpe": (f"{ENDE}_bpe37k", "paper_table3_big"),
    "enfr_big_separate": (ENFR, "paper_table2_big_enfr_separate"),
    "enfr_big_attention_dropout": (ENFR, "paper_table2_big_enfr_attention_dropout"),
}


def table2(name: str) -> Recipe:
    """Returns the recipe of a row of table 2.

    Raises:
        UserError: on an unknown row.
    """
    if name not in TABLE2:
        raise unknown("row of table 2", name, TABLE2)
    return _of_table2(name, *TABLE2[name])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """By what table 3 is made smaller: every width by one factor, every length by another.

    Attributes:
        width: d_model, d_ff, and with them d_k and d_v, are divided by it.
        train_steps: of base; big has three times as many, as in the paper.
        warmup_steps: of all.
        batch: tokens of each side.
    """

    width: int
    train_steps: int
    warmup_steps: int
    batch: int


_CHECKPOINTS = 5  # of a run of table 3, whose last is the table's; the others are for who stops it
_OF_WIDTH = ("hidden_size", "filter_size", "attention_key_channels", "attention_value_channels")


def table3(name: str, problem: str, scale: Scale, seed: int) -> Recipe:
    """Returns the recipe of a row of table 3, made smaller.

    Args:
        name: of the row, "base", "a_h1" and so on.
        problem: on what.
        scale: by what.
        seed: of the run.

    Raises:
        UserError: on an unknown row.
    """
    sets = {row_name(row.hparams_set): row.hparams_set for row in published.TABLE3}
    if name not in sets:
        raise unknown("row of table 3", name, sets)
    full, base = (registry.get_hparams(sets[each]) for each in (name, "base"))
    steps = scale.train_steps * full.train_steps // base.train_steps
    changes: Mapping[str, int] = {
        **{each: getattr(full, each) // scale.width for each in _OF_WIDTH if getattr(full, each)},
        "train_steps": steps,
        "learning_rate_warmup_steps": scale.warmup_steps,
        "effective_batch_size": scale.batch,
    }
    return Recipe(
        name=f"{name}-{seed}",
        problem=problem,
        hparams_set=sets[name],
        hparams=",".join(f"{each}={value}" for each, value in changes.items()),
        averaged=1,
        updates=max(1, steps // _CHECKPOINTS),
        seed=seed,
        splits=(Split.EVAL,),
    )


def row_name(hparams_set: str) -> str:
    """Returns the short name of a row of table 3."""
    return hparams_set.removeprefix("paper_table3_")

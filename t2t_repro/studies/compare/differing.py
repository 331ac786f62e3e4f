"""What differs between the variants of a comparison: every hparam, and the learning rates."""

import dataclasses

from t2t_repro.hparam_rules import unread_by
from t2t_repro.studies.compare.grid import Cell, Grid, setting_in_words
from t2t_repro.studies.tables import Column, Table

_UNREAD = "not read"
_SAME = (
    "Only layer_preprocess_sequence and layer_postprocess_sequence differ between the cells of one "
    "depth, warm-up and seed: initial kernels, batches and their order, dropout seeds and learning "
    "rates are the same. tensor2tensor's own transformer_base_v1 (post-norm) and _v2 (pre-norm) "
    "differ in the dropout of attention and feed-forward, in the warm-up and in the learning rate "
    "as well, so that a comparison of those two sets is not one of post-norm and pre-norm."
)


def table(grid: Grid) -> Table:
    """Returns a row for each hparam that is not the same in all variants, and that one reads."""
    depth, warmup = grid.settings()[0]
    found = [grid.hparams_of(Cell(depth, warmup, name, 0)) for name in grid.names]
    rows = []
    for field in dataclasses.fields(found[0]):
        set_to = [
            _UNREAD if unread_by(hparams.model, field.name) else str(getattr(hparams, field.name))
            for hparams in found
        ]
        shown = [
            _UNREAD if hparams.unread([field.name]) else value
            for hparams, value in zip(found, set_to, strict=True)
        ]
        if len(set(set_to)) > 1 and set(shown) != {_UNREAD}:
            rows.append((field.name, *shown))
    where = setting_in_words(depth, warmup)
    return Table(
        "differing",
        "What differs",
        (Column("hparam"), *(Column(name) for name in grid.names)),
        rows,
        ("Every hparam that is not the same in all" + (f", at {where}" if where else "") + ".",),
    )


def caveat(grid: Grid) -> str:
    """Returns what the differences mean for who reads the report."""
    if grid.of_sequences:
        return _SAME
    count = len(table(grid).rows)
    return (
        f"Whole sets are compared: {count} hparams differ, which the table lists. What the report "
        "says is of the sets, and not of any one of these. A seed gives each set its own weights, "
        "and its own batches where the sets batch differently."
    )


def rates(grid: Grid) -> str:
    """Returns a sentence about the learning rates of each warm-up, and of each set."""
    from t2t_repro.training import learning_rate

    parts = []
    for warmup in grid.warmups:
        for name in grid.names[:1] if grid.of_sequences else grid.names:
            hparams = grid.hparams_of(Cell(grid.depths[0], warmup, name, 0))
            schedule = learning_rate.schedule(hparams)
            first, last = (float(schedule(step)) for step in (1, grid.train_steps - 1))
            highest = learning_rate.highest(hparams, grid.train_steps)
            factors = hparams.learning_rate_schedule
            if factors == "legacy":
                factors = f"legacy, {hparams.learning_rate_decay_scheme}"
            setting = setting_in_words(None, warmup)
            who = setting if grid.of_sequences else ", ".join(filter(None, [name, setting]))
            parts.append(
                f"{who}: {first:.2e} at the second step, {highest:.2e} at its highest, "
                f"{last:.2e} at the last ({factors})"
            )
    without = (
        " A warm-up of 0 leaves the rise out and keeps the rest: the rate begins at the peak of "
        "the set's own warm-up, stays there as long, and falls then."
    )
    return f"Learning rate with {'; with '.join(parts)}." + without * (0 in grid.warmups)

"""Quality against time and FLOPs, on results made by hand."""

import dataclasses

import pytest

from t2t_repro.studies.compare import costs, variants
from t2t_repro.studies.compare.cell_result import CellResult
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.studies.compare.results import Results

BIG, FAST = "transformer_base_v1", "lstm_attention"
CURVES = {BIG: [(100, 5.0), (200, 3.0), (400, 2.0)], FAST: [(100, 4.0), (200, 3.5), (400, 3.4)]}


@pytest.fixture
def results():
    """The big one takes half a second a step and 8 GFLOP, the other a quarter and 10."""
    plan = Grid(
        problem="algorithmic_reverse_binary40_test",
        data_dir="/data",
        variants=variants.of_sets(f"{BIG},{FAST}"),
        seeds=2,
        train_steps=400,
    )
    cells = {
        cell: CellResult(
            cell=cell,
            stopped_at=None,
            train=[],
            dev=[(step, loss + cell.seed / 10) for step, loss in CURVES[cell.variant]],
            initial_loss=None,
            unigram_loss=None,
            sentences=None,
            hypotheses=None,
            references=None,
            tokens_per_second=1000.0,
            parameters=77,
            step_tokens=500.0 if cell.variant == BIG else 250.0,
            step_flop=8e9 if cell.variant == BIG else 10e9,
            fingerprint="",
            gradients={},
            activations={},
        )
        for cell in plan.cells()
    }
    return Results(plan, cells)


def test_who_is_better_at_equal_time_and_at_equal_flops(results):
    big, fast = costs.costs(results)
    assert (big.step_seconds, fast.step_seconds) == (0.5, 0.25)
    assert fast.spent == {"time": pytest.approx(100 / 3600), "FLOPs": pytest.approx(4e12)}
    # After 100 s the big one has made 200 steps; of 3.2 TFLOP the other makes 320.
    assert big.loss_by == {"time": pytest.approx(3.05), "FLOPs": pytest.approx(2.05)}
    assert fast.loss_by == {"time": pytest.approx(3.45), "FLOPs": pytest.approx(3.44 + 0.05)}
    assert costs.sentences([big, fast], 2) == [
        "The lowest dev loss is at equal time (0.028 hours) that of transformer_base_v1, 3.050 "
        "(lstm_attention 3.450), at equal FLOPs (3.2e+12) that of transformer_base_v1, 2.050 "
        "(lstm_attention 3.490): means over 2 seeds."
    ]
    rows = costs.table([big, fast]).rows
    assert rows[0][2:6] == (BIG, 77, 8.0, 500.0)
    assert len(costs.draw(results).axes) == 2


def test_what_was_not_evaluated_by_then_has_no_loss(results):
    slow = {
        cell: dataclasses.replace(r, step_tokens=5000.0) if cell.variant == BIG else r
        for cell, r in results.by_cell.items()
    }
    big, fast = costs.costs(Results(results.grid, slow))
    assert big.loss_by["time"] is None and fast.loss_by["time"] == pytest.approx(3.45)
    assert "equal time" not in costs.sentences([big, fast], 2)[0]
    assert costs.costs(Results(results.grid, {})) == costs.sentences([], 2) == []
    stopped = Cell(None, None, BIG, 0)
    only = {stopped: dataclasses.replace(results.by_cell[stopped], stopped_at=3)}
    assert costs.costs(Results(results.grid, only)) == []


def test_flops_that_are_not_known_stay_empty(results):
    own = {
        cell: dataclasses.replace(r, step_flop=None) if cell.variant == BIG else r
        for cell, r in results.by_cell.items()
    }
    found = big, fast = costs.costs(Results(results.grid, own))
    assert big.loss_by == {"time": pytest.approx(3.05), "FLOPs": None}
    assert fast.loss_by["FLOPs"] == pytest.approx(3.45)
    (said,) = costs.sentences(found, 2)
    assert "at equal time" in said and "FLOPs" not in said
    first, _ = costs.table(found).rows
    assert first[4] is first[7] is None
    for cells in (own, {c: dataclasses.replace(r, step_flop=None) for c, r in own.items()}):
        costs.draw(Results(results.grid, cells)).canvas.draw()


def test_losses_are_of_the_seeds_with_which_all_ended(results):
    stopped = Cell(None, None, BIG, 1)
    one = results.by_cell | {stopped: dataclasses.replace(results.by_cell[stopped], stopped_at=3)}
    big, fast = found = costs.costs(Results(results.grid, one))
    assert big.loss_by["time"] == pytest.approx(3.0)
    assert fast.loss_by["time"] == pytest.approx(3.4)  # not the mean of 3.4 and 3.5
    assert [row[-1] for row in costs.table(found).rows] == [1, 1]
    (said,) = costs.sentences(found, 2)
    assert said.endswith("means over 1 seed, those with which all came to their end.")
    other = Cell(None, None, FAST, 0)
    none = one | {other: dataclasses.replace(one[other], stopped_at=3)}
    found = costs.costs(Results(results.grid, none))
    assert [cost.loss_by["time"] for cost in found] == [None, None]
    assert costs.sentences(found, 2) == []


def test_names_that_would_cover_the_curves_stand_below_them(results):
    short, *others = costs.draw(results).axes
    assert short.get_legend() and not short.figure.legends
    plan = results.grid
    name = f"{FAST}[model=lstm_seq2seq_attention_bidirectional_encoder]"
    long = dataclasses.replace(plan, variants=variants.of_sets(f"{BIG},{name},{FAST}"))
    cells = {
        dataclasses.replace(cell, variant=name) if cell.variant == FAST else cell: result
        for cell, result in results.by_cell.items()
    }
    figure = costs.draw(Results(long, cells))
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [BIG, name.replace("[", "\n[")]
    assert not any(axes.get_legend() for axes in figure.axes)

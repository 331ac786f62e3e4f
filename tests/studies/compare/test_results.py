"""What the numbers of a comparison support, on results made by hand."""

import dataclasses
import json

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.studies.compare import grid as comparison
from t2t_repro.studies.compare import results as comparison_results
from t2t_repro.studies.compare.cell_result import CellResult
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.studies.compare.results import Results
from t2t_repro.studies.compare.variants import of_sequences, of_sets

POST, PRE = "none/dan", "n/da"
TOKENS = [4, 9, 2, 7, 5]


def plan_of(sequences=f"{POST},{PRE}", **changes) -> Grid:
    values = {
        "problem": "algorithmic_reverse_binary40_test",
        "data_dir": "/data",
        "depths": (2, 6),
        "warmups": (0, 4000),
        "seeds": 2,
        "train_steps": 1200,
    }
    return Grid(variants=of_sequences("transformer_base_v1", sequences), **values | changes)


def result_of(cell: Cell, loss: float = 3.0, **changes) -> CellResult:
    """A run that ends with this loss a token, a little more on the longer sentences."""
    values = {
        "cell": cell,
        "stopped_at": None,
        "train": [(step, 6.0 - 0.1 * step) for step in range(1, 21)],
        "dev": [(10, loss + 2.0), (20, loss)],
        "initial_loss": 6.5,
        "unigram_loss": 5.0,
        "sentences": {
            "loss": [loss * count + 0.01 * (count - 5.4) for count in TOKENS],
            "tokens": TOKENS,
            "right": [count // 2 for count in TOKENS],
        },
        "hypotheses": None,
        "references": None,
        "tokens_per_second": 900.0,
        "parameters": 1234,
        "fingerprint": f"seed {cell.seed}",
        "gradients": {},
        "activations": {},
    }
    return CellResult(**values | changes)


def grid(plan: Grid, losses: dict[str, float], **changes) -> dict[Cell, CellResult]:
    return {
        cell: result_of(cell, losses[cell.variant] + 0.02 * cell.seed, **changes)
        for cell in plan.cells()
    }


def summary_of(plan, results):
    return Results(plan, results).summary()


def differences_of(plan, results):
    return Results(plan, results).differences


def test_a_run_that_learns_has_its_loss_and_accuracy_by_token():
    result = result_of(Cell(2, 0, PRE, 0), 3.0)
    assert result.status == "learned" and result.diverged_at is None
    assert result.dev_loss == pytest.approx(3.0)
    assert result.accuracy == pytest.approx((2 + 4 + 1 + 3 + 2) / sum(TOKENS))
    assert result.last_train_loss == pytest.approx((4.1 + 4.0) / 2)
    assert result.ending() == "dev loss 3.000, learned"


def test_a_run_diverges_when_it_is_not_finite_or_ends_above_its_beginning():
    cell = Cell(2, 0, PRE, 0)
    stopped = result_of(cell, stopped_at=17, sentences=None)
    assert (stopped.status, stopped.diverged_at) == ("not finite", 17)
    assert stopped.ending() == "not finite at step 17" and stopped.dev_loss is None
    curve = [(5 * i, loss) for i, loss in enumerate([6.4, 5.0, 7.0, 6.4, 6.6, 9.0, 8.0], 1)]
    above = result_of(cell, train=curve)
    assert (above.status, above.diverged_at) == ("diverged", 25)  # 20 was the last one below
    never = result_of(cell, train=[(1, 7.0), (2, 7.5)])
    assert never.diverged_at == 1
    spike = result_of(cell, train=[(1, 6.0), (2, 99.0), (3, 5.0)])
    assert spike.status == "learned"
    late = [(step, 2.7) for step in range(1, 21)]
    late[18] = (19, 30.0)
    spike = result_of(cell, train=late)
    assert spike.ending() == "diverged at step 19"
    assert result_of(cell, 5.0).status == "at word frequencies"
    assert result_of(cell, 4.99).status == "learned"


def test_steps_to_a_loss_lie_on_lines_between_the_points():
    result = result_of(Cell(2, 0, PRE, 0), dev=[(10, 5.0), (20, 3.0), (30, 3.5)])
    assert [result.steps_to(loss) for loss in (6.0, 5.0, 4.5, 3.0, 2.9)] == [10, 10, 12, 20, None]
    ends = {cell: result_of(cell, 3.0 + 0.2 * cell.seed) for cell in plan_of().cells()}
    assert Results(plan_of(), ends).target_loss(2, 0) == 3.2
    bad = Cell(2, 0, PRE, 1)
    ends[bad] = result_of(bad, 99.0, stopped_at=3)
    assert Results(plan_of(), ends).target_loss(2, 0) == 3.2
    assert Results(plan_of(), {}).target_loss(2, 0) is None


def test_the_interval_is_that_of_sentences_drawn_again():
    rng = np.random.default_rng(2)
    tokens = rng.integers(3, 30, 400).tolist()
    losses = rng.normal(3.0, 1.0, (2, 400)) * tokens
    first, second = (
        [
            result_of(
                Cell(2, 0, name, 0),
                sentences={"loss": each.tolist(), "tokens": tokens, "right": tokens},
            )
        ]
        for name, each in zip((POST, PRE), losses, strict=True)
    )
    low, high = comparison_results.bootstrap(first, second)
    difference = losses[0] - losses[1]
    mean = difference.sum() / sum(tokens)
    residual = difference - mean * np.array(tokens)
    error = np.sqrt((residual**2).sum()) / sum(tokens)  # of a ratio of sums
    assert (low + high) / 2 == pytest.approx(mean, abs=0.3 * error)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert comparison_results.bootstrap(first, second) == (low, high)


def test_better_needs_every_seed_and_the_interval():
    plan = plan_of()
    found = differences_of(plan, grid(plan, {POST: 3.3, PRE: 3.0}))
    assert len(found) == 4 and {d.better for d in found} == {PRE}
    assert found[0].loss == pytest.approx(0.3) and found[0].low > 0.29
    results = grid(plan, {POST: 3.3, PRE: 3.0})
    odd = Cell(2, 0, POST, 1)
    results[odd] = result_of(odd, 2.9)  # the other way round, with one seed
    first, *rest = differences_of(plan, results)
    assert first.better is None and {d.better for d in rest} == {PRE}
    mixed = grid(plan, {POST: 3.0, PRE: 3.0})
    for cell, result in mixed.items():
        if cell.variant == PRE:
            losses = [
                x + d for x, d in zip(result.sentences["loss"], (3, -1, -2, 2, -1.9), strict=True)
            ]
            sentences = {**result.sentences, "loss": losses}
            mixed[cell] = dataclasses.replace(result, sentences=sentences)
    assert {d.better for d in differences_of(plan, mixed)} == {None}


def test_who_diverged_loses_to_who_did_not():
    plan = plan_of()
    results = grid(plan, {POST: 3.0, PRE: 3.3})
    bad = Cell(6, 0, POST, 1)
    results[bad] = result_of(bad, stopped_at=9, sentences=None)

    def better():
        by_setting = {(d.depth, d.warmup): d for d in differences_of(plan, results)}
        assert by_setting[2, 0].better == POST and by_setting[6, 0].loss is None
        return by_setting[6, 0].better

    assert better() is None  # with seed 0 its loss is the lower one
    results[Cell(6, 0, PRE, 0)] = result_of(Cell(6, 0, PRE, 0), 2.9)
    assert better() == PRE
    results[Cell(6, 0, POST, 0)] = result_of(Cell(6, 0, POST, 0), stopped_at=9, sentences=None)
    assert better() == PRE
    results[Cell(6, 0, PRE, 1)] = result_of(Cell(6, 0, PRE, 1), stopped_at=9, sentences=None)
    assert better() is None  # with seed 1 neither ends


def test_the_summary_says_what_the_numbers_support():
    plan = plan_of()
    results = grid(plan, {POST: 3.3, PRE: 3.0})
    for seed in (0, 1):
        for cell in (Cell(6, 0, POST, seed), Cell(6, 4000, POST, seed)):
            results[cell] = result_of(cell, stopped_at=9, sentences=None)
    odd = Cell(2, 0, POST, 0)
    results[odd] = result_of(odd, 2.9)
    results[Cell(2, 0, PRE, 0)] = result_of(Cell(2, 0, PRE, 0), 5.1)
    assert summary_of(plan, results) == [
        "After 1,200 steps with 2 seeds, the lower dev loss of the 4 settings of depth and warm-up "
        "is that of pre-norm (n/da) in 3 (depth 6 with warm-up 0, depth 2 and 6 with warm-up "
        "4,000), of post-norm (none/dan) in 0, and 1 cannot be decided.",
        "Diverged: 4 of 8 cells of post-norm (none/dan) (depth 6 with warm-up 0, depth 6 with "
        "warm-up 4,000), 0 of 8 cells of pre-norm (n/da); no better than word frequencies at the "
        "end: 0 of 8 cells of post-norm (none/dan), 1 of 8 cells of pre-norm (n/da) (depth 2 with "
        "warm-up 0).",
    ]


def test_the_summary_counts_the_seeds_that_were_compared():
    plan = plan_of(seeds=3)
    cells = grid(plan, {POST: 3.3, PRE: 3.0})
    without = {c: r for c, r in cells.items() if c.seed == 0 or c.variant == POST}
    assert ", after 1,200 steps with 1 seed, the lower" in summary_of(plan, without)[0]
    some = {c: r for c, r in cells.items() if c.seed < 2 or c.depth == 2}
    assert ", after 1,200 steps with 2 or 3 seeds, the lower" in summary_of(plan, some)[0]


def test_the_summary_says_when_the_numbers_support_nothing():
    plan = plan_of(seeds=1)
    assert summary_of(plan, grid(plan, {POST: 3.0, PRE: 3.0})) == [
        "After 1,200 steps the numbers support no difference between post-norm (none/dan) and "
        "pre-norm (n/da): in none of 4 settings of depth and warm-up does one end with a dev loss "
        "that is lower than the other's with each of 1 seed and outside the bootstrap's 95 % "
        "interval.",
        "No cell diverged and each ended better than word frequencies, so the numbers say nothing "
        "about which of them is the more stable.",
    ]
    part = {c: result_of(c) for c in plan.cells()[:2]}
    assert summary_of(plan, part)[0].startswith("Of the 2 cells that have ended, after 1,200 steps")
    both = {c: result_of(c, stopped_at=2, sentences=None) for c in plan.cells()}
    assert "which is alike and shows nothing" in summary_of(plan, both)[1]


def test_of_three_the_best_is_better_than_each_of_the_others():
    plan = plan_of(f"{POST},{PRE},n/dan", depths=(2,), warmups=(0,))
    results = grid(plan, {POST: 3.3, PRE: 3.0, "n/dan": 3.1})
    assert len(differences_of(plan, results)) == 3
    assert (
        "pre-norm (n/da) in 1 (depth 2 with warm-up 0), of post-norm (none/dan) in 0, of n/dan in "
        "0." in (summary_of(plan, results)[0])
    )
    tied = grid(plan, {POST: 3.3, PRE: 3.0, "n/dan": 3.0})
    assert (
        "name no best of post-norm (none/dan) and pre-norm (n/da) and n/dan: in no setting of "
        "depth and warm-up does one end with a dev loss that is lower than each of the others' with"
    ) in summary_of(plan, tied)[0]


def test_bleu_is_sacrebleus_paired_bootstrap():
    references = [f"the cat number {i} sat on the mat" for i in range(20)]
    worse = [line.replace("sat", "lay") for line in references]
    results = [
        result_of(Cell(2, 0, name, 0), hypotheses=hypotheses, references=references)
        for name, hypotheses in ((POST, worse), (PRE, references))
    ]
    found = comparison_results.bleu(results, POST)
    first, second = (found[r.cell] for r in results)
    assert first.p_value is None and second.p_value < 0.05
    assert second.score == pytest.approx(100) and 20 < first.score < 70
    assert "bs:1000" in first.signature and "tok:13a" in first.signature
    assert comparison_results.bleu([result_of(Cell(2, 0, PRE, 0))], PRE) == {}
    ours = {r.cell: r for r in results}
    assert Results(plan_of(), ours).bleus()[results[1].cell] == second
    without_first = comparison_results.bleu(results[1:], POST)
    assert [each.p_value for each in without_first.values()] == [None]


def write(output_dir, cell, plan=None, **changes):
    run = comparison.run_of(output_dir, plan or plan_of(), cell)
    run.path.mkdir(parents=True, exist_ok=True)
    values = dataclasses.asdict(result_of(cell, **changes))
    for name in ("train", "dev", "tokens_per_second"):
        del values[name]
    (run.path / comparison.RESULT_FILE).write_text(json.dumps(values))
    run.append_metrics({"kind": "train", "step": 1, "loss": 6.0, "tokens_per_second": 0.0})
    run.append_metrics({"kind": "train", "step": 2, "loss": 5.0, "tokens_per_second": 300.0})
    run.append_metrics({"kind": "eval", "step": 2, "loss": 4.5})


def test_finished_cells_are_read_and_others_left_out(tmp_path):
    plan = plan_of()
    cell = Cell(2, 0, PRE, 1)
    places = {"embedding": 2.0}
    write(tmp_path, cell, gradients={0: places, 8: places}, activations={0: places})
    results = comparison_results.load(plan, tmp_path)
    assert list(results.by_cell) == [cell]
    found = results.by_cell[cell]
    assert found.train == [(1, 6.0), (2, 5.0)] and found.dev == [(2, 4.5)]
    assert found.tokens_per_second == 300.0
    assert found.gradients == {0: places, 8: places}


def test_a_cell_has_the_name_that_its_variant_has_now(tmp_path):
    """A variant is called by its set alone until another of that set is compared too."""
    sets = "transformer_tiny,transformer_base[label_smoothing=0.2]"
    before, now = (
        dataclasses.replace(plan_of(), variants=of_sets(text), depths=(None,), warmups=(None,))
        for text in (sets, f"{sets},transformer_base")
    )
    for cell in before.cells():
        write(tmp_path, cell, before)
    found = comparison_results.load(now, tmp_path).by_cell
    assert [cell.variant for cell in found] == 2 * list(now.names[:2])
    assert all(result.cell == cell for cell, result in found.items())


def test_other_batches_of_one_seed_and_broken_results_are_refused(tmp_path):
    plan = plan_of()
    write(tmp_path, Cell(2, 0, PRE, 1))
    write(tmp_path, Cell(2, 0, POST, 1), fingerprint="another")
    with pytest.raises(UserError, match="1"):
        comparison_results.load(plan, tmp_path)
    path = comparison.run_of(tmp_path, plan, Cell(2, 0, PRE, 0)).path
    path.mkdir()
    (path / comparison.RESULT_FILE).write_text('{"cell": {}}')
    with pytest.raises(UserError):
        comparison_results.load(plan, tmp_path)

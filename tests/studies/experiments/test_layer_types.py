"""Layers measured, each kind once, and sentences that follow the numbers."""

import math

import pytest

from t2t_repro import processes
from t2t_repro.paper import published
from t2t_repro.studies.experiments import layer_types as experiment
from t2t_repro.studies.experiments.layer_types import Attention
from t2t_repro.studies.paper import layer_costs as costs

MEMORY = dict.fromkeys(experiment.KINDS, (1.0, 2.0, 4.0, 8.0))
MEMORY[experiment.WHOLE] = (1.0, 4.0, 16.0, 64.0)
PRINTED = {row.name: row.exponents for row in published.TABLE1}


def measured(slow_attention=False, **exponents):
    """Costs by table 1's formulas, or by other exponents: {name: (of n, of d)}."""
    made = []
    for name in experiment.KINDS:
        a, b = {**PRINTED, **exponents}.get(name, (1, 1))
        points = {(n, experiment.WIDTH) for n in experiment.LENGTHS}
        points |= {(experiment.SIZES.length, d) for d in experiment.SIZES.widths}
        times = {(n, d): 1e-6 * n**a * d**b for n, d in sorted(points)}
        if name == experiment.WHOLE:
            times = {(n, d): 1e9 if n > d or slow_attention else 1e-9 for n, d in times}
        made.append(costs.LayerCost(name, times, (a, b), (a, b), 1.0))
    return made


def test_every_kind_is_measured_once_at_each_point(monkeypatch):
    monkeypatch.setattr(costs, "milliseconds", lambda layer, n, d, repetitions: 1e-6 * n * d**2)
    monkeypatch.setattr(experiment.processes, "call", lambda *_: list(MEMORY["Recurrent"]))
    result = experiment.table1()
    assert len(result.rows) == len({row[:3] for row in result.rows}) == 9 * 7
    assert result.rows[0][:4] == ("Self-Attention", 256, 128, pytest.approx(2**22 * 1e-6))
    assert math.isnan(result.rows[0].megabytes)
    assert [r.megabytes for r in result.rows[:7] if r.width == 256] == [1.0, 2.0, 4.0, 8.0]
    assert len({row.layer for row in result.rows}) == 9
    assert result.sentences[0].startswith("Not all times grow by table 1, within 0.3 for 2 of 4")


def test_times_by_the_formulas_are_support():
    first, second = experiment.sentences(measured(), MEMORY)
    assert first.startswith("The times grow as table 1 says, within 0.3 for 4 of 4 kinds: ")
    assert "Self-Attention n^2.0 d^1.0 for n^2 d^1, Recurrent n^1.0 d^2.0" in first
    assert second.startswith("As section 4 says, ")
    assert "at 2 of 2 measured points with n < d, and at 1 of 5 with n >= d; of memory" in second
    assert "took 64 MB, n^2.0, in Self-Attention with projections, 8 MB, n^1.0, in Res" in second


def test_one_exponent_that_is_off_or_slow_attention_is_no_support():
    first, second = experiment.sentences(measured(True, Recurrent=(1, 1.6)), MEMORY)
    assert first.startswith("Not all times grow by table 1, within 0.3 for 3 of 4 kinds: ")
    assert second.startswith("Not as section 4 says, ") and "at 0 of 2 measured" in second


def test_the_models_restricted_attention_is_measured():
    make, _ = experiment.KINDS[experiment.RESTRICTED]
    assert costs.milliseconds(make(16), n=70, d=16, repetitions=1) > 0


def test_memory_is_by_how_much_the_peak_rises(monkeypatch):
    monkeypatch.setattr(experiment, "LENGTHS", (5, 9))
    heights = iter([3_000_000, 4_000_000, 7_000_000])
    monkeypatch.setattr(experiment.memory, "peak", lambda: next(heights))
    assert experiment.megabytes("Convolutional") == [1.0, 4.0]


def by_formula(kind, length, saves=True, difference=3e-6):
    megabytes = 2e-6 * length**2 if kind == "plain" or not saves else 1e-4 * length
    return Attention(kind, length, megabytes, 5.0 if kind == "plain" else 15.0, difference)


def rows(**how):
    return [by_formula(kind, n, **how) for n in experiment.LONG for kind in experiment.ATTENTIONS]


@pytest.mark.parametrize("kind", experiment.ATTENTIONS)
def test_a_kind_is_measured_and_equals_plain_attention(kind, monkeypatch):
    monkeypatch.setattr(experiment, "SMALL", 24)
    heights = iter([5_000_000, 7_500_000])
    monkeypatch.setattr(experiment.memory, "peak", lambda: next(heights))
    row = experiment.attention(kind, 90)
    assert row[:3] == (kind, 90, 2.5)
    assert row.milliseconds > 0 and row.difference <= 1e-5


def test_every_length_has_a_process_of_its_own(monkeypatch):
    ran = []

    def process(function, kind, length):
        assert function is experiment.attention
        ran.append((kind, length))
        return processes.Ended(0, "a warning\n", by_formula(kind, length))

    monkeypatch.setattr(processes, "run", process)
    result = experiment.long_inputs()
    assert len(ran) == len(set(ran)) == len(result.rows) == 8
    assert result.rows == rows()


def test_a_square_that_the_blocks_avoid_is_support():
    first, second = experiment.long_sentences(rows())
    assert first == (
        "As Rabe and Staats say: plain attention's memory grows with the length to the power of "
        "2.00, to 134 MB at 8192, and that of attention in blocks from 0 MB at 1024 to 1 MB, "
        "outputs included."
    )
    assert second == (
        "Their outputs are equal (the largest difference is 3.0e-06), and at length 8192 the "
        "blocks take 3.0 times as long."
    )


def test_blocks_that_save_nothing_or_differ_are_no_support():
    first, second = experiment.long_sentences(rows(saves=False, difference=2e-4))
    assert first.startswith("No support: ") and second.startswith("Their outputs are NOT equal")


@pytest.mark.slow
def test_the_blocks_need_less_in_real_processes():
    plain, blocks = (
        processes.call(experiment.attention, kind, 8192) for kind in experiment.ATTENTIONS
    )
    assert plain.megabytes > 4 * blocks.megabytes > 0

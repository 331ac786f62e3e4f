"""The two attentions are measured each alone, and the sentences follow the numbers."""

import keras
import pytest

from t2t_repro import processes
from t2t_repro.studies.experiments import memory as experiment
from t2t_repro.studies.experiments.memory import Row


def by_formula(kind, length, saves=True, difference=3e-6):
    megabytes = 2e-6 * length**2 if kind == "plain" or not saves else 1e-4 * length
    return Row(kind, length, megabytes, 5.0 if kind == "plain" else 15.0, difference)


def rows(**how):
    return [by_formula(kind, n, **how) for n in experiment.LENGTHS for kind in experiment.KINDS]


@pytest.mark.parametrize("kind", experiment.KINDS)
def test_a_kind_is_measured_and_equals_plain_attention(kind, monkeypatch):
    monkeypatch.setattr(experiment, "SMALL", 24)
    heights = iter([5_000_000, 7_500_000])
    monkeypatch.setattr(experiment.memory, "peak", lambda: next(heights))
    row = experiment.measure(kind, 90)
    assert row[:3] == (kind, 90, 2.5)
    assert row.milliseconds > 0 and row.difference <= 1e-5


def test_the_plain_kind_is_the_models_attention():
    x = experiment.random(7)
    weights = keras.ops.softmax(x[0, 0] @ x[0, 0].T / 8)
    assert experiment.plain(x).shape == (1, 1, 7, 64)
    assert abs(experiment.plain(x)[0, 0] - weights @ x[0, 0]).numpy().max() < 1e-5


def test_every_length_has_a_process_of_its_own(monkeypatch):
    ran = []

    def process(function, kind, length):
        assert function is experiment.measure
        ran.append((kind, length))
        return processes.Ended(0, "a warning\n", by_formula(kind, length))

    monkeypatch.setattr(processes, "run", process)
    result = experiment.run()
    assert len(ran) == len(set(ran)) == len(result.rows) == 8
    assert result.rows == rows()


def test_a_square_that_the_blocks_avoid_is_support():
    first, second = experiment.sentences(rows())
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
    first, second = experiment.sentences(rows(saves=False, difference=2e-4))
    assert first.startswith("No support: ") and second.startswith("Their outputs are NOT equal")


@pytest.mark.slow
def test_the_blocks_need_less_in_real_processes():
    plain, blocks = (experiment.in_a_process(kind, 8192) for kind in experiment.KINDS)
    assert plain.megabytes > 4 * blocks.megabytes > 0

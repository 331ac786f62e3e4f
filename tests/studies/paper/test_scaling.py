import pytest

from t2t_repro import registry
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.flops import train_step_flop
from t2t_repro.studies.paper import hardware, scaling

P100 = hardware.DEVICES["P100"]


def test_a_ring_sends_almost_twice_the_gradients():
    parameters = 63_062_016
    assert scaling.all_reduce_seconds(P100, 1, parameters) == 0
    in_host = 2 * 7 / 8 * parameters * 4 / 80e9 + 14 * 20e-6
    assert scaling.all_reduce_seconds(P100, 8, parameters) == pytest.approx(in_host)
    across = 2 * 63 / 64 * parameters * 4 / 50e9 + 126 * 20e-6
    assert scaling.all_reduce_seconds(P100, 64, parameters) == pytest.approx(across)


def test_a_step_is_products_and_exchange():
    step = scaling.step_on(hardware.Hardware(8, P100), "paper_table3_base", 3125, 0.5)
    batch = BatchShape.of_tokens(3125, scaling.LENGTH)
    flop = train_step_flop(registry.get_hparams("paper_table3_base"), batch, 37_000)
    assert step.compute == pytest.approx(flop / (9.5e12 * 0.5))
    assert step.total == pytest.approx(
        step.compute + scaling.all_reduce_seconds(P100, 8, 63_062_016)
    )


def test_the_tables_follow_from_the_step():
    strong, weak = scaling.tables(hardware.Hardware(8, P100), 0.5)
    for table in (strong, weak):
        assert [(row[0], row[1]) for row in table.rows] == [
            (model, count) for model in ("base", "big") for count in (1, 8, 64)
        ]
    tokens = [row[2] for row in strong.rows[:3]]
    assert tokens == [25_000, 3_125, 25_000 / 64]
    assert {row[2] for row in weak.rows} == {3_125}
    _, count, _, compute, reduce, step, speed, share, hours = strong.rows[5]
    assert step == pytest.approx(compute + reduce)
    assert speed == pytest.approx(25_000 / (step / 1e3))
    assert hours == pytest.approx(300_000 * step / 1e3 / 3600)
    assert share == pytest.approx(strong.rows[3][5] / (count * step))
    # eight devices with an eighth of the paper's batch are the same in both
    assert strong.rows[1][3:] == pytest.approx(weak.rows[1][3:])


def test_as_many_devices_as_are_named_have_a_row():
    strong, _ = scaling.tables(hardware.Hardware(16, P100), 0.5)
    assert [row[1] for row in strong.rows] == [1, 8, 16, 64] * 2


def test_the_efficiency_says_where_it_was_measured():
    said = "efficiency 0.26 (base) and 0.34 (big) (--efficiency: this project's, in bfloat16"
    assert scaling.efficiency_note(hardware.DEVICES["H200"]).startswith(said)
    device = hardware.DEVICES["A100"]
    said = "efficiency 0.33 (--efficiency: NVIDIA's for big, in mixed precision, on one A100)"
    assert scaling.efficiency_note(device) == said
    assert scaling.efficiency_note(device, 0.123) == "efficiency 0.12 (--efficiency)"

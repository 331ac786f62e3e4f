import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.studies.paper import hardware, published, scaling, tables, training_plan
from t2t_repro.training import machine, step_time


def test_count_and_name():
    found = hardware.parse("8xP100")
    assert (found.count, found.device.name, found.device.rate) == (8, "P100", 9.5)
    assert str(hardware.parse("h200")) == "1xH200"


def test_hours_of_the_papers_base_model():
    # 12 hours of 8 P100 at their sustained rate are the paper's 3.3e18
    eight = hardware.parse("8xP100")
    assert eight.hours(3.2832e18, 1.0) == pytest.approx(12)
    assert eight.hours(3.2832e18, 0.5) == pytest.approx(24)


def test_the_rate_is_the_peak_where_no_sustained_one_is_known():
    assert hardware.DEVICES["H200"].sustained is None
    assert hardware.DEVICES["H200"].rate == 989
    assert all(d.sustained <= d.peak for d in hardware.DEVICES.values() if d.sustained)


@pytest.mark.parametrize("name, tokens", [("V100", 32_942), ("A100", 82_059)])
def test_efficiencies_are_of_the_tokens_a_second_that_nvidia_gives(name, tokens):
    # DeepLearningExamples, PyTorch/Translation/Transformer: big, 33,708 word pieces, one GPU
    flop = tables.paper_step_flop(registry.get_hparams("paper_table3_big"), 33_708)
    device = hardware.DEVICES[name]
    share = flop / published.BATCH_TOKENS * tokens / (device.rate * 1e12)
    assert device.efficiency == pytest.approx(share, abs=0.005)


def test_this_machine_is_measured(monkeypatch):
    monkeypatch.setattr(machine, "measure_rate", lambda: 5.4e11)
    found = hardware.parse("2xthis")
    device = found.device
    assert (found.count, device.name, device.rate) == (2, "this", pytest.approx(0.54))
    shares = [device.efficiency_of(width) for width in (64, 512, 1024)]
    assert shares == [step_time.share_of(width) for width in (64, 512, 1024)] == [0.25, 0.72, 0.8]
    said = "efficiency 0.72 (base) and 0.80 (big) (--efficiency: by width, in float32 on two CPU"
    assert scaling.efficiency_note(device).startswith(said)
    table = training_plan.plan(found)
    efficiency, hours, flop = (
        [column.heading for column in table.columns].index(name)
        for name in ("efficiency", "hours", "FLOP")
    )
    rows = {row[1]: row for row in table.rows}
    for name, share in (("base", 0.72), ("big", 0.8), ("c_dmodel256", 0.6)):
        row = rows[f"paper_table3_{name}"]
        assert row[efficiency] == share
        assert row[hours] == pytest.approx(row[flop] / (2 * 5.4e11 * share) / 3600)
    compute = [row[3] for row in scaling.tables(found)[0].rows[::4]]
    given = [row[3] for row in scaling.tables(found, 0.4)[0].rows[::4]]
    assert [b / a for a, b in zip(compute, given, strict=True)] == pytest.approx([0.72 / 0.4, 2])


@pytest.mark.parametrize("text", ["", "8 P100", "0xP100", "8x", "-1xP100", "8xP100,1xH200"])
def test_another_form_is_refused(text):
    with pytest.raises(UserError):
        hardware.parse(text)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="H20"):
        hardware.parse("8xH20")


def test_links_of_another_bandwidth():
    eight = hardware.parse("8xP100")
    assert hardware.with_bandwidth(eight, None) == eight
    slow = hardware.with_bandwidth(eight, 1.5).device
    assert (slow.within, slow.between, slow.rate) == (1.5, 1.5, 9.5)

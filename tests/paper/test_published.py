import pytest

from t2t_repro import registry
from t2t_repro.paper import published, tables


@pytest.mark.parametrize("row", published.TABLE3, ids=lambda row: row.hparams_set)
def test_each_set_is_its_row_of_table_3(row):
    hparams = registry.get_hparams(row.hparams_set)
    assert {**published.BASE, **row.changes} == tables.settings(hparams)
    assert (hparams.encoder_layers, hparams.decoder_layers) == (hparams.num_hidden_layers,) * 2
    learned = row.hparams_set == "paper_table3_e_learned_positions"
    assert hparams.pos == ("emb" if learned else "timing")


@pytest.mark.parametrize("model, flop", [("base", "3.3e+18"), ("big", "2.3e+19")])
def test_the_training_cost_is_time_by_devices_by_rate(model, flop):
    hours = published.HOURS[model]
    found = tables.flop_by_time(hours, published.GPUS, published.SUSTAINED_TFLOPS)
    assert f"{found:.1e}" == flop


def test_every_conclusion_is_the_papers():
    for each in published.CONCLUSIONS:
        assert abs(each.gain) < 0.11 if each.equal else each.gain > 0

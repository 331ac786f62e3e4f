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


def test_every_set_of_table_3_is_in_the_table_once():
    sets = [row.hparams_set for row in published.TABLE3]
    assert sorted(sets) == [n for n in registry.list_hparams() if n.startswith("paper_table3_")]


@pytest.mark.parametrize("training", published.TRAINING, ids=lambda training: training.model)
def test_the_training_cost_is_time_by_devices_by_rate(training):
    flop = tables.flop_by_time(training.hours, published.GPUS, published.SUSTAINED_TFLOPS)
    assert f"{flop:.1e}" == f"{training.flop:.1e}"


def test_the_transformer_beats_every_system_of_table_2_at_less_cost():
    *others, base, big = published.TABLE2
    assert all(big.bleu_ende > row.bleu_ende for row in others if row.bleu_ende)
    assert all(big.bleu_enfr > row.bleu_enfr for row in others if row.bleu_enfr)
    assert all(base.flop_ende < row.flop_ende for row in others if row.flop_ende)
    assert (base.bleu_ende, big.bleu_ende, big.bleu_enfr) == (27.3, 28.4, 41.8)


def test_every_conclusion_is_the_papers():
    for each in published.CONCLUSIONS:
        assert abs(each.gain) < 0.11 if each.equal else each.gain > 0

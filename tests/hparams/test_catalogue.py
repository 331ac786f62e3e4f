"""Every set under a T2T name holds T2T's values; the paper's sets hold the paper's."""

import dataclasses
import json
import pathlib

import pytest

from t2t_repro import registry
from t2t_repro.config import HParams

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
T2T = json.loads((GOLDEN / "hparams.json").read_text())
BASELINES = json.loads((GOLDEN / "baselines_hparams.json").read_text())
OF_T2T = sorted(set(registry.list_hparams()) & set(T2T))
FIELDS = {field.name for field in dataclasses.fields(HParams)}
OURS = {
    "transformer_base_paper",
    "transformer_multi30k",
    *(f"transformer_own_text_{size}" for size in ("small", "medium", "large")),
    *(f"transformer_own_text_{how}" for how in ("regularized", "bidirectional", "cooldown")),
    *(f"transformer_own_text_{how}" for how in ("annealed", "student")),
    *(f"transformer_parsing_{which}" for which in ("small", "regularized")),
    "transformer_quickstart",
    "paper_parsing_wsj",
    "paper_parsing_semi_supervised",
    *(f"paper_table2_{name}_enfr" for name in ("base", "big")),
    *(f"paper_table2_big_enfr_{name}" for name in ("separate", "attention_dropout")),
}
# Read by T2T's MultiProblem alone, which has no place here.
MULTIPROBLEM = {"multiproblem_mixing_schedule", "multiproblem_vocab_size"}


def test_the_sets_of_t2ts_are_there():
    assert len(OF_T2T) == 58 and BASELINES.keys() <= set(registry.list_hparams())


def test_every_other_set_is_known_to_be_ours():
    others = set(registry.list_hparams()) - set(T2T) - set(BASELINES) - OURS
    assert all(name.startswith("paper_table3_") for name in others), others


@pytest.mark.parametrize("name", [*OF_T2T, *BASELINES])
def test_equals_t2t(name):
    ours = dataclasses.asdict(registry.get_hparams(name))
    theirs = (T2T | BASELINES)[name]
    expected = {field: value for field, value in theirs.items() if field in FIELDS}
    assert {field: ours[field] for field in expected} == expected


@pytest.mark.parametrize("name", OF_T2T)
def test_leaves_out_nothing_that_sets_the_model_apart(name):
    usual = T2T["transformer_base_v1"]
    lost = {
        field: value
        for field, value in T2T[name].items()
        if field not in FIELDS and value != usual.get(field)
    }
    assert set(lost) <= (MULTIPROBLEM if "tall" in name else set())


# The columns of table 3: N, d_model, d_ff, h, d_k, P_drop, eps_ls. d_v follows d_k except in (B).
BASE = (6, 512, 2048, 8, 64, 0.1, 0.1)
TABLE_3 = {
    "base": BASE,
    "a_h1": (6, 512, 2048, 1, 512, 0.1, 0.1),
    "a_h4": (6, 512, 2048, 4, 128, 0.1, 0.1),
    "a_h16": (6, 512, 2048, 16, 32, 0.1, 0.1),
    "a_h32": (6, 512, 2048, 32, 16, 0.1, 0.1),
    "b_dk16": (6, 512, 2048, 8, 16, 0.1, 0.1),
    "b_dk32": (6, 512, 2048, 8, 32, 0.1, 0.1),
    "c_n2": (2, 512, 2048, 8, 64, 0.1, 0.1),
    "c_n4": (4, 512, 2048, 8, 64, 0.1, 0.1),
    "c_n8": (8, 512, 2048, 8, 64, 0.1, 0.1),
    "c_dmodel256": (6, 256, 2048, 8, 32, 0.1, 0.1),
    "c_dmodel1024": (6, 1024, 2048, 8, 128, 0.1, 0.1),
    "c_dff1024": (6, 512, 1024, 8, 64, 0.1, 0.1),
    "c_dff4096": (6, 512, 4096, 8, 64, 0.1, 0.1),
    "d_dropout0": (6, 512, 2048, 8, 64, 0.0, 0.1),
    "d_dropout2": (6, 512, 2048, 8, 64, 0.2, 0.1),
    "d_smoothing0": (6, 512, 2048, 8, 64, 0.1, 0.0),
    "d_smoothing2": (6, 512, 2048, 8, 64, 0.1, 0.2),
    "e_learned_positions": BASE,
    "big": (6, 1024, 4096, 16, 64, 0.3, 0.1),
}


def test_every_row_of_table_3_is_tested():
    names = {name for name in registry.list_hparams() if name.startswith("paper_table3_")}
    assert names == {f"paper_table3_{row}" for row in TABLE_3}


@pytest.mark.parametrize("row", TABLE_3)
def test_rows_of_table_3(row):
    hp = registry.get_hparams(f"paper_table3_{row}")
    key_size = (hp.attention_key_channels or hp.hidden_size) // hp.num_heads
    found = (hp.encoder_layers, hp.hidden_size, hp.filter_size, hp.num_heads, key_size)
    assert (*found, hp.layer_prepostprocess_dropout, hp.label_smoothing) == TABLE_3[row]
    assert hp.decoder_layers == hp.encoder_layers
    assert hp.attention_value_channels == 0  # d_v stays d_model / h
    assert hp.pos == ("emb" if row == "e_learned_positions" else "timing")
    assert hp.train_steps == (300_000 if row == "big" else 100_000)
    assert hp.effective_batch_size == 25_000
    assert hp.learning_rate_warmup_steps == 4000
    assert hp.layer_postprocess_sequence == "dan"  # LayerNorm(x + Sublayer(x))


def test_parsing_as_in_the_paper():
    for name in ("paper_parsing_wsj", "paper_parsing_semi_supervised"):
        hp = registry.get_hparams(name)
        assert (hp.encoder_layers, hp.hidden_size, hp.filter_size) == (4, 1024, 2048)
        assert hp.learning_rate_schedule == "legacy"  # so that learning_rate is read

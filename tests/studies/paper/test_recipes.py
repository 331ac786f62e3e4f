"""The paper's rows as recipes."""

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.studies.paper import published, recipes

SCALE = recipes.Scale(width=4, train_steps=700, warmup_steps=90, batch=1300)


@pytest.mark.parametrize("name", recipes.TABLE2)
def test_rows_of_table_2(name):
    recipe = recipes.table2(name)
    big = "big" in name
    assert (recipe.averaged, recipe.updates) == ((20, 595) if big else (5, 1389))
    assert recipe.hparams == "" and recipe.splits == ("dev", "test")
    hparams = registry.get_hparams(recipe.hparams_set)
    assert (hparams.train_steps, hparams.effective_batch_size) == (
        300_000 if big else 100_000,
        25_000,
    )
    assert registry.get_problem(recipe.problem).name == recipe.problem
    assert recipe.problem.startswith(f"translate_{name[:4]}_wmt14")
    assert hparams.shared_embedding_and_softmax_weights == ("separate" not in name)
    assert hparams.attention_dropout == (0.1 if "attention_dropout" in name else 0.0)
    assert hparams.layer_prepostprocess_dropout == (0.3 if name.startswith("ende_big") else 0.1)


@pytest.mark.parametrize("row", published.TABLE3, ids=lambda row: row.hparams_set)
def test_rows_of_table_3_differ_as_the_papers_do(row):
    name = recipes.row_name(row.hparams_set)
    recipe = recipes.table3(name, "translate_ende_multi30k", SCALE, 3)
    full = registry.get_hparams(row.hparams_set)
    small = registry.get_hparams(recipe.hparams_set, recipe.hparams)
    assert (small.hidden_size, small.filter_size) == (full.hidden_size // 4, full.filter_size // 4)
    keys, of_full = (h.attention_key_channels or h.hidden_size for h in (small, full))
    assert keys == of_full // 4
    same = ("num_heads", "num_hidden_layers", "label_smoothing", "layer_prepostprocess_dropout")
    for field in (*same, "pos", "layer_postprocess_sequence"):
        assert getattr(small, field) == getattr(full, field)
    assert small.train_steps == (2100 if name == "big" else 700)
    assert (small.learning_rate_warmup_steps, small.effective_batch_size) == (90, 1300)
    assert recipe.updates * 5 == small.train_steps and recipe.splits == ("dev",)
    assert (recipe.name, recipe.seed, recipe.averaged) == (f"{name}-3", 3, 1)


def test_unknown_rows():
    with pytest.raises(UserError, match="ende_bas"):
        recipes.table2("ende_bas")
    with pytest.raises(UserError, match="a_h3"):
        recipes.table3("a_h3", "translate_ende_multi30k", SCALE, 0)

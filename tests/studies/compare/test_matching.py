"""Widths by which others have as many parameters as the first set."""

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.models import parameters
from t2t_repro.studies.compare import matching, variants
from t2t_repro.studies.compare.grid import Cell, Grid

SETS = "transformer_multi30k,lstm_attention,bytenet_base"


def plan_of(text=SETS, **changes) -> Grid:
    values = {"problem": "algorithmic_reverse_decimal40", "data_dir": "/data", "seeds": 2}
    return Grid(variants=variants.of_sets(text), train_steps=70, **values | changes)


def hparams_of(plan):
    return [plan.hparams_of(Cell(*plan.settings()[0], name, 0)) for name in plan.names]


def test_all_have_as_many_as_the_first():
    before = plan_of()
    plan = matching.with_equal_parameters(before)
    first, lstm, bytenet = hparams_of(plan)
    counts = [parameters.count(hparams, 12).total for hparams in (first, lstm, bytenet)]
    assert counts == [pytest.approx(counts[0], rel=matching.MOST)] * 3
    assert plan.names == before.names and plan.variants[0] == before.variants[0]
    assert lstm.attention_layer_size == lstm.hidden_size > 128  # both were 128
    assert bytenet.hidden_size < 768
    lines = matching.in_words(plan).splitlines()
    assert lines[0] == f"transformer_multi30k: {counts[0]:,} parameters, as it is"
    assert lines[2].endswith(f"parameters, hidden_size={bytenet.hidden_size}")
    assert matching.with_equal_parameters(before) == plan


def test_changes_of_their_own_stay():
    plan = plan_of("transformer_multi30k,transformer_tiny[batch_size=99]", depths=(3,))
    first, second = hparams_of(matching.with_equal_parameters(plan))
    assert second.batch_size == 99 and second.num_hidden_layers == 3
    assert second.filter_size == pytest.approx(4 * second.hidden_size, abs=4 * second.num_heads)
    counts = [parameters.count(hparams, 12).total for hparams in (first, second)]
    assert counts[1] == pytest.approx(counts[0], rel=matching.MOST)


def test_a_model_of_ones_own_is_not_counted_as_a_transformer(monkeypatch):
    monkeypatch.setitem(registry._MODELS, "mine", type("Mine", (), {}))
    with pytest.raises(UserError, match="transformer_tiny"):
        matching.with_equal_parameters(plan_of("transformer_multi30k,transformer_tiny[model=mine]"))


@pytest.mark.parametrize(
    "text, changes, message",
    [
        (SETS, {"depths": (2, 4)}, "one depth with --match=parameters.*Received: 2"),
        (f"{SETS}[hidden_size=9]", {}, "to choose hidden_size. Received: 'hidden_size=9'"),
        (
            "transformer_test[hidden_size=2,num_heads=1,filter_size=1],bytenet_base",
            {},
            "a width with which bytenet_base has .* as the nearest",
        ),
    ],
)
def test_what_cannot_be_equal_is_refused(text, changes, message):
    with pytest.raises(UserError, match=message):
        matching.with_equal_parameters(plan_of(text, **changes))

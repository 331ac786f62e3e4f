"""Whole sets are compared as they are, and what differs between them is listed."""

import dataclasses
import re

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.studies.compare import differing, variants
from t2t_repro.studies.compare.grid import Cell, Grid

V1, V2 = "transformer_base_v1", "transformer_base_v2"


def plan_of(text=f"{V1},{V2}", **changes) -> Grid:
    values = {"problem": "algorithmic_reverse_binary40_test", "data_dir": "/data", "seeds": 2}
    return Grid(variants=variants.of_sets(text), train_steps=70, **values | changes)


def test_sets_are_as_tensor2tensor_shipped_them():
    plan = plan_of()
    assert plan.settings() == [(None, None)] and not plan.of_sequences
    for cell in plan.cells():
        own = dataclasses.replace(registry.get_hparams(cell.variant), train_steps=70)
        assert plan.hparams_of(cell) == own
    cell = plan.cells()[-1]
    assert plan.folder(cell) == "transformer_base_v2_seed-1"
    assert str(cell) == "transformer_base_v2, seed 1"
    assert variants.against(plan.variants) == "transformer_base_v1 against transformer_base_v2"


def test_axes_and_changes_of_one_alone_are_set():
    plan = plan_of(
        f"{V1}, {V2}[batch_size=77,relu_dropout=0.0]",
        depths=(3,),
        warmups=(500,),
        hparams="hidden_size=24",
    )
    first, second = (plan.hparams_of(Cell(3, 500, name, 0)) for name in plan.names)
    assert (first.num_hidden_layers, first.learning_rate_warmup_steps) == (3, 500)
    assert (first.batch_size, second.batch_size, second.relu_dropout) == (4096, 77, 0.0)
    assert first.learning_rate_schedule == "legacy" and first.hidden_size == 24
    folder = plan.folder(Cell(3, 500, plan.names[1], 0))
    assert folder.startswith(
        "depth-3_warmup-500_transformer_base_v2-batch_size=77-relu_dropout=0.0"
    )
    without = plan_of(warmups=(0,))
    schedule = without.hparams_of(without.cells()[0]).learning_rate_schedule
    assert schedule == "constant*rsqrt_decay*rsqrt_hidden_size"


def test_a_set_alone_is_called_by_its_name_and_keeps_its_changes_in_its_folder():
    text = f"{V1}[batch_size=77],{V2}[batch_size=88],{V2}[batch_size=99]"
    plan = plan_of(text)
    assert plan.names == (V1, f"{V2}[batch_size=88]", f"{V2}[batch_size=99]")
    assert [plan.folder(Cell(None, None, name, 0)) for name in plan.names] == [
        f"{V1}-batch_size=77_seed-0",
        f"{V2}-batch_size=88_seed-0",
        f"{V2}-batch_size=99_seed-0",
    ]


def test_what_differs_is_listed_and_nothing_else():
    rows = {row[0]: row[1:] for row in differing.table(plan_of()).rows}
    assert rows == {
        "layer_preprocess_sequence": ("none", "n"),
        "layer_postprocess_sequence": ("dan", "da"),
        "attention_dropout": ("0.0", "0.1"),
        "relu_dropout": ("0.0", "0.1"),
        "learning_rate": ("0.1", "0.2"),
        "learning_rate_warmup_steps": ("4000", "8000"),
    }
    assert "6 hparams differ" in differing.caveat(plan_of())
    opponent = {row[0]: row[1:] for row in differing.table(plan_of(f"{V1},lstm_attention")).rows}
    assert opponent["filter_size"] == ("2048", "not read")
    assert opponent["attention_mechanism"] == ("not read", "bahdanau")
    assert "kernel_height" not in opponent


def test_the_rates_of_each_set_are_said():
    said = differing.rates(plan_of())
    assert f"{V1}: 3.49e-07 at the second step" in said and "(legacy, noam)" in said
    assert "A warm-up of 0" not in said


def test_the_highest_rate_of_gathered_batches_is_that_of_their_updates():
    plan = plan_of("transformer_base,transformer_base_multistep8")
    _, said = differing.rates(plan).split("transformer_base_multistep8: ")
    highest, last = re.fullmatch(
        r".* step, (\S+) at its highest, (\S+) at the last .*", said, re.DOTALL
    ).groups()
    assert float(highest) >= float(last) > 0


@pytest.mark.parametrize("text", [V1, f"{V1},{V1}", "", f"{V1},[x=1]", f"{V1}[a,{V2}"])
def test_what_names_no_two_sets_is_refused(text):
    with pytest.raises(UserError):
        variants.of_sets(text)


@pytest.mark.parametrize(
    "text, changes, message",
    [
        (f"{V1},transformer_bas", {}, "Did you mean 'transformer_base'"),
        (f"{V1},{V2}[train_steps=3]", {}, "without train_steps.*--train_steps sets it"),
        (f"{V1},{V2}[num_hidden_layers=3]", {"depths": (2,)}, "--depths sets it"),
        (f"{V1},lstm_attention[filter_size=9]", {}, "does not read it, only transformer"),
        (
            f"{V1},{V2}[learning_rate_schedule=constant]",
            {"warmups": (9,)},
            "has the factor linear_warmup, or T2T's noam. Received: 'constant' of transformer_base",
        ),
    ],
)
def test_what_makes_no_grid_is_refused(text, changes, message):
    with pytest.raises(UserError, match=message):
        plan_of(text, **changes)

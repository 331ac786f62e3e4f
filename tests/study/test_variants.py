"""The grid of t2t-compare: what differs between its cells, and what is refused."""

import dataclasses

import keras
import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.models.transformer import Transformer
from t2t_repro.study import report, variants
from t2t_repro.study.variants import Cell, Grid
from t2t_repro.training import checkpoints, learning_rate

V1, V2 = "transformer_base_v1", "transformer_base_v2"
GIVEN = {
    "problem": "algorithmic_reverse_binary40_test",
    "data_dir": "/data",
    "seeds": 2,
    "train_steps": 70,
}
AXES = {"depths": (2,), "warmups": (0, 500, 4000)}


def plan_of(hparams_set=V1, sequences="none/dan,n/da", **changes) -> Grid:
    return Grid(variants=variants.of_sequences(hparams_set, sequences), **GIVEN | AXES | changes)


def sets(text=f"{V1},{V2}", **changes) -> Grid:
    return Grid(variants=variants.of_sets(text), **GIVEN | changes)


def test_the_grid_has_every_cell_once_and_each_has_a_name():
    plan = plan_of(depths=(2, 6))
    cells = plan.cells()
    folders = [plan.folder(cell) for cell in cells]
    assert len(set(cells)) == len(set(folders)) == len(cells) == 2 * 3 * 2 * 2
    assert plan.names == ("post-norm", "pre-norm")
    assert plan.title == "post-norm against pre-norm"
    assert plan_of(sequences="none/dan,n/dan").names == ("post-norm", "n/dan")
    assert folders[0] == "depth-2_warmup-0_none-dan_seed-0"
    assert str(cells[-1]) == "depth 6, warm-up 4,000, pre-norm, seed 1"
    assert plan_of(depths=(6, 2)).settings()[:2] == [(6, 0), (6, 500)]


def test_between_sequences_only_the_two_strings_differ():
    plan = plan_of()
    cells = [Cell(2, 500, name, 0) for name in plan.names]
    post, pre = (dataclasses.asdict(plan.hparams_of(cell)) for cell in cells)
    differs = {name: (post[name], pre[name]) for name in post if post[name] != pre[name]}
    assert differs == {
        "layer_preprocess_sequence": ("none", "n"),
        "layer_postprocess_sequence": ("dan", "da"),
    }


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(hparams="hidden_size=24,num_heads=2,learning_rate=0.3"),
        plan_of(V2, learning_rate_constant=3.0),
        sets(f"{V1},{V2}[batch_size=77],lstm_attention[dropout=0.3]"),
    ],
)
def test_what_a_cell_changes_makes_its_hparams_of_the_set(plan):
    for cell in plan.cells():
        own = plan.hparams_of(cell)
        made = registry.get_hparams(plan.variant(cell.variant).hparams_set, plan.changes_of(cell))
        differs = [
            f.name for f in dataclasses.fields(own) if getattr(own, f.name) != getattr(made, f.name)
        ]
        assert not [name for name in differs if not own.unread([name])]


def test_kernels_and_dropout_seeds_are_the_same_for_both():
    plan = plan_of(hparams="hidden_size=12,filter_size=20,num_heads=2,relu_dropout=0.1")
    models = []
    for name in plan.names:
        keras.utils.set_random_seed(1)
        hparams, sizes = plan.hparams_of(Cell(2, 0, name, 1)), (31, 31)
        names = ("inputs_vocab_size", "targets_vocab_size")
        models.append(Transformer.from_hparams(hparams, **dict(zip(names, sizes, strict=True))))
    post, pre = (checkpoints.weights(model) for model in models)
    kernels = {name for name in post if len(post[name].shape) > 1}
    assert kernels == {name for name in pre if len(pre[name].shape) > 1}
    for name in kernels:
        np.testing.assert_array_equal(np.array(post[name]), np.array(pre[name]))
    seeds = [
        [np.array(v).tolist() for v in model.variables if "seed" in v.path] for model in models
    ]
    assert seeds[0] == seeds[1] and len(seeds[0]) > 4
    # One norm more at the end of each stack: a scale and a bias of 12 each.
    assert models[1].count_params() - models[0].count_params() == 2 * 2 * 12


def test_warmup_0_is_the_sets_own_peak_from_the_first_step():
    plan = plan_of()
    rates = {
        w: learning_rate.schedule(plan.hparams_of(Cell(2, w, "pre-norm", 0))) for w in plan.warmups
    }
    peak = float(rates[4000](4000))
    assert float(rates[0](0)) == float(rates[0](3999)) == pytest.approx(peak)
    assert float(rates[0](16000)) == float(rates[4000](16000)) == pytest.approx(peak / 2)
    assert float(rates[500](500)) == pytest.approx(peak * 8**0.5)


def test_noam_becomes_named_factors_of_the_same_rate():
    noam = learning_rate.schedule(registry.get_hparams(V1))
    for given in (plan_of(learning_rate_constant=1.0), plan_of()):
        named = learning_rate.schedule(given.hparams_of(Cell(2, 4000, "pre-norm", 0)))
        for step in (1, 77, 4000, 9000):
            assert float(named(step)) == pytest.approx(float(noam(step - 1)), rel=1e-5)


def test_sets_are_as_tensor2tensor_shipped_them():
    plan = sets()
    assert plan.settings() == [(None, None)] and not plan.of_sequences
    for cell in plan.cells():
        own = dataclasses.replace(registry.get_hparams(cell.variant), train_steps=70)
        assert plan.hparams_of(cell) == own
    assert plan.folder(plan.cells()[-1]) == "transformer_base_v2_seed-1"
    assert str(plan.cells()[-1]) == "transformer_base_v2, seed 1"


def test_axes_and_changes_of_one_alone_are_set():
    text = f"{V1}, {V2}[batch_size=77,relu_dropout=0.0]"
    plan = sets(text, depths=(3,), warmups=(500,), hparams="hidden_size=24")
    first, second = (plan.hparams_of(Cell(3, 500, name, 0)) for name in plan.names)
    assert (first.num_hidden_layers, first.learning_rate_warmup_steps) == (3, 500)
    assert (first.batch_size, second.batch_size, second.relu_dropout) == (4096, 77, 0.0)
    assert first.learning_rate_schedule == "legacy" and first.hidden_size == 24
    folder = plan.folder(Cell(3, 500, plan.names[1], 0))
    assert folder == "depth-3_warmup-500_transformer_base_v2-batch_size=77-relu_dropout=0.0_seed-0"
    without = sets(warmups=(0,))
    schedule = without.hparams_of(without.cells()[0]).learning_rate_schedule
    assert schedule == "constant*rsqrt_decay*rsqrt_hidden_size"
    several = sets(f"{V1}[batch_size=77],{V2}[batch_size=88],{V2}[batch_size=99]")
    assert several.names == (V1, f"{V2}[batch_size=88]", f"{V2}[batch_size=99]")


def test_what_differs_is_listed_and_nothing_else():
    rows = {row[0]: row[1:] for row in report._differing_table(sets()).rows}
    assert rows == {
        "layer_preprocess_sequence": ("none", "n"),
        "layer_postprocess_sequence": ("dan", "da"),
        "attention_dropout": ("0.0", "0.1"),
        "relu_dropout": ("0.0", "0.1"),
        "learning_rate": ("0.1", "0.2"),
        "learning_rate_warmup_steps": ("4000", "8000"),
    }
    rows = {row[0]: row[1:] for row in report._differing_table(sets(f"{V1},lstm_attention")).rows}
    assert rows["filter_size"] == ("2048", "not read")
    assert rows["attention_mechanism"] == ("not read", "bahdanau")
    assert "kernel_height" not in rows


@pytest.mark.parametrize("text", ["none/dan", "n/da,n/da", "", "none-dan,n/da", "/da,n/da"])
def test_sequences_that_are_no_pairs_are_refused(text):
    with pytest.raises(UserError, match="--sequences"):
        variants.of_sequences("transformer_base", text)


@pytest.mark.parametrize("text", [V1, f"{V1},{V1}", "", f"{V1},[x=1]", f"{V1}[a,{V2}"])
def test_what_names_no_two_sets_is_refused(text):
    with pytest.raises(UserError, match="--hparams_sets"):
        variants.of_sets(text)


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: plan_of("lstm_attention"), "lstm_attention"),
        (lambda: plan_of(sequences="none/dan,n/dax"), "dax"),
        (lambda: plan_of(hparams="hiden_size=3"), "hidden_size"),
        (lambda: plan_of(hparams="learning_rate_schedule=constant"), "linear_warmup"),
        (lambda: sets(f"{V1},transformer_bas"), "transformer_base"),
        (lambda: sets(f"{V1},lstm_attention[filter_size=9]"), "filter_size"),
        (
            lambda: sets(f"{V1},{V2}[learning_rate_schedule=constant]", warmups=(9,)),
            "linear_warmup",
        ),
    ],
)
def test_what_makes_no_grid_is_refused(make, named):
    with pytest.raises(UserError, match=named):
        make()

"""The grid of t2t-compare: what differs between its cells, and what is refused."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.models.transformer import Transformer
from t2t_repro.studies.compare import grid, variants
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.training import learning_rate, named_variables

GIVEN = {
    "problem": "algorithmic_reverse_binary40_test",
    "data_dir": "/data",
    "depths": (2,),
    "warmups": (0, 500, 4000),
    "seeds": 2,
    "train_steps": 70,
}


def plan_of(hparams_set="transformer_base_v1", sequences="none/dan,n/da", **changes) -> Grid:
    return Grid(variants=variants.of_sequences(hparams_set, sequences), **GIVEN | changes)


def test_the_grid_has_every_cell_once_and_each_has_a_name():
    cells = plan_of(depths=(2, 6)).cells()
    assert len(set(cells)) == len(cells) == 2 * 3 * 2 * 2
    folders = [plan_of().folder(cell) for cell in cells]
    assert len(set(folders)) == len(cells)
    assert folders[0] == "depth-2_warmup-0_none-dan_seed-0"
    assert str(cells[-1]) == "depth 6, warm-up 4,000, n/da, seed 1"
    assert plan_of(depths=(6, 2)).settings()[:2] == [(6, 0), (6, 500)]


def test_between_sequences_only_the_two_strings_differ():
    plan = plan_of()
    post, pre = (dataclasses.asdict(plan.hparams_of(Cell(2, 500, name, 0))) for name in plan.names)
    differs = {name: (post[name], pre[name]) for name in post if post[name] != pre[name]}
    assert differs == {
        "layer_preprocess_sequence": ("none", "n"),
        "layer_postprocess_sequence": ("dan", "da"),
    }
    v1, v2 = (
        dataclasses.asdict(registry.get_hparams(f"transformer_base_{v}")) for v in ("v1", "v2")
    )
    assert {name for name in v1 if v1[name] != v2[name]} > set(differs)  # what the report warns of


def test_kernels_and_dropout_seeds_are_the_same_for_both():
    plan = plan_of(hparams="hidden_size=12,filter_size=20,num_heads=2,relu_dropout=0.1")
    models = []
    for name in plan.names:
        keras.utils.set_random_seed(1)
        hparams = plan.hparams_of(Cell(2, 0, name, 1))
        models.append(
            Transformer.from_hparams(hparams, inputs_vocab_size=31, targets_vocab_size=31)
        )
    post, pre = (named_variables.weights(model) for model in models)
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
        w: learning_rate.schedule(plan.hparams_of(Cell(2, w, "n/da", 0))) for w in plan.warmups
    }
    peak = float(rates[4000](4000))
    assert float(rates[0](0)) == float(rates[0](3999)) == pytest.approx(peak)
    assert float(rates[0](16000)) == float(rates[4000](16000)) == pytest.approx(peak / 2)
    assert float(rates[500](500)) == pytest.approx(peak * 8**0.5)


def test_noam_becomes_named_factors_of_the_same_rate():
    plan = plan_of(learning_rate_constant=1.0)
    base = registry.get_hparams("transformer_base_v1")
    noam = learning_rate.schedule(base)
    for given in (plan, plan_of()):
        named = learning_rate.schedule(given.hparams_of(Cell(2, 4000, "n/da", 0)))
        for step in (1, 77, 4000, 9000):
            assert float(named(step)) == pytest.approx(float(noam(step - 1)), rel=1e-5)
    tripled = plan_of(learning_rate_constant=3.0).hparams_of(Cell(2, 0, "n/da", 0))
    assert tripled.learning_rate_constant == 3.0


@pytest.mark.parametrize(
    "text, message",
    [
        ("none/dan", "at least two different pairs"),
        ("n/da,n/da", "at least two different pairs"),
        ("", "at least two different pairs"),
        ("none-dan,n/da", "PREPROCESS/POSTPROCESS, such as none/dan or n/da. Received: 'none-dan'"),
        ("n/d/a,n/da", "Received: 'n/d/a'"),
        ("/da,n/da", "Received: '/da'"),
    ],
)
def test_sequences_that_are_no_pairs_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        variants.of_sequences("transformer_base", text)


def test_numbers_are_read_and_words_refused():
    assert grid.parse_numbers("depths", "2, 6,12") == (2, 6, 12)
    assert grid.parse_numbers("depths", "") == ()
    with pytest.raises(UserError, match="--depths"):
        grid.parse_numbers("depths", "2,six")


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"hparams_set": "lstm_attention"},
            "of a Transformer.*: lstm_attention, of model=lstm_seq",
        ),
        ({"sequences": "none/dan,n/dax"}, "letters of 'adnz'.*Received: 'dax'"),
        ({"sequences": "none/dan,na/da"}, "without 'a'.*Received: 'na'"),
        ({"depths": (2, 0)}, "--depths to be different numbers, each at least 1. Received: '2,0'"),
        ({"depths": (2, 2)}, "--depths to be different numbers"),
        ({"warmups": (-1,)}, "--warmup to be different numbers, each at least 0. Received: '-1'"),
        ({"hparams": "num_hidden_layers=3"}, "without num_hidden_layers.*--depths sets it"),
        ({"hparams": "train_steps=3"}, "without train_steps.*--train_steps sets it"),
        ({"hparams": "layer_postprocess_sequence=da"}, "--sequences sets it"),
        ({"hparams": "hiden_size=3"}, "Unknown hparam.*'hidden_size'"),
        (
            {"hparams": "learning_rate_schedule=constant"},
            "has the factor linear_warmup, or T2T's noam. Received: 'constant' of transformer_base",
        ),
        (
            {
                "hparams": "learning_rate_schedule=linear_warmup*rsqrt_decay",
                "learning_rate_constant": 2.0,
            },
            "hparam learning_rate_constant has no effect",
        ),
    ],
)
def test_what_makes_no_grid_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        plan_of(**changes)


def test_a_comparison_goes_on_with_other_axes_and_not_with_other_settings(tmp_path):
    grid.begin(plan_of(), tmp_path)
    grid.begin(plan_of(depths=(2, 6), seeds=5, data_dir="/moved"), tmp_path)
    with pytest.raises(UserError, match="--train_steps"):
        grid.begin(plan_of(train_steps=71, bleu_sentences=9), tmp_path)
    (tmp_path / grid.GRID_FILE).write_text("[")
    with pytest.raises(UserError):
        grid.begin(plan_of(), tmp_path)


def test_a_cell_of_other_hparams_is_none_of_this_grid(tmp_path):
    """As when a set's definition has changed: the flags are the same, and the cell is finished."""
    plan = plan_of()
    cell = plan.cells()[1]
    config = plan.config_of(cell)
    hparams = dataclasses.replace(config.hparams, relu_dropout=0.25)
    run = grid.run_of(tmp_path, plan, cell)
    run.begin(dataclasses.replace(config, hparams=hparams), ["t2t-compare"], [])
    (run.path / grid.RESULT_FILE).write_text("{}")
    with pytest.raises(UserError, match="relu_dropout"):
        grid.begin(plan, tmp_path)
    assert not (tmp_path / grid.GRID_FILE).exists()
    grid.begin(plan_of(warmups=(500,)), tmp_path)  # which has no such cell


def test_a_variant_that_is_another_one_now_is_refused(tmp_path):
    def sets(change):
        return Grid(
            variants=variants.of_sets(f"transformer_base_v1,transformer_base_v2{change}"), **GIVEN
        )

    grid.begin(sets(""), tmp_path)
    grid.begin(sets("[relu_dropout=0.2]"), tmp_path)  # one more
    other = dataclasses.replace(sets(""), variants=(*plan_of().variants,))
    grid.begin(other, tmp_path)
    same = dataclasses.replace(other.variants[0], hparams_set="transformer_big")
    with pytest.raises(UserError, match="--hparams_set"):
        grid.begin(dataclasses.replace(other, variants=(same, other.variants[1])), tmp_path)
    file = tmp_path / grid.GRID_FILE
    file.write_text('{"variants": [{}]}')
    with pytest.raises(UserError):
        grid.begin(other, tmp_path)


def test_cells_evaluated_on_other_sentences_are_not_mixed(tmp_path):
    def sets(last):
        named = variants.of_sets(f"transformer_base_v1,transformer_base_v1[{last}]")
        return Grid(variants=named, **GIVEN | {"depths": (None,), "warmups": (None,)})

    alike, others = sets("relu_dropout=0.2"), sets("batch_size=99")
    grid.begin(alike, tmp_path)
    with pytest.raises(UserError, match="20"):
        grid.begin(others, tmp_path)
    for cell in others.cells():  # nothing is to be trained
        run = grid.run_of(tmp_path, others, cell).path
        run.mkdir(parents=True)
        (run / grid.RESULT_FILE).write_text("{}")
    grid.begin(others, tmp_path)
    grid.begin(sets("relu_dropout=0.3"), tmp_path)


def test_of_a_comparison_of_earlier_versions_it_is_not_known_on_which_sentences(tmp_path):
    def sets(last):
        named = variants.of_sets(f"transformer_base_v1,transformer_base_v1[{last}]")
        return Grid(variants=named, **GIVEN | {"depths": (None,), "warmups": (None,)})

    grid.begin(sets("relu_dropout=0.2"), tmp_path)
    file = tmp_path / grid.GRID_FILE
    values = json.loads(file.read_text())
    assert values.pop("dev_batches") == 20
    file.write_text(json.dumps(values))
    for last in ("batch_size=99", "relu_dropout=0.2"):
        grid.begin(sets(last), tmp_path)


@pytest.mark.parametrize(
    "change, batches",
    [("[relu_dropout=0.2]", 20), ("[batch_size=99]", 0), ("[length_bucket_step=1.3]", 0)],
)
def test_sets_that_cut_their_batches_otherwise_are_evaluated_on_all_sentences(change, batches):
    compared = variants.of_sets(f"transformer_base_v1,transformer_base_v1{change}")
    changes = {"depths": (None,), "warmups": (None,)}
    assert Grid(variants=compared, **GIVEN | changes).dev_batches == batches

"""What t2t-compare compares: what differs between its runs, and what is refused."""

import dataclasses

import keras
import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.models.transformer import Transformer
from t2t_repro.study import compared, report
from t2t_repro.training import checkpoints, learning_rate
from tests.study.studies import POST, PRE, cell_of, study_of

V1, V2 = "transformer_base_v1", "transformer_base_v2"
PLACES = {"layer_preprocess_sequence": ("none", "n"), "layer_postprocess_sequence": ("dan", "da")}
AXES = {"depths": (2,), "warmups": (0, 500, 4000)}
OWN = {"depths": (None,), "warmups": (None,)}


def norms_of(hparams="", hparams_set=V1):
    return study_of(compared.norms(hparams_set, hparams), **AXES)


def sets(text=f"{V1},{V2}", hparams="", **axes):
    return study_of(compared.sets(text, hparams), **OWN | axes)


def hparams_of(study, name, warmup):
    return cell_of(study, name, warmup).variant.hparams


def test_every_run_is_there_once_and_each_has_a_name():
    study = study_of(depths=(2, 6), warmups=(0, 4000), seeds=2)
    cells = study.cells()
    folders = [study.run_of(cell).path.name for cell in cells]
    assert len(set(folders)) == len(cells) == 2 * 2 * 2 * 2
    assert (study.names, study.depths, study.warmups) == ([POST, PRE], [2, 6], [0, 4000])
    assert folders[0] == "depth-2_warmup-0_none-dan_seed-0"
    assert str(cells[-1]) == "depth 6, warm-up 4,000, pre-norm, seed 1"


def test_between_norms_only_the_two_strings_differ():
    post, pre = (dataclasses.asdict(hparams_of(norms_of(), name, 500)) for name in (POST, PRE))
    assert {name: (post[name], pre[name]) for name in post if post[name] != pre[name]} == PLACES


def test_kernels_and_dropout_seeds_are_the_same_for_both():
    study = norms_of("hidden_size=12,filter_size=20,num_heads=2,relu_dropout=0.1")
    models = []
    for name in study.names:
        keras.utils.set_random_seed(1)
        sizes = {"inputs_vocab_size": 31, "targets_vocab_size": 31}
        models.append(Transformer.from_hparams(hparams_of(study, name, 0), **sizes))
    post, pre = (checkpoints.weights(model) for model in models)
    kernels = {name for name in post if len(post[name].shape) > 1}
    assert kernels == {name for name in pre if len(pre[name].shape) > 1}
    for name in kernels:
        np.testing.assert_array_equal(np.array(post[name]), np.array(pre[name]))
    one, other = (
        [np.array(v).tolist() for v in model.variables if "seed" in v.path] for model in models
    )
    assert one == other and len(one) > 4
    # One norm more at the end of each stack: a scale and a bias of 12 each.
    assert models[1].count_params() - models[0].count_params() == 2 * 2 * 12


def test_warmup_0_is_the_sets_own_peak_from_the_first_step():
    study = norms_of()
    rates = {w: learning_rate.Schedule(hparams_of(study, PRE, w)) for w in study.warmups}
    peak = float(rates[4000](4000))
    assert float(rates[0](0)) == float(rates[0](3999)) == pytest.approx(peak)
    assert float(rates[0](16000)) == float(rates[4000](16000)) == pytest.approx(peak / 2)
    assert float(rates[500](500)) == pytest.approx(peak * 8**0.5)
    noam = learning_rate.Schedule(registry.get_hparams(V1))
    for step in (1, 77, 4000, 9000):  # which the named factors are
        assert float(rates[4000](step)) == pytest.approx(float(noam(step - 1)), rel=1e-5)


def test_axes_and_changes_of_one_alone_are_set():
    text = f"{V1}, {V2}[batch_size=77,relu_dropout=0.0]"
    study = sets(text, "hidden_size=24", depths=(3,), warmups=(500,))
    first, second = (variant.hparams for variant in study.variants)
    assert (first.num_hidden_layers, first.learning_rate_warmup_steps) == (3, 500)
    assert (first.batch_size, second.batch_size, second.relu_dropout) == (4096, 77, 0.0)
    assert first.learning_rate_schedule == "legacy" and first.hidden_size == 24
    folder = study.variants[1].folder
    assert folder == "depth-3_warmup-500_transformer_base_v2-batch_size=77-relu_dropout=0.0"
    (schedule, _) = (v.hparams.learning_rate_schedule for v in sets(warmups=(0,)).variants)
    assert schedule == "constant*rsqrt_decay*rsqrt_hidden_size"
    text = f"transformer_own_text_cooldown,lstm_attention,{V1}"
    cooldown, lstm, _ = (v.hparams for v in sets(text, warmups=(0,)).variants)
    assert cooldown.learning_rate_schedule == f"{schedule}*linear_decay"
    assert float(learning_rate.Schedule(lstm)(0)) == float(learning_rate.Schedule(lstm)(1)) > 0
    several = sets(f"{V1}[batch_size=77],{V2}[batch_size=88],{V2}[batch_size=99]")
    assert several.names == [V1, f"{V2}[batch_size=88]", f"{V2}[batch_size=99]"]


def test_what_differs_is_listed_and_nothing_else():
    rows = {row[0]: row[1:] for row in report._differing_table(sets()).rows}
    assert rows == PLACES | {
        "attention_dropout": ("0.0", "0.1"),
        "relu_dropout": ("0.0", "0.1"),
        "learning_rate": ("0.1", "0.2"),
        "learning_rate_warmup_steps": ("4000", "8000"),
    }
    rows = {row[0]: row[1:] for row in report._differing_table(sets(f"{V1},lstm_attention")).rows}
    assert rows["filter_size"] == ("2048", "not read")
    assert rows["attention_mechanism"] == ("not read", "bahdanau")
    assert "kernel_height" not in rows

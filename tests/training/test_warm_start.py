"""A run that begins with another's weights, all of them or what fits, and the table of it."""

import dataclasses
import json

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.training import checkpoints, warm_start
from tests.training.runs import arrays, assert_same

NAME = "text2text_tmpdir"
PIECES = [*"<pad>_ <EOS>_ bad_ egg".split(), *"abcdefgh\\_u;0123456789"]


def data(folder, pieces):
    folder.mkdir(exist_ok=True)
    path = folder / f"vocab.{NAME}.32768.subwords"
    SubwordTextEncoder.from_subtokens(pieces).store_to_file(path)
    return folder


def model_of(folder, overrides=""):
    hparams = registry.get_hparams("transformer_test", f"num_hidden_layers=1{overrides}")
    return hparams, model_for(registry.get_problem(NAME), hparams, str(folder))


@pytest.fixture
def parent(tmp_path):
    """Returns the path and the weights of a run with one checkpoint."""
    folder = data(tmp_path / "data", PIECES)
    hparams, model = model_of(folder)
    run, how = RunDirectory(tmp_path / "parent"), {"problem": NAME, "version": "0"}
    config = RunConfig(hparams_set="x", hparams=hparams, data_dir=str(folder), **how)
    run.begin(config, [], [str(path) for path in folder.iterdir()])
    checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=7))
    return run.path, arrays(model)


def begun(parent, folder, overrides="", **options):
    """Returns the weights before, those after, and the WarmStart by name."""
    _, model = model_of(folder, overrides)
    before, problem = arrays(model), registry.get_problem(NAME)
    start = warm_start.begin(model, problem, str(folder), parent[0], **options)
    return before, arrays(model), start


@pytest.mark.parametrize("partial", [False, True])
def test_all_is_taken_from_the_same_model(parent, tmp_path, partial):
    before, after, start = begun(parent, tmp_path / "data", partial=partial)
    assert_same(parent[1], after)
    assert f"{parent[0]}/checkpoints/ckpt-7" in str(start)
    start.write(RunDirectory(tmp_path))
    kept = json.loads((tmp_path / warm_start.WARM_START).read_text())
    assert kept["step"] == 7 and {row["what"] for row in kept["rows"]} == {"taken"}
    assert before.keys() == {row["name"] for row in kept["rows"]}


def test_the_rows_of_pieces_behind_the_parents_begin_as_the_mean_of_their_parts(parent, tmp_path):
    folder = data(tmp_path / "more", [*PIECES, "egged_", "cabbage_"])
    _, after, start = begun(parent, folder)
    tables = [row for row in start.rows if row.what == warm_start.RESIZED]
    for row in tables:
        table, old = after[row.name], parent[1][row.name]
        np.testing.assert_array_equal(table[: len(PIECES)], old)
        ids = [PIECES.index(piece) for piece in ("egg", "e", "d", "_")]
        np.testing.assert_allclose(table[len(PIECES)], old[ids].mean(0), rtol=1e-6)
        assert row.rows == {"taken": len(PIECES), "made": 2, "new": 0}
    assert tables and all(len(row.shape) == 2 for row in tables)
    assert {row.what for row in start.rows if row not in tables} == {"taken"}


def test_another_vocabulary_is_refused_with_the_command_that_takes_the_parents(parent, tmp_path):
    folder = data(tmp_path / "other", [*PIECES[:2], "egg", "cab_", *PIECES[4:]])
    with pytest.raises(UserError, match="t2t-datagen --vocab_from=.*--warm_start_partial"):
        begun(parent, folder)
    _, after, start = begun(parent, folder, partial=True)
    (table, *_) = (row for row in start.rows if row.what == warm_start.RESIZED)
    old, new = parent[1][table.name], after[table.name]
    np.testing.assert_array_equal(new[2], old[PIECES.index("egg")])
    np.testing.assert_allclose(new[3], old[[4 + 2, 4, 4 + 1, PIECES.index("_")]].mean(0), rtol=1e-6)
    assert table.rows == {"taken": 25, "made": 1, "new": 0}


def test_in_part_layers_of_the_same_name_and_shape_are_taken_and_all_else_is_told(parent, tmp_path):
    with pytest.raises(UserError, match="--warm_start_partial"):
        begun(parent, tmp_path / "data", ",num_encoder_layers=2")
    changes = ",num_encoder_layers=2,filter_size=12"
    before, after, start = begun(parent, tmp_path / "data", changes, partial=True)
    rows = {(row.name, row.what) for row in start.rows}
    taken = {name for name, what in rows if what == "taken"}
    assert {name for name, what in rows if what == "left out"} == parent[1].keys() - taken
    assert {name for name, what in rows if what == "new"} == after.keys() - taken
    for name, value in after.items():
        same_shape = name in parent[1] and parent[1][name].shape == value.shape
        assert same_shape == (name in taken), name
        np.testing.assert_array_equal(value, (parent[1] if same_shape else before)[name], name)
    assert any("encoder/layer_1" in name for name in after.keys() - taken)
    with pytest.raises(UserError):
        more = ",hidden_size=24,filter_size=12,norm_type=none"
        begun(parent, tmp_path / "data", more, partial=True)


@pytest.mark.parametrize(
    "overrides, differs",
    [
        (",num_heads=4", "num_heads was 2, now 4"),
        (",attention_variables_3d=True", "attention_variables_3d was False, now True"),
        (
            ",pos=none,attention_score=dot_product",
            "pos was 'timing', now 'none'; attention_score was 'scaled_dot_product', now 'dot",
        ),
    ],
)
def test_a_model_that_computes_something_else_takes_weights_in_part_alone(
    parent, tmp_path, overrides, differs
):
    with pytest.raises(UserError, match=f"{differs}.*--warm_start_partial"):
        begun(parent, tmp_path / "data", overrides)
    _, _, start = begun(parent, tmp_path / "data", overrides, partial=True)
    assert {row.what for row in start.rows} == {"taken"}


def test_a_vocabulary_is_compared_by_its_pieces_whatever_its_file_is_called(parent, tmp_path):
    _, model = model_of(tmp_path / "data")
    config = RunDirectory(parent[0]).config
    other = RunDirectory(tmp_path / "reversed")
    other.begin(dataclasses.replace(config, problem=f"{NAME}_rev"), [], [])
    checkpoints.save(other.checkpoints_dir, model, checkpoints.State(step=3))
    assert begun((other.path,), tmp_path / "data")[2].step == 3  # read where its data lie

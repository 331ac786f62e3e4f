"""t2t-visualize: files that a program and a person can read, and what it refuses."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.bin import visualize
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import TrainedRun
from t2t_repro.training import checkpoints, trainer
from t2t_repro.views import pictures
from tests import untrained
from tests.programs import call

PROBLEM = "algorithmic_reverse_binary40_test"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run directory with one checkpoint of an untrained model."""
    folder = tmp_path_factory.mktemp("visualize")
    overrides = "num_hidden_layers=1,pos=emb,max_length=20"
    run, model = untrained.run_on(folder, PROBLEM, overrides)
    checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=3))
    return run, model


def test_attention_of_a_sentence_and_its_target(trained, tmp_path, capsys):
    of, model = trained
    out = tmp_path / "out"
    call(
        visualize,
        *(f"--output_dir={of.path}", "--source=0 1 1 0", "--target=0 1 1"),
        f"--visualization_dir={out}",
    )
    said = capsys.readouterr().out
    assert said.startswith("0 1 1 0\n0 1 1\nEncoder self-attention: of 2 heads look ")
    written = sorted(path.name for path in out.iterdir())
    assert written == sorted(line.split("/")[-1][:-1] for line in said.splitlines() if "/" in line)
    batch = {"inputs": np.array([[2, 3, 3, 2, 1]]), "targets": np.array([[2, 3, 3, 1]])}
    own = model.attention_weights(batch)["decoder/layer_0/encdec_attention"]
    with np.load(out / "attention.npz") as arrays:
        np.testing.assert_allclose(arrays["encoder-decoder"][0], own[0], atol=1e-6)
    content = json.loads((out / "heads.json").read_text())
    assert content["source_tokens"] == ["0", "1", "1", "0", "<EOS>"]
    assert not content["target_is_the_models_own"]
    rows = list(csv.DictReader((out / "heads.csv").open()))
    assert len(rows) == len(content["heads"]) == 6
    assert 0 < float(rows[0]["entropy"]) <= np.log2(5)
    assert (out / "attention.html").exists()
    for name in ("encoder", "decoder", "encoder-decoder", "heads"):
        assert (out / f"{name}.png").stat().st_size < pictures.LIMIT


def test_the_models_own_translation_and_its_learned_positions(
    trained, tmp_path, capsys, monkeypatch
):
    of, model = trained
    own, asked = TrainedRun.translator, []  # which knows what a parser may write
    monkeypatch.setattr(
        TrainedRun, "translator", lambda run, *of, **how: asked.append(run) or own(run, *of, **how)
    )
    moved = tmp_path / "moved"
    shutil.copytree(of.path, moved)
    call(
        visualize,
        *(f"--output_dir={moved}", "--source=1 0", "--decode_hparams=extra_length=3,beam_size=1"),
        "--positions",
    )
    assert len(asked) == 1
    out = moved / "visualization"
    content = json.loads((out / "heads.json").read_text())
    assert content["target_is_the_models_own"] and 1 <= len(content["target_tokens"]) <= 6
    rows = list(csv.reader((out / "positions.csv").open()))
    assert [row[:2] for row in rows[1:]] == [
        [name, str(i)] for name in ("inputs", "targets") for i in range(20)
    ]
    table = np.array(model.targets_position.embeddings)
    np.testing.assert_allclose(np.array([row[2:] for row in rows[21:]], float), table, atol=1e-6)
    assert (out / "positions.png").stat().st_size < pictures.LIMIT


@pytest.mark.parametrize(
    "argv, name",
    [
        ([], "--source"),
        (["--positions"], "--output_dir"),
        (["--source=1", "--output_dir=/nothing"], "/nothing"),
    ],
)
def test_what_it_refuses(argv, name, refused):
    assert name in refused(visualize, *argv).err


def test_what_it_refuses_of_a_run(trained, tmp_path, refused):
    of, _ = trained
    flag = f"--output_dir={of.path}"
    assert "20" in refused(visualize, flag, f"--source={'1 ' * 20}").err
    empty = RunDirectory(tmp_path / "empty")
    config = of.config
    empty.begin(config, ["test"], [])
    message = refused(visualize, f"--output_dir={empty.path}", "--source=1").err
    assert str(empty.path) in message
    without = dataclasses.replace(config.hparams, pos="none")
    none = RunDirectory(tmp_path / "none")
    none.begin(dataclasses.replace(config, hparams=without), ["test"], [])
    model = trainer.build_model(none.config, registry.get_problem(PROBLEM))
    checkpoints.save(none.checkpoints_dir, model, checkpoints.State(step=1))
    assert "pos=none" in refused(visualize, f"--output_dir={none.path}", "--positions").err
    assert not (none.path / "visualization").exists()

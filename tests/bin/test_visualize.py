"""t2t-visualize: files that a program and a person can read, and what it refuses."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import visualize
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import TrainedRun
from t2t_repro.training import checkpoints, experiment, model_state
from t2t_repro.views import pictures
from tests import untrained

PROBLEM = "algorithmic_reverse_binary40_test"
SET = "transformer_test"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run directory with one checkpoint of an untrained model."""
    folder = tmp_path_factory.mktemp("visualize")
    overrides = "num_hidden_layers=1,pos=emb,max_length=20"
    run, model = untrained.run_on(folder, PROBLEM, overrides)
    model_state.save(run.checkpoints_dir, model, checkpoints.State(step=3))
    return run, model


def run(*argv):
    cli.run("t2t-visualize", visualize.__doc__, visualize.define_flags, visualize.main, list(argv))


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as left:
        run(*argv)
    assert left.value.code == 2
    return capsys.readouterr().err


def test_attention_of_a_sentence_and_its_target(trained, tmp_path, capsys):
    of, model = trained
    out = tmp_path / "out"
    run(
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
    assert "What run looks at" in (out / "attention.html").read_text()
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
    run(
        *(f"--output_dir={moved}", "--source=1 0", "--decode_hparams=extra_length=3,beam_size=1"),
        *("--positions", "--length=21"),
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


def test_a_model_in_chunks_has_the_attention_of_the_whole_one(trained, tmp_path):
    of, model = trained
    moved = tmp_path / "moved"
    shutil.copytree(of.path, moved)
    chunks = model.hparams.override("attention_chunk_size=3,attention_dropout=0")
    (moved / "hparams.json").write_text(chunks.to_json())
    run(f"--output_dir={moved}", "--source=0 1 1 0", "--target=0 1 1")
    batch = {"inputs": np.array([[2, 3, 3, 2, 1]]), "targets": np.array([[2, 3, 3, 1]])}
    own = model.attention_weights(batch)["encoder/layer_0/self_attention"]
    with np.load(moved / "visualization" / "attention.npz") as arrays:
        np.testing.assert_allclose(arrays["encoder"][0], own[0], atol=1e-6)


def test_sinusoids_and_schedules_need_no_run(tmp_path, golden_path, capsys):
    out = tmp_path / "out"
    names = ("transformer_base_v1", "transformer_big", "transformer_parsing_base")
    run(
        *("--positions", "--hparams_set=transformer_base", "--length=50"),
        *(f"--schedules={', '.join(names)}", "--last_step=9000", f"--visualization_dir={out}"),
    )
    with np.load(golden_path / "text" / "timing_signal.npz") as arrays:
        theirs = arrays["50_512"][0]
    rows = list(csv.reader((out / "positions.csv").open()))
    ours = np.array([row[2:] for row in rows[1:]], float)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
    rows = list(csv.DictReader((out / "schedules.csv").open()))
    rates = {int(row["step"]): row for row in rows}
    assert {1, 4000, 8000, 9000} <= rates.keys()
    golden = json.loads((golden_path / "learning_rate.json").read_text())
    for name in names:
        for step, rate in golden[name]:
            if step in rates:
                assert float(rates[step][name]) == pytest.approx(rate, rel=1e-5)
    assert "transformer_big: 6.98" in capsys.readouterr().out
    assert (out / "schedules.png").stat().st_size < pictures.LIMIT


def test_schedules_are_those_of_the_changed_sets(tmp_path, capsys):
    said = []
    for rate in (2.0, 10.0):
        hparams = f"--hparams=learning_rate_constant={rate}"
        run("--schedules=transformer_base", hparams, f"--visualization_dir={tmp_path}")
        said.append(float(capsys.readouterr().out.split()[1]))
    assert said[1] == pytest.approx(5 * said[0], rel=1e-3)


@pytest.mark.parametrize(
    "argv, name",
    [
        ([], "--source"),
        (["--schedules=transformer_base", "--hparams=nothing=1"], "nothing"),
        (["--positions"], "--hparams_set"),
        (["--source=1"], "--output_dir"),
        (["--source=1", "--output_dir=/nothing"], "/nothing"),
        (["--schedules=transformer_bsae"], "transformer_base"),
        (["--positions", f"--hparams_set={SET}", "--hparams=pos=emb,max_length=9"], "pos=emb"),
    ],
)
def test_what_it_refuses(argv, name, capsys):
    assert name in refused(capsys, *argv)


def test_what_it_refuses_of_a_run(trained, tmp_path, capsys):
    of, _ = trained
    flag = f"--output_dir={of.path}"
    assert "20" in refused(capsys, flag, f"--source={'1 ' * 20}")
    empty = RunDirectory(tmp_path / "empty")
    config = of.config()
    empty.begin(config, ["test"], [])
    message = refused(capsys, f"--output_dir={empty.path}", "--source=1")
    assert str(empty.path) in message
    without = dataclasses.replace(config.hparams, pos="none")
    none = RunDirectory(tmp_path / "none")
    none.begin(dataclasses.replace(config, hparams=without), ["test"], [])
    model = experiment.build_model(none.config(), registry.get_problem(PROBLEM))
    model_state.save(none.checkpoints_dir, model, checkpoints.State(step=1))
    assert "pos=none" in refused(capsys, f"--output_dir={none.path}", "--positions")
    assert not (none.path / "visualization").exists()

"""t2t-show: what a run directory says, at any moment of a run, without loading TensorFlow."""

import json

import numpy as np
import pytest

from t2t_repro.bin import show
from t2t_repro.run_directory import RunDirectory
from t2t_repro.views import run_view
from tests import untrained
from tests.programs import call

SET = "transformer_tiny"
COMMAND = "t2t-trainer --output_dir=here"


@pytest.fixture
def run(tmp_path):
    """A run of 40 steps that has made 20, with three checkpoints, as training leaves them."""
    run = RunDirectory(tmp_path / "run")
    config = untrained.config(SET, "text2text_tmpdir", "train_steps=40,pos=none")
    run.begin(config, COMMAND.split(), [])
    losses = {5: 3.0, 10: 2.0, 15: 2.5}
    for step in range(1, 21):
        run.append_metrics({"kind": "train", "step": step, "time": 1.0, "loss": 4 - step / 10})
        if step in losses:
            scores = {"loss": losses[step], "accuracy": step / 20, "accuracy_top5": "nan"}
            run.append_metrics({"kind": "eval", "step": step, "split": "test", "loss": 9.0})
            row = {"kind": "eval", "step": step, "time": 2.0, "split": "dev"}
            run.append_metrics(row | scores)
            checkpoint(run, step)
    return run


def checkpoint(run, step, averaged=(), trains_on=True):
    folder = run.checkpoints_dir / f"ckpt-{step}"
    folder.mkdir(parents=True)
    arrays = {
        "shared/embeddings": (7, 3),
        "encoder/layer_0/ffn/feed_forward/intermediate_dense/kernel": (3, 5),
        "encoder/layer_1/ffn/feed_forward/intermediate_dense/bias": (5,),
        "encoder/layer_prepostprocess/layer_norm/scale": (3,),
    }
    with open(folder / "weights.npz", "wb") as file:
        np.savez(file, **{name: np.zeros(shape, "float32") for name, shape in arrays.items()})
    files = {"weights.npz": (folder / "weights.npz").stat().st_size}
    if trains_on and not averaged:
        files["training.npz"] = (folder / "training.npz").write_bytes(b"12345")
    state = {"format": 1, "files": files, "step": step, "averaged": list(averaged)}
    (folder / "state.json").write_text(json.dumps(state))


def shown(capsys, *argv):
    call(show, *argv)
    return capsys.readouterr().out


def test_what_it_reads(run):
    found = run_view.view(run)
    assert found.changes == {"train_steps": (250000, 40), "pos": ("timing", "none")}
    assert (found.step, found.train_steps, found.trainer) == (20, 40, "")
    parts = {"shared": 21, "encoder/ffn": 20, "encoder/last norm": 3}
    assert found.parameters == parts
    assert [each.step for each in found.checkpoints] == [5, 10, 15]
    assert found.checkpoints[1].scores == {"loss": 2.0, "accuracy": 0.5, "accuracy_top5": "nan"}
    assert found.best == {"loss": (10, 2.0), "accuracy": (15, 0.75)}
    assert found.curves["train loss"][:2] == [(1, 3.9), (2, 3.8)]
    assert found.curves["test loss"] == [(5, 9.0), (10, 9.0), (15, 9.0)]


def test_what_it_prints(run, capsys):
    said = shown(capsys, f"--output_dir={run.path}")
    assert "step 20 of 40 (50%), stopped, last report" in said
    assert "pos          'timing' -> 'none'" in said
    assert "encoder/ffn" in said and "45.5%" in said
    lines = [line.split() for line in said.splitlines()]
    assert "best dev loss 2.0000 at step 10".split() in lines
    assert ["10", "0.0", "2.0000", "0.5000", "best", "loss"] in lines
    assert ["15", "0.0", "2.5000", "0.7500", "last,", "best", "accuracy"] in lines
    assert COMMAND in said and "(2.0000)" in said and " 2.5000 at step 15" in said
    assert "t2t-avg-all" in said and "t2t-decoder" in said and "--tune" not in said


def test_a_run_that_stopped_early(run, capsys):
    file = run.path / "run.json"
    values = json.loads(file.read_text())
    values["options"] = {"eval_early_stopping_steps": "5"}
    file.write_text(json.dumps(values))
    said = shown(capsys, f"--output_dir={run.path}")
    assert "step 20 of 40 (50%), stopped early, last report" in said
    assert f"t2t-trainer --output_dir={run.path} --eval_early_stopping_steps=0\n" in said
    with run.locked():
        assert run_view.view(run).stopped_early == ""
    run.append_metrics({"kind": "train", "step": 40, "time": 1.0, "loss": 2.0})
    assert run_view.view(run).stopped_early == ""


def test_json_for_programs(run, capsys):
    found = json.loads(shown(capsys, f"--output_dir={run.path}", "--json"))
    assert found["best"]["loss"] == [10, 2.0] and found["step"] == 20
    assert found["checkpoints"][2]["scores"]["accuracy"] == 0.75
    assert len(found["next"]) == 5


def test_while_it_trains(run, capsys):
    with open(run.metrics_path, "a") as file:
        file.write('{"kind": "train", "step": 21, "lo')
    (run.checkpoints_dir / "ckpt-20.incomplete").mkdir()
    (run.checkpoints_dir / "ckpt-1-old.incomplete").mkdir()
    (run.checkpoints_dir / "ckpt-18").mkdir()
    (run.checkpoints_dir / "ckpt-15" / "weights.npz").write_bytes(b"cut short")
    (run.path / "nonfinite").mkdir()
    (run.path / "nonfinite" / "batch-9.json").write_text("{}")
    with run.locked():
        lock = (run.path / "trainer.lock").read_text().strip()
        found = run_view.view(run)
        said = shown(capsys, f"--output_dir={run.path}")
    assert found.trainer == lock and found.being_written == (20,) and found.nonfinite == 1
    assert [each.whole for each in found.checkpoints] == [True, True, False, False]
    assert found.parameters["shared"] == 21  # of the newest whole one
    assert f"training now ({lock})" in said
    assert said.count("INCOMPLETE") == 2 and "tensorboard --logdir" in said
    assert "t2t-avg-all" not in said
    assert run_view.view(run).being_written == ()  # a kill has left it


def test_a_run_that_has_just_begun_and_an_average(run, tmp_path, capsys):
    new = RunDirectory(tmp_path / "new")
    new.begin(run.config, ["t2t-trainer"], [])
    said = shown(capsys, f"--output_dir={new.path}")
    assert "Checkpoints: none" in said and "Curves" not in said
    checkpoint(new, 15, averaged=(10, 15))
    said = shown(capsys, f"--output_dir={new.path}")
    assert "2 checkpoints: 10, 15" in said
    checkpoint(new, 20, averaged=(20,))
    assert run_view.view(new).checkpoints[-1].averaged == ()

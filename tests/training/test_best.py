import json

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints, model_state
from t2t_repro.training.best import KeepBest


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    (run.path / "run.json").write_text("{}")
    (run.path / "vocab.x").write_text("'a_'")
    run.append_metrics({"step": 1})
    return run


@pytest.fixture
def add(run, make_model):
    model = make_model()

    def add(step, best, **values):
        model.softmax.bias.assign(np.full(11, float(step)))
        model_state.save(run.checkpoints_dir, model, checkpoints.State(step=step))
        return best.add(run, step, values)

    return add


def names(run):
    return [path.name for path in checkpoints.list_checkpoints(run.path / "best")]


def test_the_best_stay_and_the_first_is_found(run, add, make_model):
    best = KeepBest(count=2)
    found = [
        add(step, best, loss=loss, accuracy=0.5)
        for step, loss in {10: 3.0, 20: 2.0, 30: 2.5, 40: 2.2, 50: float("nan")}.items()
    ]
    assert found == [True, True, True, True, False]
    assert names(run) == ["ckpt-20", "ckpt-40"]
    # It is a run directory of its own, without the history.
    files = sorted(path.name for path in (run.path / "best").iterdir())
    assert files == ["checkpoints", "run.json", "vocab.x"]
    for path in (run.path / "best", run.path / "best" / "checkpoints"):
        assert checkpoints.find(path).name == "ckpt-20"
    checkpoints.delete(run.checkpoints_dir / "ckpt-20")
    model = make_model()
    model_state.load_weights(model, run.path / "best")
    assert np.asarray(model.softmax.bias)[0] == 20.0
    with pytest.raises(UserError, match="holds weights only. Decode with it"):
        model_state.restore(model, checkpoints.find(run.path / "best"))


def test_adding_again_changes_nothing_and_the_earlier_of_equals_is_first(run, add):
    best = KeepBest(count=2)
    for step in (30, 20, 30):
        assert add(step, best, loss=1.0)
    ranking = json.loads((run.path / "best" / "checkpoints" / "ranking.json").read_text())
    assert [entry["step"] for entry in ranking["ranking"]] == [20, 30]


def test_of_another_metric_more_is_better_and_the_metric_may_change(run, add):
    for step, accuracy in {10: 0.5, 20: 0.9, 30: 0.7}.items():
        add(step, KeepBest(count=2, metric="accuracy"), loss=step, accuracy=accuracy)
    assert names(run) == ["ckpt-20", "ckpt-30"]
    assert checkpoints.find(run.path / "best").name == "ckpt-20"
    add(40, KeepBest(count=3), loss=25.0, accuracy=0.1)
    ranking = json.loads((run.path / "best" / "checkpoints" / "ranking.json").read_text())
    assert ranking["metric"] == "loss"
    assert [entry["step"] for entry in ranking["ranking"]] == [20, 40, 30]


def test_what_is_wrong_is_said(run, add):
    with pytest.raises(UserError, match="keep 1 best checkpoint or more. Received: 0"):
        KeepBest(count=0)
    with pytest.raises(UserError, match="metric of the best checkpoints. Received: 'accuracy'"):
        add(10, KeepBest(metric="accuracy"), loss=1.0)

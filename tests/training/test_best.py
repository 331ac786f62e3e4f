import json

import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.best import KeepBest


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    (tmp_path / "vocab.x").write_text("'a_'")
    config = RunConfig(
        hparams_set="mine", hparams=HParams(), problem="text2text_tmpdir", data_dir="", version="0"
    )
    run.begin(config, ["t2t-trainer"], [str(tmp_path / "vocab.x")])
    run.append_metrics({"step": 1})
    return run


@pytest.fixture
def add(run, make_model):
    model = make_model()

    def add(step, best, of=None, **values):
        model.softmax.bias.assign(np.full(11, float(step)))
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
        return best.add(run, step, values, **of or {})

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
    assert files == ["checkpoints", "hparams.json", "run.json", "vocab.x"]
    for path in (run.path / "best", run.path / "best" / "checkpoints"):
        assert checkpoints.find(path).name == "ckpt-20"
    checkpoints.delete(run.checkpoints_dir / "ckpt-20")
    model = make_model()
    checkpoints.load_weights(model, run.path / "best")
    assert np.asarray(model.softmax.bias)[0] == 20.0
    with pytest.raises(UserError):
        checkpoints.restore(model, checkpoints.find(run.path / "best"))


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


def of(sample, split="dev"):
    """What an evaluation is of."""
    return {"split": split, "sample": sample}


def ranked(run):
    ranking = json.loads((run.path / "best" / "checkpoints" / "ranking.json").read_text())
    return [entry["step"] for entry in ranking["ranking"]]


def test_what_other_examples_judged_ranks_last_and_goes_first(run, add):
    best = KeepBest(count=3)
    for step, loss in {10: 1.2, 20: 1.1, 30: 1.3}.items():
        assert add(step, best, of("all 9 examples"), loss=loss)
    assert ranked(run) == [20, 10, 30]
    assert not add(40, best, of("2 of 9 examples"), loss=float("nan"))
    assert add(50, best, of("2 of 9 examples"), loss=2.0)
    assert ranked(run) == [50, 20, 10] and names(run) == ["ckpt-10", "ckpt-20", "ckpt-50"]
    assert add(60, best, of("2 of 9 examples"), loss=1.9)
    assert ranked(run) == [60, 50, 20]
    assert add(70, KeepBest(count=1), of("2 of 9 examples", "test"), loss=9.0)
    assert ranked(run) == [70] and names(run) == ["ckpt-70"]


def test_what_is_decoded_is_a_sample_of_its_own(run, add):
    by_loss, by_bleu = KeepBest(count=3), KeepBest(count=3, metric="bleu")
    add(10, by_loss, of("all 9 examples"), loss=1.0)
    add(20, by_loss, of("all 9 examples; bleu of 7 sentences"), loss=2.0, bleu=8.0)
    assert ranked(run) == [10, 20]
    add(30, by_bleu, of("2 of 9 examples; bleu of 7 sentences"), loss=2.0, bleu=9.0)
    assert ranked(run) == [30, 20, 10]
    add(40, by_bleu, of("2 of 9 examples; bleu of 5 sentences"), loss=2.0, bleu=1.0)
    assert ranked(run) == [40, 30, 20]  # 10 had no BLEU at all


def test_a_ranking_of_old_that_says_no_sample_is_compared(run, add):
    for step, loss in {10: 1.0, 20: 3.0}.items():
        add(step, KeepBest(count=2), loss=loss)
    file = run.path / "best" / "checkpoints" / "ranking.json"
    ranking = json.loads(file.read_text())
    for entry in ranking["ranking"]:
        del entry["split"], entry["sample"]
    file.write_text(json.dumps(ranking))
    assert add(30, KeepBest(count=2), of("all 9 examples"), loss=2.0)
    assert ranked(run) == [10, 30]

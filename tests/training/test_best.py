"""The best checkpoints of a run, and the end of one whose evaluations no longer get better."""

import json

import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig
from t2t_repro.training import checkpoints
from t2t_repro.training.best import EarlyStopping, KeepBest, plateau

ALL, NAN = "all 9 examples", float("nan")


@pytest.fixture
def add(run, tmp_path, make_model):
    """Adds a checkpoint to the best of a run; returns whether it is among them."""
    (tmp_path / "vocab.x").write_text("'a_'")
    config = RunConfig(
        hparams_set="mine", hparams=HParams(), problem="text2text_tmpdir", data_dir="", version="0"
    )
    run.begin(config, ["t2t-trainer"], [str(tmp_path / "vocab.x")])
    run.append_metrics({"step": 1})
    model = make_model()

    def add(step, best, sample="", split="dev", **values):
        model.softmax.bias.assign(np.full(11, float(step)))
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
        return best.add(run, step, values, *((split, sample) if sample else ()))

    return add


def ranked(run, metric="loss"):
    """Returns the steps, best first; the same are there."""
    folder = run.path / "best" / "checkpoints"
    ranking = json.loads((folder / "ranking.json").read_text())
    steps = [entry["step"] for entry in ranking["ranking"]]
    names = [path.name for path in checkpoints.list_checkpoints(folder)]
    assert names == [f"ckpt-{step}" for step in sorted(steps)] and ranking["metric"] == metric
    return steps


def test_the_best_stay_and_the_first_is_found(run, add, make_model):
    losses = {10: 3.0, 20: 2.0, 30: 2.5, 40: 2.2, 50: NAN}
    found = [add(step, KeepBest(count=2), loss=loss) for step, loss in losses.items()]
    assert found == [True, True, True, True, False] and ranked(run) == [20, 40]
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
    for step in (30, 20, 30, 20):
        assert add(step, KeepBest(count=2), loss=1.0)
    assert ranked(run) == [20, 30]


def test_of_another_metric_more_is_better_and_the_metric_may_change(run, add):
    for step, accuracy in {10: 0.5, 20: 0.9, 30: 0.7}.items():
        add(step, KeepBest(count=2, metric="accuracy"), loss=step, accuracy=accuracy)
    assert ranked(run, "accuracy") == [20, 30]
    add(40, KeepBest(count=3), loss=25.0, accuracy=0.1)
    assert ranked(run) == [20, 40, 30]


def test_what_other_examples_judged_ranks_last_and_goes_first(run, add):
    best, some = KeepBest(count=3), "2 of 9 examples"
    for step, loss in {10: 1.2, 20: 1.1, 30: 1.3}.items():
        assert add(step, best, ALL, loss=loss)
    assert ranked(run) == [20, 10, 30]
    assert not add(40, best, some, loss=NAN)
    assert add(50, best, some, loss=2.0)
    assert ranked(run) == [50, 20, 10]
    assert add(60, best, some, loss=1.9)
    assert ranked(run) == [60, 50, 20]
    assert add(70, KeepBest(count=1), some, "test", loss=9.0)
    assert ranked(run) == [70]


def test_what_is_decoded_is_a_sample_of_its_own(run, add):
    by_loss, by_bleu = KeepBest(count=3), KeepBest(count=3, metric="bleu")
    add(10, by_loss, ALL, loss=1.0)
    add(20, by_loss, f"{ALL}; bleu of 7 sentences", loss=2.0, bleu=8.0)
    assert ranked(run) == [10, 20]
    add(30, by_bleu, "2 of 9 examples; bleu of 7 sentences", loss=2.0, bleu=9.0)
    assert ranked(run, "bleu") == [30, 20, 10]
    add(40, by_bleu, "2 of 9 examples; bleu of 5 sentences", loss=2.0, bleu=1.0)
    assert ranked(run, "bleu") == [40, 30, 20]  # 10 had no BLEU at all


@pytest.mark.parametrize(
    "values, steps, delta, minimize, expected",
    [
        ({}, 10, 0.1, True, None),
        ({5: 3.0}, 10, 0.1, True, None),
        ({5: 3.0, 10: 3.0}, 10, 0.1, True, None),  # not old enough
        ({5: 3.0, 15: 3.0}, 10, 0.1, True, 5),
        ({5: 3.0, 15: 2.9}, 10, 0.05, True, None),
        ({5: 3.0, 15: 2.9}, 10, 0.2, True, 5),
        ({5: 3.0, 15: 2.9}, 10, 0.2, False, 5),  # it went the other way
        ({5: 3.0, 15: 3.3}, 10, 0.2, False, None),
        ({5: 9.0, 8: 3.0, 12: 2.0, 18: 3.5}, 10, 0.1, True, None),  # 2.0 on the way is better
        ({5: 9.0, 8: 3.0, 12: 2.95, 18: 3.5}, 10, 0.1, True, 8),  # from 8 on, not from 5
        # To become nan is no gain, of nan anything is.
        ({8: 3.0, 18: NAN}, 10, 0.1, True, 8),
        ({8: 3.0, 18: NAN}, 10, 0.0, False, 8),
        ({8: NAN, 18: NAN}, 10, 0.0, True, 8),
        ({8: NAN, 18: 9.0}, 10, 0.1, True, None),
        ({8: 3.0, 13: 2.0, 18: NAN}, 10, 0.1, True, None),
        # Without a delta any gain counts, and none is none.
        ({5: 0.10, 10: 0.13, 15: 0.16}, 10, 0.0, False, None),
        ({5: 0.10, 10: 0.10, 15: 0.09}, 10, 0.0, False, 5),
        ({5: 3.0, 15: 2.999}, 10, 0.0, True, None),
        ({5: 3.0, 15: 3.0}, 10, 0.0, True, 5),
        ({5: 3.0, 15: NAN}, 10, 0.0, True, 5),
    ],
)
def test_a_plateau_as_t2ts_rule_says(values, steps, delta, minimize, expected):
    assert plateau(values, steps, delta, minimize=minimize) == expected


def row(step, **values):
    return {"kind": "eval", "step": step, "split": "dev", **values}


def test_it_reads_the_evaluations_of_its_split():
    early = EarlyStopping(steps=10, metric="accuracy", metric_delta=0.1)
    rows = [row(5, accuracy=0.5), row(15, accuracy=0.55)]
    assert early.reason(rows, ALL)
    assert not early.reason([*rows, row(12, accuracy=0.7)], ALL)
    assert early.reason([*rows, row(12, accuracy=0.7) | {"split": "test"}], ALL)
    assert early.reason([*rows, {"kind": "train", "step": 12, "loss": 0.1}], ALL)
    assert not early.reason([row(5, accuracy="nan"), row(15, accuracy=0.5)], ALL)
    assert not EarlyStopping(steps=11, metric="accuracy").reason(rows, ALL)


def test_it_is_read_of_what_a_run_keeps():
    kept = {"eval_early_stopping_steps": "7", "eval_early_stopping_metric": "bleu"}
    assert EarlyStopping.of_options(kept) == EarlyStopping(steps=7, metric="bleu")
    kept |= {"eval_early_stopping_metric_delta": "0.25", "eval_use_test_set": "True"}
    expected = EarlyStopping(steps=7, metric="bleu", metric_delta=0.25, split="test")
    assert EarlyStopping.of_options(kept) == expected
    assert EarlyStopping.of_options({"local_eval_frequency": "9"}) is None


def test_evaluations_of_another_sample_do_not_count():
    early, some = EarlyStopping(steps=10), "100 of 900 batches"
    rows = [row(10, loss=3.0, sample=some), row(20, loss=2.9, sample=some)]
    assert not early.reason(rows, some)
    assert not early.reason([*rows, row(20, loss=3.2, sample=ALL)], some)
    assert early.reason([*rows, row(20, loss=3.2)], some)  # a run of old says no sample
    assert not early.reason([], some)
    # A run that goes on with another sample stops by that, though it has fewer.
    rows = [row(step, loss=9.0 - step, sample=some) for step in range(8)]
    rows.append(row(8, loss=3.0, sample=ALL))
    assert not early.reason(rows, ALL)
    rows += [row(18, loss=3.0, sample=ALL), row(18, loss=1.0, sample="1 of 900 batches")]
    assert early.reason(rows, ALL) and not early.reason(rows, some)


def test_early_stopping_by_bleu_goes_by_what_is_decoded():
    same, by_bleu = {"loss": 3.0, "bleu": 9.0}, EarlyStopping(steps=10, metric="bleu")
    wanted = f"{ALL}; bleu of 7 sentences"
    rows = [row(5, **same, sample=wanted), row(15, **same, sample=ALL)]
    assert EarlyStopping(steps=10).reason(rows, f"{ALL}; bleu of 5 sentences")
    assert not by_bleu.reason(rows, wanted)
    rows[1] = row(15, **same, sample="1 of 9 examples; bleu of 7 sentences")
    assert by_bleu.reason(rows, wanted)

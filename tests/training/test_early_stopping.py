import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.early_stopping import EarlyStopping, plateau


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
        ({8: 3.0, 18: float("nan")}, 10, 0.1, True, None),
        # Without a delta any gain counts, and none is none.
        ({5: 0.10, 10: 0.13, 15: 0.16}, 10, 0.0, False, None),
        ({5: 0.10, 10: 0.10, 15: 0.09}, 10, 0.0, False, 5),
        ({5: 3.0, 15: 2.999}, 10, 0.0, True, None),
        ({5: 3.0, 15: 3.0}, 10, 0.0, True, 5),
        ({5: 3.0, 15: float("nan")}, 10, 0.0, True, None),
    ],
)
def test_a_plateau_as_t2ts_rule_says(values, steps, delta, minimize, expected):
    assert plateau(values, steps, delta, minimize=minimize) == expected


def test_it_reads_the_evaluations_of_its_split():
    def row(step, value, split="dev", kind="eval"):
        return {"kind": kind, "step": step, "split": split, "accuracy": value}

    early = EarlyStopping(steps=10, metric="accuracy", metric_delta=0.1)
    rows = [row(5, 0.5), row(15, 0.55)]
    assert early.reason(rows)
    assert not early.reason([*rows, row(12, 0.7)])
    assert early.reason([*rows, row(12, 0.7, split="test")])
    assert early.reason([*rows, {"kind": "train", "step": 12, "loss": 0.1}])
    assert not early.reason([row(5, "nan"), row(15, 0.5)])
    assert not EarlyStopping(steps=11, metric="accuracy").reason(rows)


def test_evaluations_of_another_sample_do_not_count():
    def row(step, value, **sample):
        return {"kind": "eval", "step": step, "split": "dev", "loss": value, **sample}

    early, some = EarlyStopping(steps=10), {"sample": "100 of 900 batches"}
    rows = [row(10, 3.0, **some), row(20, 2.9, **some)]
    assert not early.reason(rows)
    assert not early.reason([*rows, row(20, 3.2, sample="all")])
    assert early.reason([*rows, row(20, 3.2)])  # a run of old says no sample
    assert not early.reason([])


def test_a_score_that_rises_by_little_is_not_stopped():
    scores = {10: 0.02, 20: 0.05, 30: 0.08, 40: 0.11, 50: 0.14}
    rows = [
        {"kind": "eval", "step": step, "split": "dev", "approx_bleu_score": score}
        for step, score in scores.items()
    ]
    name = "approx_bleu_score"
    assert not EarlyStopping(steps=30, metric=name).reason(rows)
    assert EarlyStopping(steps=30, metric=name, metric_delta=0.1).reason(rows) == (
        "approx_bleu_score has not got better by 0.1 for 30 steps: it was 0.0500 at step 20, the "
        "best since is 0.1400 at step 50 (0.0800 at 30, 0.1100 at 40, 0.1400 at 50; "
        "--eval_early_stopping_metric_delta=0.1)"
    )
    rows += [
        {"kind": "eval", "step": step, "split": "dev", "approx_bleu_score": 0.13}
        for step in range(60, 110, 10)
    ]
    assert EarlyStopping(steps=50, metric=name).reason(rows) == (
        "approx_bleu_score has not got better for 50 steps: it was 0.1400 at step 50, the best "
        "since is 0.1300 at step 60 (0.1300 at 60, 0.1300 at 70, 0.1300 at 80, 0.1300 at 90, "
        "0.1300 at 100; --eval_early_stopping_metric_delta=0)"
    )


def test_a_direction_against_the_metric_is_refused():
    assert EarlyStopping(steps=1, metric="loss", metric_minimize=True)
    assert EarlyStopping(steps=1, metric="accuracy", metric_minimize=False)
    message = "--noeval_early_stopping_metric_minimize: of accuracy, more is better. Received: True"
    with pytest.raises(UserError, match=message):
        EarlyStopping(steps=1, metric="accuracy", metric_minimize=True)
    message = "--eval_early_stopping_metric_minimize: of loss, less is better. Received: False"
    with pytest.raises(UserError, match=message):
        EarlyStopping(steps=1, metric_minimize=False)
    with pytest.raises(UserError, match="--eval_early_stopping_steps >= 1. Received: 0"):
        EarlyStopping(steps=0)

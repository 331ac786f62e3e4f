import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.early_stopping import EarlyStopping, plateaued


@pytest.mark.parametrize(
    "values, steps, delta, minimize, expected",
    [
        ({}, 10, 0.1, True, False),
        ({5: 3.0}, 10, 0.1, True, False),
        ({5: 3.0, 10: 3.0}, 10, 0.1, True, False),  # not old enough
        ({5: 3.0, 15: 3.0}, 10, 0.1, True, True),
        ({5: 3.0, 15: 2.9}, 10, 0.05, True, False),
        ({5: 3.0, 15: 2.9}, 10, 0.2, True, True),
        ({5: 3.0, 15: 2.9}, 10, 0.2, False, True),  # it went the other way
        ({5: 3.0, 15: 3.3}, 10, 0.2, False, False),
        ({5: 9.0, 8: 3.0, 12: 2.0, 18: 3.5}, 10, 0.1, True, False),  # 2.0 on the way is better
        ({5: 9.0, 8: 3.0, 12: 2.95, 18: 3.5}, 10, 0.1, True, True),  # from 8 on, not from 5
        ({8: 3.0, 18: float("nan")}, 10, 0.1, True, False),
    ],
)
def test_plateaued_as_t2ts_rule_says(values, steps, delta, minimize, expected):
    assert plateaued(values, steps, delta, minimize=minimize) is expected


def test_it_reads_the_evaluations_of_its_split():
    def row(step, value, split="dev", kind="eval"):
        return {"kind": kind, "step": step, "split": split, "accuracy": value}

    early = EarlyStopping(steps=10, metric="accuracy", metric_delta=0.1)
    rows = [row(5, 0.5), row(15, 0.55)]
    assert early.reached(rows)
    assert not early.reached([*rows, row(12, 0.7)])
    assert early.reached([*rows, row(12, 0.7, split="test")])
    assert early.reached([*rows, {"kind": "train", "step": 12, "loss": 0.1}])
    assert not early.reached([row(5, "nan"), row(15, 0.5)])
    assert not EarlyStopping(steps=11, metric="accuracy").reached(rows)


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

import pytest

from t2t_repro.training.early_stopping import EarlyStopping, plateau

ALL = "all 9 examples"


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
        ({8: 3.0, 18: float("nan")}, 10, 0.1, True, 8),
        ({8: 3.0, 18: float("nan")}, 10, 0.0, False, 8),
        ({8: float("nan"), 18: float("nan")}, 10, 0.0, True, 8),
        ({8: float("nan"), 18: 9.0}, 10, 0.1, True, None),
        ({8: 3.0, 13: 2.0, 18: float("nan")}, 10, 0.1, True, None),
        # Without a delta any gain counts, and none is none.
        ({5: 0.10, 10: 0.13, 15: 0.16}, 10, 0.0, False, None),
        ({5: 0.10, 10: 0.10, 15: 0.09}, 10, 0.0, False, 5),
        ({5: 3.0, 15: 2.999}, 10, 0.0, True, None),
        ({5: 3.0, 15: 3.0}, 10, 0.0, True, 5),
        ({5: 3.0, 15: float("nan")}, 10, 0.0, True, 5),
    ],
)
def test_a_plateau_as_t2ts_rule_says(values, steps, delta, minimize, expected):
    assert plateau(values, steps, delta, minimize=minimize) == expected


def test_it_reads_the_evaluations_of_its_split():
    def row(step, value, split="dev", kind="eval"):
        return {"kind": kind, "step": step, "split": split, "accuracy": value}

    early = EarlyStopping(steps=10, metric="accuracy", metric_delta=0.1)
    rows = [row(5, 0.5), row(15, 0.55)]
    assert early.reason(rows, ALL)
    assert not early.reason([*rows, row(12, 0.7)], ALL)
    assert early.reason([*rows, row(12, 0.7, split="test")], ALL)
    assert early.reason([*rows, {"kind": "train", "step": 12, "loss": 0.1}], ALL)
    assert not early.reason([row(5, "nan"), row(15, 0.5)], ALL)
    assert not EarlyStopping(steps=11, metric="accuracy").reason(rows, ALL)


def test_it_is_read_of_what_a_run_keeps():
    kept = {"eval_early_stopping_steps": "7", "eval_early_stopping_metric": "bleu"}
    assert EarlyStopping.of_options(kept) == EarlyStopping(steps=7, metric="bleu")
    kept |= {"eval_early_stopping_metric_delta": "0.25", "eval_use_test_set": "True"}
    expected = EarlyStopping(steps=7, metric="bleu", metric_delta=0.25, split="test")
    assert EarlyStopping.of_options(kept) == expected
    assert EarlyStopping.of_options({"local_eval_frequency": "9"}) is None


def test_evaluations_of_another_sample_do_not_count():
    def row(step, value, **sample):
        return {"kind": "eval", "step": step, "split": "dev", "loss": value, **sample}

    early, some = EarlyStopping(steps=10), "100 of 900 batches"
    rows = [row(10, 3.0, sample=some), row(20, 2.9, sample=some)]
    assert not early.reason(rows, some)
    assert not early.reason([*rows, row(20, 3.2, sample=ALL)], some)
    assert early.reason([*rows, row(20, 3.2)], some)  # a run of old says no sample
    assert not early.reason([], some)
    # A run that goes on with another sample stops by that, though it has fewer.
    rows = [*(row(step, 9.0 - step, sample=some) for step in range(8)), row(8, 3.0, sample=ALL)]
    assert not early.reason(rows, ALL)
    rows += [row(18, 3.0, sample=ALL), row(18, 1.0, sample="1 of 900 batches")]
    assert early.reason(rows, ALL) and not early.reason(rows, some)


def test_what_is_decoded_is_a_sample_of_its_own():
    def row(step, loss, bleu, sample):
        return {"kind": "eval", "step": step, "split": "dev", "sample": sample} | {
            "loss": loss, "bleu": bleu
        }  # fmt: skip

    rows = [row(5, 3.0, 9.0, f"{ALL}; bleu of 7 sentences"), row(15, 3.0, 9.0, ALL)]
    assert EarlyStopping(steps=10).reason(rows, f"{ALL}; bleu of 5 sentences")
    by_bleu = EarlyStopping(steps=10, metric="bleu")
    assert not by_bleu.reason(rows, f"{ALL}; bleu of 7 sentences")
    rows[1] = row(15, 3.0, 9.0, "1 of 9 examples; bleu of 7 sentences")
    assert by_bleu.reason(rows, f"{ALL}; bleu of 7 sentences")

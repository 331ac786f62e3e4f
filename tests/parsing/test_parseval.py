import json
import pathlib

import pytest

from t2t_repro.parsing import parseval

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "text" / "parseval.json").read_text("utf-8")
)
GOLD = "(TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))"
GO = "(TOP (VP (VB go) (PRT (RP on)) (NP (-NONE- *))))"
ABC, CROSSING = "(TOP (S (X (A a) (B b)) (C c)))", "3 0 50 50 1 2 2 1 3 3"


@pytest.fixture(scope="module")
def result():
    return parseval.score(GOLDEN["gold"], GOLDEN["predicted"])


def test_every_sentence_equals_evalb(result):
    assert len(result["sentences"]) == len(GOLDEN["sentences"]) == 300
    for ours, evalb in zip(result["sentences"], GOLDEN["sentences"], strict=True):
        assert {key: round(ours[key], 2) for key in evalb} == evalb


@pytest.mark.parametrize(("ours", "evalb"), [("all", "All"), ("len<=40", "len<=40")])
def test_the_summary_equals_evalb(result, ours, evalb):
    names = {
        "sentences": "Number of sentence",
        "error_sentences": "Number of Error sentence",
        "skipped_sentences": "Number of Skip  sentence",
        "valid_sentences": "Number of Valid sentence",
        "recall": "Bracketing Recall",
        "precision": "Bracketing Precision",
        "f1": "Bracketing FMeasure",
        "exact_match": "Complete match",
        "average_crossing": "Average crossing",
        "no_crossing": "No crossing",
        "two_or_less_crossing": "2 or less crossing",
        "tagging_accuracy": "Tagging accuracy",
    }
    assert set(names.values()) == set(GOLDEN["summary"][evalb])
    for name, evalb_name in names.items():
        assert round(result[ours][name], 2) == GOLDEN["summary"][evalb][evalb_name], name


# What EVALB, built from its C source, prints for these: length status recall precision matched
# gold test crossing words tags.
@pytest.mark.parametrize(
    ("gold", "predicted", "evalb"),
    [
        # a perfect one; TOP, punctuation and what stands behind - or = do not count
        (GOLD, "(TOP (S-1 (NP-SBJ (PRP It)) (VP=2 (VBZ works)) (. .)))", "3 0 100 100 3 3 3 0 2 2"),
        # an empty label counts, as it does in EVALB
        (GOLD, GOLD.replace("TOP", ""), "3 0 100 75 3 3 4 0 2 2"),
        # ADVP and PRT are the same, traces are neither words nor length
        (GO, "(TOP (VP (VB go) (ADVP (RB on))))", "2 0 100 100 2 2 2 0 2 1"),
        # the same span twice
        ("(TOP (NP (NP (NN a))))", "(TOP (NP (NN a)))", "1 0 50 100 1 2 1 0 1 1"),
        # crossing brackets, counted in the prediction
        (ABC, ABC.replace("(X (A a) (B b)) (C c)", "(A a) (Y (B b) (C c))"), CROSSING),
        # another word; one word too many; none at all
        (GOLD, GOLD.replace("works", "work"), "3 1 0 0 0 0 0 0 0 0"),
        (GOLD, GOLD.replace("(. .)", "(SYM .)"), "3 1 0 0 0 0 0 0 0 0"),
        (GOLD, "(())", "3 2 0 0 0 0 0 0 0 0"),
        (GOLD, "", "3 2 0 0 0 0 0 0 0 0"),
        (GOLD, "(TOP (. .))", "3 2 0 0 0 0 0 0 0 0"),
    ],
)
def test_special_cases_equal_evalb(gold, predicted, evalb):
    (row,) = parseval.score([gold], [predicted])["sentences"]
    keys = "length status recall precision matched gold_brackets test_brackets crossing words "
    keys += "correct_tags"
    assert [row[key] for key in keys.split()] == [float(value) for value in evalb.split()]
    assert bool(row["reason"]) == (row["status"] != parseval.VALID)


def test_errors_are_left_out_of_every_score():
    result = parseval.score([GOLD, GOLD], [GOLD, "(TOP (X (A a)))"])["all"]
    assert (result["f1"], result["exact_match"], result["tagging_accuracy"]) == (100, 100, 100)
    assert (result["sentences"], result["valid_sentences"], result["error_sentences"]) == (2, 1, 1)


def test_nothing_valid_scores_zero():
    result = parseval.score([GOLD], [""], cutoff=2)
    assert result["all"]["f1"] == result["all"]["exact_match"] == 0
    assert result["len<=2"]["sentences"] == 0

"""Labelled bracketing of parse trees, equal to EVALB with COLLINS.prm.

What EVALB and its COLLINS.prm do, and this module does too: brackets labelled TOP do not count;
words tagged as punctuation or traces are taken out of the sentence (and brackets left without a
word with them); of a phrase label only what stands before "-" or "=" counts; ADVP and PRT are the
same label. A sentence whose words differ from the gold tree's, after that, is an error: it is
counted, and left out of every score. A prediction without a word is skipped likewise.
"""

import re
from collections import Counter
from collections.abc import Sequence

from t2t_repro.parsing import trees

DELETED_LABELS = frozenset(["TOP", trees.TRACE, ",", ":", "``", "''", "."])
SAME_LABEL = {"PRT": "ADVP"}  # what counts as another
VALID, ERROR, SKIPPED = 0, 1, 2  # the status of a sentence, as EVALB prints it


# (label, start, end) of a phrase over the words from `start` up to, without, `end`; deleted words
# do not count.
Bracket = tuple[str, int, int]


def score(
    gold_trees: Sequence[str],
    predicted_trees: Sequence[str],
    *,
    cutoff: int = 40,
    names: tuple[str, str] = ("gold trees", "predicted trees"),
) -> dict:
    """Scores predicted trees against gold trees, both as bracketed strings.

    Args:
        gold_trees: one tree for each sentence.
        predicted_trees: as many; an empty string, or brackets without a word, is skipped.
        cutoff: sentences up to this many words (without traces) also have sums of their own.
        names: what messages call the gold trees and the predicted ones, such as files' names.

    Returns:
        {"all": sums, "len<=40": sums, "sentences": [row, ...]}. The sums hold precision, recall,
        f1, exact_match, tagging_accuracy, no_crossing and two_or_less_crossing in percent,
        average_crossing, and counts; each row has EVALB's columns, f1, and for an error its reason.
    """
    rows = []
    for number, (gold, predicted) in enumerate(zip(gold_trees, predicted_trees, strict=True), 1):
        gold_tree = trees.parse(gold, f"{names[0]}, line {number}")
        where = f"{names[1]}, line {number}"
        has_tree = bool(predicted.strip(" \t()"))
        predicted_tree = trees.parse(predicted, where) if has_tree else trees.Tree("")
        rows.append({"id": number, **sentence_score(gold_tree, predicted_tree)})
    return {
        "all": _sum_up(rows),
        f"len<={cutoff}": _sum_up([row for row in rows if row["length"] <= cutoff]),
        "sentences": rows,
    }


def sentence_score(gold: trees.Tree, predicted: trees.Tree) -> dict:
    """Returns EVALB's columns for one sentence; all scores are 0 unless it is valid."""
    gold_words, gold_brackets = words_and_brackets(gold)
    test_words, test_brackets = words_and_brackets(predicted)
    length = len(gold.leaves_without_traces())
    status, reason = _status(gold_words, test_words)
    if status != VALID:
        gold_words, gold_brackets, test_words, test_brackets = [], [], [], []
    matched = (Counter(gold_brackets) & Counter(test_brackets)).total()
    correct_tags = sum(g == t for (_, g), (_, t) in zip(gold_words, test_words, strict=True))
    return {
        "length": length,
        "status": status,
        "reason": reason,
        **_bracket_scores(matched, len(gold_brackets), len(test_brackets)),
        "matched": matched,
        "gold_brackets": len(gold_brackets),
        "test_brackets": len(test_brackets),
        "crossing": sum(any(_cross(g, t) for g in gold_brackets) for t in test_brackets),
        "words": len(gold_words),
        "correct_tags": correct_tags,
        "tagging_accuracy": _percent(correct_tags, len(gold_words)),
    }


def words_and_brackets(tree: trees.Tree) -> tuple[list[tuple[str, str]], list[Bracket]]:
    """Returns the (word, tag) pairs and the brackets that count."""
    words: list[tuple[str, str]] = []
    brackets: list[Bracket] = []
    starts: list[int] = []
    for node, opens in tree.walk():
        if node.word is not None:
            if opens and node.label not in DELETED_LABELS:
                words.append((node.word, SAME_LABEL.get(node.label, node.label)))
        elif opens:
            starts.append(len(words))
        else:
            start, label = starts.pop(), re.split("[-=]", node.label)[0]
            label = SAME_LABEL.get(label, label)
            if start < len(words) and label not in DELETED_LABELS:
                brackets.append((label, start, len(words)))
    return words, brackets


def _status(gold: list[tuple[str, str]], test: list[tuple[str, str]]) -> tuple[int, str]:
    if not test:
        return SKIPPED, "no words predicted"
    if len(gold) != len(test):
        return ERROR, f"{len(gold)} words in gold, {len(test)} in predicted (without punctuation)"
    for (gold_word, _), (test_word, _) in zip(gold, test, strict=True):
        if gold_word != test_word:
            return ERROR, f"the word {gold_word!r} in gold is {test_word!r} in predicted"
    return VALID, ""


def _cross(one: Bracket, other: Bracket) -> bool:
    (_, a, b), (_, c, d) = one, other
    return a < c < b < d or c < a < d < b


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


def _bracket_scores(matched: int, gold: int, test: int) -> dict[str, float]:
    return {
        "recall": _percent(matched, gold),
        "precision": _percent(matched, test),
        "f1": _percent(2 * matched, gold + test),
    }


def _sum_up(rows: list[dict]) -> dict[str, float]:
    valid = [row for row in rows if row["status"] == VALID]

    def total(key: str) -> int:
        return sum(row[key] for row in valid)

    def share(holds) -> float:
        return _percent(sum(map(holds, valid)), len(valid))

    return {
        **_bracket_scores(total("matched"), total("gold_brackets"), total("test_brackets")),
        "exact_match": share(
            lambda row: row["matched"] == row["gold_brackets"] == row["test_brackets"]
        ),
        "tagging_accuracy": _percent(total("correct_tags"), total("words")),
        "average_crossing": total("crossing") / len(valid) if valid else 0.0,
        "no_crossing": share(lambda row: row["crossing"] == 0),
        "two_or_less_crossing": share(lambda row: row["crossing"] <= 2),
        "sentences": len(rows),
        "valid_sentences": len(valid),
        "error_sentences": sum(row["status"] == ERROR for row in rows),
        "skipped_sentences": sum(row["status"] == SKIPPED for row in rows),
        **{k: total(k) for k in ("matched", "gold_brackets", "test_brackets", "crossing")},
        **{k: total(k) for k in ("words", "correct_tags")},
    }

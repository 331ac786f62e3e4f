"""Scores of a file of predicted trees, or of the tags that a parser wrote."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.parsing import parseval, trees
from t2t_repro.text import raw


def score_files(
    gold: str | Path,
    predicted: str | Path,
    *,
    tags: bool = False,
    gold_parts_of_speech: bool = True,
    cutoff: int = 40,
) -> tuple[dict, list[str], list[str]]:
    """Returns `parseval.score`'s result of two files, the gold trees and the predicted trees.

    Args:
        gold: the file of gold trees.
        predicted: the file of predicted trees, or of predicted linearised tags.
        tags: whether it is tags; the result then has "repairs": for how many sentences the tags
            were no tree, and what was changed.
        gold_parts_of_speech: write the gold parts of speech at the leaves; of predicted trees, at
            those of trees over the very words of the gold tree. Traces (-NONE-) are no words.
        cutoff: see `parseval.score`.
    """
    pairs = list(raw.parallel_lines(gold, predicted, may_be_blank=True))
    gold_trees = [pair["inputs"] for pair in pairs]
    predicted_trees = [pair["targets"] for pair in pairs]
    repairs: dict[str, int] = {}
    if tags or gold_parts_of_speech:
        parsed = [trees.parse(line, f"{gold}, line {n}") for n, line in enumerate(gold_trees, 1)]
    if tags:
        _check_tags(predicted_trees, predicted)
        predicted_trees, repairs = trees_of_tags(parsed, predicted_trees, gold_parts_of_speech)
    elif gold_parts_of_speech:
        predicted_trees = [
            with_parts_of_speech(tree, line, f"{predicted}, line {n}")
            for n, (tree, line) in enumerate(zip(parsed, predicted_trees, strict=True), 1)
        ]
    result = parseval.score(
        gold_trees,
        predicted_trees,
        cutoff=cutoff,
        gold_name=str(gold),
        predicted_name=str(predicted),
    )
    if tags:
        result["repairs"] = repairs
    return result, gold_trees, predicted_trees


def _check_tags(lines: Sequence[str], file: str | Path) -> None:
    """Refuses a file of trees, as t2t-decoder writes them, in the place of one of tags."""
    begin = {line.lstrip()[0] for line in lines if line.strip()}
    if begin == {"("}:
        raise UserError(
            f"Expected linearised tags, such as S NP PRP /NP /S, in {file}. Received: bracketed "
            "trees. Give the file by --predicted."
        )


def with_parts_of_speech(gold: trees.Tree, predicted: str, where: str) -> str:
    """Returns a predicted tree with the gold parts of speech, if it is over the same words."""
    if not predicted.strip(" \t()"):  # which the scores skip
        return predicted
    tree = trees.parse(predicted, where)
    leaves, gold_leaves = tree.leaves_without_traces(), gold.leaves_without_traces()
    if [leaf.word for leaf in leaves] == [leaf.word for leaf in gold_leaves]:
        for leaf, right in zip(leaves, gold_leaves, strict=True):
            leaf.label = right.label
    return str(tree)


def trees_of_tags(
    gold: Sequence[trees.Tree], tags: Sequence[str], gold_parts_of_speech: bool
) -> tuple[list[str], dict[str, int]]:
    """Returns the trees that predicted tags give the gold words, and what had to be repaired."""
    built, phrase_labels = [], trees.phrase_labels_of(gold)
    counts = {"sentences": 0, **dataclasses.asdict(trees.Repairs())}
    for tree, line in zip(gold, tags, strict=True):
        leaves = tree.leaves_without_traces()
        made, repairs = trees.tree_from_words_and_tags(
            [leaf.word for leaf in leaves if leaf.word is not None],
            line,
            [leaf.label for leaf in leaves] if gold_parts_of_speech else None,
            phrase_labels,
        )
        built.append(str(made))
        counts["sentences"] += repairs.total > 0
        for name, count in dataclasses.asdict(repairs).items():
            counts[name] += count
    return built, counts

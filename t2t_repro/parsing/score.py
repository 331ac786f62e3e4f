"""Scores parse trees: labelled bracketing, equal to EVALB with COLLINS.prm.

Trees against trees, one bracketed tree a line, as t2t-decoder writes them:
    python -m t2t_repro.parsing.score --gold=wsj.test.trees --predicted=parser.trees
The linearised tags that a model decodes (raw_output=True), as trees over the gold words:
    python -m t2t_repro.parsing.score --gold=wsj.test.trees --predicted_tags=decoded.txt

Sentences whose words differ from the gold tree's are errors: counted, but left out of the scores.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.files import check_outputs, write_json, write_text_atomic
from t2t_repro.parsing import parseval, trees
from t2t_repro.parsing.reader import TreeReader
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
    if tags or gold_parts_of_speech:
        parsed = [trees.parse(line, f"{gold}, line {n}") for n, line in enumerate(gold_trees, 1)]
    if tags:
        reader = TreeReader(trees.phrase_labels_of(parsed))
        for n, tree in enumerate(parsed):
            leaves = tree.leaves_without_traces()
            labels = [leaf.label for leaf in leaves] if gold_parts_of_speech else None
            words = " ".join(str(leaf.word) for leaf in leaves)
            predicted_trees[n] = reader.read(words, predicted_trees[n], labels)
    elif gold_parts_of_speech:
        predicted_trees = [
            with_parts_of_speech(tree, line, f"{predicted}, line {n}")
            for n, (tree, line) in enumerate(zip(parsed, predicted_trees, strict=True), 1)
        ]
    names = (str(gold), str(predicted))
    result = parseval.score(gold_trees, predicted_trees, cutoff=cutoff, names=names)
    if tags:
        result["repairs"] = {"sentences": reader.repaired, **reader.repairs}
    return result, gold_trees, predicted_trees


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


def print_summary(result: dict) -> None:
    """Prints the sums over all sentences and over the short ones, side by side."""
    sums = {name: value for name, value in result.items() if name not in ("sentences", "repairs")}
    print(" " * 22 + "".join(f"{name:>10}" for name in sums))
    for key in sums["all"]:
        values = (part[key] for part in sums.values())
        cells = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)
        print(f"{key:22}" + "".join(f"{cell:>10}" for cell in cells))
    if repairs := result.get("repairs"):
        print("repaired:", ", ".join(f"{name} {count}" for name, count in repairs.items()))


def print_worst(
    result: dict, gold_trees: Sequence[str], predicted_trees: Sequence[str], count: int
) -> None:
    """Prints the sentences of the lowest F1, gold and predicted; those that are errors first."""
    rows = [row for row in result["sentences"] if row["f1"] < 100]
    for row in sorted(rows, key=lambda row: (row["f1"], row["id"]))[:count]:
        print(f"sentence {row['id']}: F1 {row['f1']:.2f}; {row['reason']}".rstrip("; "))
        print(f"  gold       {gold_trees[row['id'] - 1]}")
        print(f"  predicted  {predicted_trees[row['id'] - 1]}")


def main(argv: Sequence[str]) -> None:
    """Scores the files that the flags name."""
    form = argparse.RawDescriptionHelpFormatter
    name = "python -m t2t_repro.parsing.score"
    parser = argparse.ArgumentParser(name, description=__doc__, formatter_class=form)
    parser.add_argument("--gold", required=True, help="A file of the gold trees, one a line.")
    predicted = parser.add_mutually_exclusive_group(required=True)
    predicted.add_argument("--predicted", help="A file: per line, one predicted tree or nothing.")
    predicted.add_argument("--predicted_tags", help="A file of tags, decoded with raw_output=True.")
    parser.add_argument("--json_file", help="A JSON file to write all scores to.")
    parser.add_argument("--trees_file", help="A file to write the predicted trees to.")
    parser.add_argument(
        "--gold_parts_of_speech",
        action=argparse.BooleanOptionalAction,
        help="Replace predicted parts of speech by the gold ones: EVALB takes a comma tagged as a "
        "noun for a word, so the sentence is an error. Default: only with --predicted_tags.",
    )
    parser.add_argument("--cutoff", type=int, default=40, help="Also score trees <= CUTOFF words.")
    parser.add_argument("--worst", type=int, default=3, help="Print this many of the worst trees.")
    names = [arg.partition("=")[0] for arg in argv if arg.startswith("--")]
    if len(names) > len(set(names)):
        parser.error(f"expected each flag once. Received: {' '.join(names)}.")
    args = parser.parse_args(argv)
    tags, gold_leaves = args.predicted is None, args.gold_parts_of_speech
    predicted_file = args.predicted_tags if tags else args.predicted
    written = {f"--{n}": getattr(args, n) for n in ("json_file", "trees_file")}
    try:
        check_outputs(written, {"--gold": args.gold, "the predictions": predicted_file})
        result, gold_trees, predicted_trees = score_files(
            args.gold,
            predicted_file,
            tags=tags,
            gold_parts_of_speech=tags if gold_leaves is None else gold_leaves,
            cutoff=args.cutoff,
        )
        if args.trees_file is not None:
            write_text_atomic(args.trees_file, "".join(f"{tree}\n" for tree in predicted_trees))
        if args.json_file is not None:
            write_json(args.json_file, result, ensure_ascii=False)
    except (UserError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    print_worst(result, gold_trees, predicted_trees, args.worst)
    print_summary(result)


if __name__ == "__main__":
    main(sys.argv[1:])

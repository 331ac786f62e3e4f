"""Scores parse trees: labelled bracketing, equal to EVALB with COLLINS.prm.

Trees against trees, one bracketed tree a line, as t2t-decoder writes them:
    python -m t2t_repro.parsing.score --gold=wsj.test.trees --predicted=parser.trees
The linearised tags that a model decodes (raw_output=True), as trees over the gold words:
    python -m t2t_repro.parsing.score --gold=wsj.test.trees --predicted_tags=decoded.txt

Sentences whose words differ from the gold tree's are errors: counted, but left out of the scores.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.files import check_outputs, write_csv, write_text_atomic
from t2t_repro.parsing import parseval, trees
from t2t_repro.text import raw

_LABELS = {  # in EVALB's order
    "recall": "bracketing recall",
    "precision": "bracketing precision",
    "f1": "bracketing F1",
    "exact_match": "complete match",
    "average_crossing": "average crossing",
    "no_crossing": "no crossing",
    "two_or_less_crossing": "2 or less crossing",
    "tagging_accuracy": "tagging accuracy",
    "sentences": "sentences",
    "valid_sentences": "valid sentences",
    "error_sentences": "error sentences",
    "skipped_sentences": "skipped sentences",
}
_MOST_ERRORS = 10  # that are listed in the terminal


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


def print_summary(result: dict) -> None:
    """Prints the sums over all sentences and over the short ones, side by side."""
    from rich import console, table

    sums = {name: value for name, value in result.items() if name not in ("sentences", "repairs")}
    rows = table.Table("", *sums)
    for column in rows.columns[1:]:
        column.justify = "right"
    for key, label in _LABELS.items():
        values = [part[key] for part in sums.values()]
        style = "bold" if key == "f1" else "red" if key == "error_sentences" and any(values) else ""
        cells = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)
        rows.add_row(label, *cells, style=style)
    out = console.Console()
    out.print(rows)
    if "repairs" in result:
        changes = dict(result["repairs"])
        repaired = changes.pop("sentences")
        listed = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in changes.items())
        out.print(f"repaired {repaired} of {sums['all']['sentences']} predictions ({listed})")


def print_worst(
    result: dict, gold_trees: Sequence[str], predicted_trees: Sequence[str], count: int
) -> None:
    """Prints the sentences of the lowest F1, gold and predicted side by side; then the errors."""
    from rich import console, table

    out = console.Console()
    valid = [row for row in result["sentences"] if row["status"] == parseval.VALID]
    worst = sorted(valid, key=lambda row: (row["f1"], row["id"]))[:count]
    for row in (row for row in worst if row["f1"] < 100):
        gold = trees.parse(gold_trees[row["id"] - 1])
        predicted = trees.parse(predicted_trees[row["id"] - 1])
        in_gold, in_predicted = parseval.matched_nodes(gold, predicted)
        sides = table.Table(
            "gold ([red]- missed[/red])",
            "predicted ([yellow]+ not in gold[/yellow])",
            title=f"sentence {row['id']}: F1 {row['f1']:.2f}",
            title_justify="left",
            expand=True,
        )
        sides.add_row(
            _drawing(gold, in_gold, "red", "-"), _drawing(predicted, in_predicted, "yellow", "+")
        )
        out.print(sides)
    invalid = [row for row in result["sentences"] if row["status"] != parseval.VALID]
    for row in invalid[:_MOST_ERRORS]:
        kind = "error" if row["status"] == parseval.ERROR else "skipped"
        out.print(f"sentence {row['id']}: {kind}: {row['reason']}", style="red", markup=False)
    if len(invalid) > _MOST_ERRORS:
        out.print(f"... and {len(invalid) - _MOST_ERRORS} more, in --csv_file", style="red")


def _drawing(tree: trees.Tree, matched: dict[int, bool], colour: str, mark: str):
    """Returns the tree as indented lines; a bracket that the other tree lacks has a mark.

    What does not fit on a line goes on below it, as far in.
    """
    from rich import console, table, text

    lines: list[table.Table] = []
    line, depth, closed = text.Text(), 0, False
    for node, opens in tree.walk():
        if node.word is None and not opens:
            depth -= 1
            closed = True
            continue
        counts = id(node) in matched
        wrong = counts and not matched[id(node)]
        if closed or node.word is None:
            lead, line = f"{mark if wrong else ' '} {'  ' * depth}", text.Text()
            row = table.Table.grid()
            row.add_column(width=len(lead), no_wrap=True)
            row.add_column()
            row.add_row(text.Text(lead, style=colour), line)
            lines.append(row)
        if node.word is None:
            line.append(
                node.label, style=f"bold {colour}" if wrong else "green" if counts else "dim"
            )
            depth += 1
        elif opens:
            line.append(f" {node.label} " if not closed else f"{node.label} ", style="dim")
            line.append(node.word)
        closed = False
    return console.Group(*lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Scores the files that the flags name."""
    parser = argparse.ArgumentParser(
        prog="python -m t2t_repro.parsing.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--gold", required=True, help="The gold trees, one a line.")
    predicted = parser.add_mutually_exclusive_group(required=True)
    text = "The predicted trees, one a line; an empty line where there is none."
    predicted.add_argument("--predicted", help=text)
    text = "Instead of --predicted: linearised tags, as a model decodes them."
    predicted.add_argument("--predicted_tags", help=text)
    parser.add_argument("--json_file", help="Where to write everything as JSON.")
    parser.add_argument("--csv_file", help="Where to write a line for each sentence.")
    parser.add_argument("--trees_file", help="Where to write the trees that were scored.")
    parser.add_argument(
        "--gold_parts_of_speech",
        action=argparse.BooleanOptionalAction,
        help="The leaves get the gold parts of speech. EVALB tells punctuation by them, and a "
        "comma tagged as a noun makes its sentence an error. Default: with --predicted_tags.",
    )
    text = "Sum up sentences of so many words apart."
    parser.add_argument("--cutoff", type=int, default=40, help=text)
    text = "How many of the worst sentences to draw."
    parser.add_argument("--worst", type=int, default=3, help=text)
    args = parser.parse_args(argv)
    tags = args.predicted is None
    written, read = ("json_file", "csv_file", "trees_file"), ("gold", "predicted", "predicted_tags")
    try:
        of = ({f"--{name}": getattr(args, name) for name in names} for names in (written, read))
        check_outputs(*of)
        result, gold_trees, predicted_trees = score_files(
            args.gold,
            args.predicted_tags if tags else args.predicted,
            tags=tags,
            gold_parts_of_speech=(
                tags if args.gold_parts_of_speech is None else args.gold_parts_of_speech
            ),
            cutoff=args.cutoff,
        )
        if args.trees_file is not None:
            write_text_atomic(args.trees_file, "".join(f"{tree}\n" for tree in predicted_trees))
        if args.json_file is not None:
            found = json.dumps(result, indent=2, ensure_ascii=False)
            write_text_atomic(args.json_file, found + "\n")
        if args.csv_file is not None:
            write_csv(args.csv_file, result["sentences"], end="\r\n")
    except (UserError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    print_worst(result, gold_trees, predicted_trees, args.worst)
    print_summary(result)


if __name__ == "__main__":
    main()

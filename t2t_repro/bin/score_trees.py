"""Scores parse trees: labelled bracketing, equal to EVALB with COLLINS.prm.

Trees against trees, one bracketed tree a line, as t2t-decoder writes them:
    t2t-score-trees --gold=wsj.test.trees --predicted=parser.trees
The linearised tags that a model decodes (raw_output=True), as trees over the gold words:
    t2t-score-trees --gold=wsj.test.trees --predicted_tags=decoded.txt

Sentences whose words differ from the gold tree's are errors: counted, but left out of the scores.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.files import write_csv, write_text_atomic
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
            those of trees over the very words of the gold tree.
        cutoff: see `parseval.score`.
    """
    pairs = list(raw.parallel_lines(gold, predicted, may_be_blank=True))
    gold_trees = [pair["inputs"] for pair in pairs]
    predicted_trees = [pair["targets"] for pair in pairs]
    repairs: dict[str, int] = {}
    if tags or gold_parts_of_speech:
        parsed = [trees.parse(line, f"{gold}, line {n}") for n, line in enumerate(gold_trees, 1)]
    if tags:
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


def with_parts_of_speech(gold: trees.Tree, predicted: str, where: str) -> str:
    """Returns a predicted tree with the gold parts of speech, if it is over the same words."""
    if not predicted:
        return predicted
    tree = trees.parse(predicted, where)
    if tree.words() == gold.words():
        for leaf, right in zip(tree.leaves(), gold.leaves(), strict=True):
            leaf.label = right.label
    return str(tree)


def trees_of_tags(
    gold: Sequence[trees.Tree], tags: Sequence[str], gold_parts_of_speech: bool
) -> tuple[list[str], dict[str, int]]:
    """Returns the trees that predicted tags give the gold words, and what had to be repaired."""
    built = []
    counts = {"sentences": 0, **dataclasses.asdict(trees.Repairs())}
    for tree, line in zip(gold, tags, strict=True):
        parts_of_speech = [leaf.label for leaf in tree.leaves()]
        made, repairs = trees.tree_from_words_and_tags(
            tree.words(), line, parts_of_speech if gold_parts_of_speech else None
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
    """Returns the tree as indented lines; a bracket that the other tree lacks has a mark."""
    from rich import text

    drawing, depth, closed = text.Text(), 0, False
    for node, opens in tree.walk():
        if node.word is None and not opens:
            depth -= 1
            closed = True
            continue
        counts = id(node) in matched
        wrong = counts and not matched[id(node)]
        if closed or node.word is None:
            lead = "\n" if drawing else ""
            drawing.append(f"{lead}{mark if wrong else ' '} {'  ' * depth}", style=colour)
        if node.word is None:
            drawing.append(
                node.label, style=f"bold {colour}" if wrong else "green" if counts else "dim"
            )
            depth += 1
        elif opens:
            drawing.append(f" {node.label} " if not closed else f"{node.label} ", style="dim")
            drawing.append(node.word)
        closed = False
    return drawing


def define_flags(f: flags.FlagValues) -> None:
    for name, text in {
        "gold": "The gold trees, one a line.",
        "predicted": "The predicted trees, one a line; an empty line where there is none.",
        "predicted_tags": "Instead of --predicted: linearised tags, as a model decodes them.",
        "json_file": "Where to write everything as JSON.",
        "csv_file": "Where to write a line for each sentence.",
        "trees_file": "Where to write the trees made of --predicted_tags.",
    }.items():
        flags.DEFINE_string(name, None, text, flag_values=f)
    flags.DEFINE_bool(
        "gold_parts_of_speech",
        None,
        "The leaves get the gold parts of speech. EVALB tells punctuation by them, and a comma "
        "tagged as a noun makes its sentence an error. Default: yes with --predicted_tags, no with "
        "--predicted.",
        flag_values=f,
    )
    flags.DEFINE_integer(
        "cutoff", 40, "Sum up sentences of so many words apart.", lower_bound=1, flag_values=f
    )
    flags.DEFINE_integer(
        "worst", 3, "How many of the worst sentences to draw.", lower_bound=0, flag_values=f
    )


def main(args: flags.FlagValues) -> None:
    if args.gold is None:
        raise UserError("Expected --gold=FILE, the gold trees. Received: none.")
    if (args.predicted is None) == (args.predicted_tags is None):
        received = "neither" if args.predicted is None else "both"
        raise UserError(
            f"Expected one of --predicted=FILE and --predicted_tags=FILE. Received: {received}."
        )
    cli.check_needs(args, {"trees_file": "predicted_tags"})
    gold_parts_of_speech = args.gold_parts_of_speech
    if gold_parts_of_speech is None:
        gold_parts_of_speech = args.predicted is None
    result, gold_trees, predicted_trees = score_files(
        args.gold,
        args.predicted or args.predicted_tags,
        tags=args.predicted is None,
        gold_parts_of_speech=gold_parts_of_speech,
        cutoff=args.cutoff,
    )
    if args.trees_file is not None:
        write_text_atomic(args.trees_file, "".join(f"{tree}\n" for tree in predicted_trees))
    if args.json_file is not None:
        text = json.dumps(result, indent=2, ensure_ascii=False)
        write_text_atomic(args.json_file, text + "\n")
    if args.csv_file is not None:
        write_csv(args.csv_file, result["sentences"], end="\r\n")
    print_worst(result, gold_trees, predicted_trees, args.worst)
    print_summary(result)


console = cli.program(__name__, "t2t-score-trees", __doc__, define_flags, main)

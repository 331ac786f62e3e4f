"""Scores parse trees: labelled bracketing, equal to EVALB with COLLINS.prm.

Trees against trees, one bracketed tree a line, as t2t-decoder writes them:
    t2t-score-trees --gold=wsj.test.trees --predicted=parser.trees
The linearised tags that a model decodes (raw_output=True), as trees over the gold words:
    t2t-score-trees --gold=wsj.test.trees --predicted_tags=decoded.txt

Sentences whose words differ from the gold tree's are errors: counted, but left out of the scores.
"""

import json

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.files import write_csv, write_text_atomic
from t2t_repro.outputs import check_outputs
from t2t_repro.parsing import files
from t2t_repro.views import tree_scores


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
    written, read = ("json_file", "csv_file", "trees_file"), ("gold", "predicted", "predicted_tags")
    check_outputs(*({f"--{name}": args[name].value for name in names} for names in (written, read)))
    gold_parts_of_speech = args.gold_parts_of_speech
    if gold_parts_of_speech is None:
        gold_parts_of_speech = args.predicted is None
    result, gold_trees, predicted_trees = files.score_files(
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
    tree_scores.print_worst(result, gold_trees, predicted_trees, args.worst)
    tree_scores.print_summary(result)


console = cli.program(__name__, "t2t-score-trees", __doc__, define_flags, main)

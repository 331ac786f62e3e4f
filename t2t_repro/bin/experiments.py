"""t2t-experiments: what the paper and its lecturers argue, checked in seconds to minutes.

  t2t-experiments positions --output_dir=out
  t2t-experiments attention_scores --output_dir=out

Each writes NAME.png, a picture, NAME.csv, the numbers, and NAME.txt, two sentences that are made
from the numbers by fixed rules and say so where the numbers do not support the claim. positions
has a second part, whose files are called extrapolation, and attention_scores has two, score_costs
and score_learning. distance and agreement keep each training in NAME.trainings.json, and go on
behind the last.

  positions         PE(pos + k) is a linear function of PE(pos), and positions beyond the training
                    length: sinusoidal, learned, relative (section 3.5)
  attention_scores  dot products grow with their width, and starve the softmax of gradient; what
                    additive attention costs; and what models learn with each (3.2.1)
  memory            attention in blocks does not need the square of the length in memory
  layer_types       table 1: how time and memory of a layer grow with its length and width
  residuals         residuals carry the positions to all layers (the authors' lecture)
  distance          what lies far apart is learned where the path is short (section 4, table 1)
  agreement         one head confuses subject and object, several do not (3.2.2, the lecture)
  channel           label smoothing hurts perplexity and helps BLEU (5.4), learned positions are as
                    good as sinusoids (table 3, E)
  order             without positions a layer of attention does not know the order (3.5)
  warmup            post-norm needs a warm-up of the learning rate, pre-norm does not
"""

import importlib
from pathlib import Path

from absl import flags

from t2t_repro import cli, errors
from t2t_repro.errors import UserError
from t2t_repro.outputs import check_room

# The parts of each experiment: its files are called by the name, and made by a function of
# t2t_repro/studies/ that returns an experiments.result.Result.
EXPERIMENTS = {
    "positions": {
        "positions": "experiments.positions:run",
        "extrapolation": "experiments.extrapolation:run",
    },
    "attention_scores": {
        "attention_scores": "experiments.attention_scores:run",
        "score_costs": "experiments.score_costs:run",
        "score_learning": "experiments.score_learning:run",
    },
    "memory": {"memory": "experiments.layer_types:long_inputs"},
    "layer_types": {"layer_types": "experiments.layer_types:table1"},
    "residuals": {"residuals": "experiments.residuals:run"},
    "distance": {"distance": "experiments.distance:run"},
    "agreement": {"agreement": "experiments.agreement:run"},
    "channel": {"channel": "experiments.channel:run"},
    "order": {"order": "experiments.order:run"},
    "warmup": {"warmup": "compare.warmup:run"},
}
# They are given the folder: there they keep each training that has ended, and go on behind it.
RESUMED = ("distance", "agreement")

_ROOM = 2**20  # bytes; the files of an experiment are smaller


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-experiments's flags."""
    text = f"Which one: {', '.join(EXPERIMENTS)}. It may also stand alone."
    flags.DEFINE_string("name", None, text, flag_values=f)
    flags.DEFINE_string("output_dir", None, "The folder for the files.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Runs the experiment that the flags name."""
    if not args.name:
        raise UserError(
            "Expected an experiment: t2t-experiments NAME --output_dir=DIR. Received: none. Give "
            f"one of {', '.join(EXPERIMENTS)}."
        )
    if args.name not in EXPERIMENTS:
        raise errors.unknown("experiment", args.name, EXPERIMENTS)
    if not args.output_dir:
        raise UserError("Expected --output_dir, a folder for the files. Received: none. Name one.")
    run(args.name, Path(args.output_dir).expanduser())


def run(name: str, folder: Path) -> None:
    """Runs the parts of an experiment, prints their sentences, and writes their files.

    Raises:
        OSError: before the work, if nothing can be written into the folder.
    """
    check_room(folder, _ROOM)
    for part, place in EXPERIMENTS[name].items():
        module, _, function = place.partition(":")
        make = getattr(importlib.import_module(f"t2t_repro.studies.{module}"), function)
        result = make(folder) if part in RESUMED else make()
        print("\n".join(result.sentences), flush=True)
        for path in result.write(folder, part):
            print(f"Written to {path}.", flush=True)


console = cli.program(__name__, "t2t-experiments", __doc__, define_flags, main, positional="name")

"""What each regularizer of docs/little-text.md gives alone, and what its leaving out costs.

    python benchmarks/regularizers.py --problem=text2text_tmpdir --data_dir=data --seeds=3 \\
        --source=test.de --reference=test.en --train_steps=10000 --output_dir=table

For each seed trains none of them, each alone, all but each, and all, by t2t-trainer: the newest
checkpoint translates --source by t2t-decoder. OUTPUT_DIR/table.md and table.json have the mean and
the standard deviation of sacreBLEU over the seeds, and of the difference from none (alone) or from
all (left out), which is taken seed by seed. Killed, the same command goes on: a run from its newest
checkpoint, and what is scored is not trained again. More seeds or regularizers add their runs.
"""

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

import trainings
from absl import flags

from t2t_repro import cli, registry
from t2t_repro.errors import UserError, unknown
from t2t_repro.files import write_text_atomic
from t2t_repro.scoring import bleu

# Values of the papers named in docs/little-text.md, for some ten thousand pairs; {third}: that of
# the steps.
REGULARIZERS = {
    "subword_dropout": "subword_dropout=0.1",
    "both_directions": "bidirectional_steps={third}",
    "word_dropout": "inputs_word_dropout=0.1,targets_word_dropout=0.1",
    "r_drop": "r_drop_alpha=5.0",
    "layerdrop": "decoder_layerdrop=0.2",
    "moving_average": "ema_decay=0.999",
}
SCORE = "score.json"

Run = Callable[[Sequence[str]], object]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run: which regularizers are on, in the order of REGULARIZERS, and its seed."""

    on: tuple[str, ...]
    seed: int

    @property
    def name(self) -> str:
        """The folder's name."""
        return f"{'+'.join(self.on) or 'none'}.seed-{self.seed}"

    def hparams(self, train_steps: int) -> str:
        """Returns the changes of the set, for a training of so many steps."""
        return ",".join(REGULARIZERS[name] for name in self.on).format(third=-(-train_steps // 3))


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    cli.define_run_flags(f)
    cli.define_task_flags(f)
    flags.DEFINE_string("source", None, "The text to translate.", flag_values=f)
    flags.DEFINE_string("reference", None, "Its translation.", flag_values=f)
    text = f"Which, with commas between; default: {','.join(REGULARIZERS)}."
    flags.DEFINE_list("regularizers", list(REGULARIZERS), text, flag_values=f)
    flags.DEFINE_integer("seeds", 3, "Runs of each.", lower_bound=1, flag_values=f)
    flags.DEFINE_integer("train_steps", 10000, "Of each run.", lower_bound=1, flag_values=f)
    text = "Checkpoints of each run; a run that is killed goes on from the newest."
    flags.DEFINE_integer("checkpoints", 10, text, lower_bound=1, flag_values=f)
    text = 'How to decode: "name=value,name=value".'
    flags.DEFINE_string("decode_hparams", "beam_size=4,alpha=0.6", text, flag_values=f)


def main(args: flags.FlagValues, run: Run | None = None) -> None:
    """Trains and scores what is missing, and writes the table.

    Args:
        args: of `define_flags`.
        run: runs a command line; None: in a process of its own.
    """
    for name in ("problem", "data_dir", "output_dir", "source", "reference"):
        if not getattr(args, name):
            raise UserError(f"Expected --{name}. Received: none. See the head of this program.")
    for name in args.regularizers:
        if name not in REGULARIZERS:
            raise unknown("regularizer", name, REGULARIZERS)
    run = run or trainings.run
    chosen = tuple(name for name in REGULARIZERS if name in args.regularizers)
    hparams_set = args.hparams_set or "transformer_own_text_small"
    cells = [Cell(on, seed) for seed in range(args.seeds) for on in subsets(chosen)]
    for cell in cells:
        registry.get_hparams(hparams_set, _joined(args.hparams, cell.hparams(args.train_steps)))
    output = pathlib.Path(args.output_dir).expanduser()
    settings = {"hparams_set": hparams_set, "data_dir": os.path.abspath(args.data_dir)}
    for name in ("problem", "hparams", "source", "reference", "train_steps", "decode_hparams"):
        settings[name] = getattr(args, name)
    trainings.begin(settings, output, "--seeds and --regularizers")
    scores = {}
    for number, cell in enumerate(cells, start=1):
        print(f"[{number} of {len(cells)}] {cell.name}", flush=True)
        scores[cell] = score(args, hparams_set, output / cell.name, cell, run)
        table = write_table(output, chosen, scores)
    print(table, end="")


def subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Returns none, each alone, all but each, and all; each once."""
    alone = [(name,) for name in names]
    without = [tuple(other for other in names if other != name) for name in names]
    return list(dict.fromkeys([(), *alone, *without, names]))


def score(
    args: flags.FlagValues, hparams_set: str, folder: pathlib.Path, cell: Cell, run: Run
) -> float:
    """Returns the sacreBLEU of a cell; trains and translates unless that is done."""
    file, translated = folder / SCORE, folder / "translated.txt"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))["sacrebleu"]
    usr_dir = [f"--t2t_usr_dir={args.t2t_usr_dir}"] if args.t2t_usr_dir else []
    module = (sys.executable, "-m")
    run(
        [
            *(*module, "t2t_repro.bin.trainer", *usr_dir, f"--problem={args.problem}"),
            *(f"--data_dir={args.data_dir}", f"--output_dir={folder / 'run'}"),
            *(f"--hparams_set={hparams_set}", f"--random_seed={cell.seed}"),
            f"--hparams={_joined(args.hparams, cell.hparams(args.train_steps))}",
            f"--train_steps={args.train_steps}",
            f"--local_eval_frequency={max(1, args.train_steps // args.checkpoints)}",
        ]
    )
    run(
        [
            *(*module, "t2t_repro.bin.decoder", *usr_dir, f"--output_dir={folder / 'run'}"),
            *(f"--decode_from_file={args.source}", f"--decode_to_file={translated}"),
            f"--decode_hparams={args.decode_hparams}",
        ]
    )
    found = bleu.score(trainings.lines(translated), trainings.lines(args.reference)).sacrebleu
    text = json.dumps({"sacrebleu": found.score, "signature": found.signature}) + "\n"
    write_text_atomic(file, text)
    return found.score


def write_table(output: pathlib.Path, names: tuple[str, ...], scores: dict[Cell, float]) -> str:
    """Writes table.md and table.json of the runs that are scored; returns the former."""
    of: dict[tuple[str, ...], dict[int, float]] = {}
    for cell, value in scores.items():
        of.setdefault(cell.on, {})[cell.seed] = value
    lines = [("none", (), ())] + [(f"{name} alone", (name,), ()) for name in names]
    for name in names:
        lines.append((f"without {name}", tuple(n for n in names if n != name), names))
    lines.append(("all", names, ()))
    rows, told = [], set()
    for title, on, beside in lines:
        if on not in of or (on, beside) in told:
            continue
        told.add((on, beside))
        values, others = of[on], of.get(beside, {})
        differences = [values[seed] - others[seed] for seed in values if seed in others]
        rows.append(
            {
                "regularizers": title,
                "seeds": len(values),
                **trainings.mean("bleu", values.values()),
                **(trainings.mean("difference", differences) if on != beside else {}),
                "from": "all" if beside else "none",
            }
        )
    write_text_atomic(output / "table.json", json.dumps(rows, indent=1) + "\n")
    head = ["| | seeds | sacreBLEU | difference |", "|---|---|---|---|"]
    body = []
    for row in rows:
        difference = trainings.shown(row, "difference", "+")
        cells = row["regularizers"], str(row["seeds"]), trainings.shown(row, "bleu")
        body.append(
            f"| {' | '.join(cells)} | {difference and difference + ' from ' + row['from']} |"
        )
    text = "\n".join([*head, *body]) + "\n"
    write_text_atomic(output / "table.md", text)
    return text


def _joined(*hparams: str) -> str:
    return ",".join(filter(None, hparams))


if __name__ == "__main__":
    cli.run("regularizers", __doc__, define_flags, main)

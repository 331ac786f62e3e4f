"""What the preset gives at each size of a text, beside transformer_multi30k with 8,192 subwords.

    python benchmarks/little_text.py --train_source=train.en --train_target=train.de \\
        --dev_source=val.en --dev_target=val.de --test_source=test.en --test_target=test.de \\
        --sizes=1000:1500,2500:3000,5000:6000,10000:6000 --seeds=3 --output_dir=sizes

A size is a number of pairs and of steps. Of the training text, whose lines a fixed seed puts into
another order, the first pairs are taken, without those that --check_only finds bad. Each seed
trains both: the set and the vocabulary that the project proposes for so much text, with a third of
the steps in both directions and the last quarter at a falling rate where the set has such, and
transformer_multi30k with --vocab_size=8192, as Multi30k's own problem has. What
t2t-avg-all --tune takes of both, the newest of twelve checkpoints or a mean of five at most,
translates dev and test.
OUTPUT_DIR/table.md and table.json have sacreBLEU and the teacher-forced loss of dev, means and
standard deviations over the seeds, their difference seed by seed, and p of sacreBLEU's paired
bootstrap for each seed. Killed, the same command goes on; more seeds and sizes add their runs.
Several commands, each with some of the sizes, may share a folder; the whole command then writes the
whole table.
"""

import dataclasses
import json
import os
import pathlib
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import trainings
from absl import flags

from t2t_repro import cli
from t2t_repro.data import preset
from t2t_repro.data.text_size import TextSize
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import RunDirectory
from t2t_repro.scoring import bleu, significance

PROBLEM = "text2text_tmpdir"
SIDES = ("source", "target")
TEXTS = tuple(f"{split}_{side}" for split in ("train", "dev", "test") for side in SIDES)
FLOOR, PRESET = "transformer_multi30k", "preset"
SCORE = "score.json"

Run = Callable[[Sequence[str]], object]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run: of how many pairs, for how many steps, by which of the two, and its seed."""

    pairs: int
    steps: int
    by: str
    seed: int

    def training(self, folder: pathlib.Path) -> list[str]:
        """Returns what t2t-trainer is told of the set, for the text in a folder."""
        if self.by == FLOOR:
            return [f"--hparams_set={FLOOR}"]
        size = sum((folder / f"train.{side}").stat().st_size for side in SIDES) - 2 * self.pairs
        text = TextSize(self.pairs, size)
        chosen = preset.preset(text, preset.has_gpu(), subwords=True, shared=True).hparams_set
        of_length = preset.of_length(chosen, "", self.steps)
        return [f"--hparams_set={chosen}", *([f"--hparams={of_length}"] if of_length else [])]


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    for name in TEXTS:
        flags.DEFINE_string(name, None, "A file of a sentence a line.", flag_values=f)
    sizes = ["1000:1500", "2500:3000", "5000:6000", "10000:6000"]
    flags.DEFINE_list("sizes", sizes, "PAIRS:STEPS, with commas between.", flag_values=f)
    flags.DEFINE_integer("seeds", 3, "Runs of each.", lower_bound=1, flag_values=f)
    flags.DEFINE_string("output_dir", None, "The folder of runs and table.", flag_values=f)


def main(args: flags.FlagValues, run: Run | None = None) -> None:
    """Trains and scores what is missing, and writes the table.

    Args:
        args: of `define_flags`.
        run: runs a command line; None: in a process of its own.
    """
    for name in (*TEXTS, "output_dir"):
        if not getattr(args, name):
            raise UserError(f"Expected --{name}. Received: none. See the head of this program.")
    sizes = parse_sizes(args.sizes)
    run = run or trainings.run
    output = pathlib.Path(args.output_dir).expanduser()
    texts = {name: os.path.abspath(getattr(args, name)) for name in TEXTS}
    trainings.begin(texts, output, "--sizes and --seeds")
    for pairs in sizes:
        for by in (FLOOR, PRESET):
            make_data(output / str(pairs), pairs, by, texts, run)
    scores: dict[Cell, dict[str, Any]] = {}
    cells = [
        Cell(pairs, steps, by, seed)
        for seed in range(1, args.seeds + 1)
        for pairs, steps in sizes.items()
        for by in (FLOOR, PRESET)
    ]
    table = ""
    for number, cell in enumerate(cells, start=1):
        print(f"[{number} of {len(cells)}] {cell}", flush=True)
        scores[cell] = score(output / str(cell.pairs), cell, texts, run)
        table = write_table(output, scores, texts)
    print(table, end="")


def parse_sizes(given: Sequence[str]) -> dict[int, int]:
    """Returns {pairs: steps} of what --sizes says.

    Raises:
        UserError: if one is not PAIRS:STEPS of positive integers, or a number of pairs comes twice.
    """
    parts = [each.split(":") for each in given]
    whole = all(len(part) == 2 and all(n.isdecimal() and int(n) for n in part) for part in parts)
    sizes = {int(part[0]): int(part[1]) for part in parts} if whole else {}
    if not sizes or len(sizes) != len(parts):
        raise UserError(
            "Expected --sizes such as 1000:1500,2500:3000, pairs and steps, each number of pairs "
            f"once. Received: {','.join(given)}."
        )
    return sizes


def make_data(folder: pathlib.Path, pairs: int, by: str, texts: dict[str, str], run: Run) -> None:
    """Makes the text of a size and the problem's files, unless they are there."""
    files = {side: folder / f"train.{side}" for side in SIDES}
    if not all(file.exists() for file in files.values()):
        source, target = (trainings.lines(texts[f"train_{side}"]) for side in SIDES)
        if len(source) != len(target) or len(source) < pairs:
            raise UserError(
                f"Expected {pairs:,} pairs or more. Received: {len(source):,} and {len(target):,} "
                "lines."
            )
        drawn = random.Random(1).sample(list(zip(source, target, strict=True)), len(source))
        folder.mkdir(parents=True, exist_ok=True)
        for file, lines in zip(files.values(), zip(*drawn[:pairs], strict=True), strict=True):
            write_text_atomic(file, "".join(f"{line}\n" for line in lines))
    run(
        [
            *(sys.executable, "-m", "t2t_repro.bin.datagen", f"--problem={PROBLEM}"),
            *(f"--data_dir={folder / by / 'data'}", f"--tmp_dir={folder / by / 'raw'}"),
            *(f"--train_{side}={file}" for side, file in files.items()),
            *(f"--{name}={texts[name]}" for name in ("dev_source", "dev_target")),
            *("--drop_bad_pairs", *(["--vocab_size=8192"] if by == FLOOR else [])),
        ]
    )


def score(folder: pathlib.Path, cell: Cell, texts: dict[str, str], run: Run) -> dict[str, Any]:
    """Returns {"dev", "test": sacreBLEU, "loss": of dev}; trains and translates, or has done so."""
    here = folder_of(folder, cell)
    if (here / SCORE).exists():
        return json.loads((here / SCORE).read_text(encoding="utf-8"))
    module = (sys.executable, "-m")
    run(
        [
            *(*module, "t2t_repro.bin.trainer", f"--problem={PROBLEM}", *cell.training(folder)),
            *(f"--data_dir={folder / cell.by / 'data'}", f"--output_dir={here / 'run'}"),
            *(f"--train_steps={cell.steps}", f"--random_seed={cell.seed}"),
            f"--local_eval_frequency={max(1, cell.steps // 12)}",
        ]
    )
    run(
        [
            *(*module, "t2t_repro.bin.avg_all", "--tune", f"--model_dir={here / 'run'}"),
            *(f"--output_dir={here / 'finished'}", "--n=5", "--beam_sizes=4", "--alphas=0.6"),
        ]
    )
    found: dict[str, Any] = {}
    for split in ("dev", "test"):
        run(
            [
                *(*module, "t2t_repro.bin.decoder", f"--output_dir={here / 'finished'}"),
                f"--decode_from_file={texts[f'{split}_source']}",
                f"--decode_to_file={translation(folder, cell, split)}",
                "--decode_hparams=beam_size=4,alpha=0.6",
            ]
        )
        lines = trainings.lines(translation(folder, cell, split))
        found[split] = bleu.score(lines, trainings.lines(texts[f"{split}_target"])).sacrebleu.score
    rows = RunDirectory(here / "run").read_metrics()
    found["loss"] = [row["loss"] for row in rows if row["kind"] == "eval"][-1]
    write_text_atomic(here / SCORE, json.dumps(found) + "\n")
    return found


def translation(folder: pathlib.Path, cell: Cell, split: str) -> pathlib.Path:
    """Returns the file of a run's translation of a split."""
    return folder_of(folder, cell) / f"{split}.txt"


def folder_of(folder: pathlib.Path, cell: Cell) -> pathlib.Path:
    """Returns a run's folder in that of its size: what trains longer is another run."""
    return folder / cell.by / f"{cell.steps}-steps-seed-{cell.seed}"


def write_table(
    output: pathlib.Path, scores: dict[Cell, dict[str, Any]], texts: dict[str, str]
) -> str:
    """Writes table.md and table.json of the runs that are scored; returns the former."""
    rows = []
    for pairs, steps in dict.fromkeys((cell.pairs, cell.steps) for cell in scores):
        of = {
            by: {c.seed: s for c, s in scores.items() if (c.pairs, c.by) == (pairs, by)}
            for by in (FLOOR, PRESET)
        }
        row: dict[str, Any] = {"pairs": pairs, "steps": steps, "seeds": len(of[FLOOR])}
        for by, name in ((FLOOR, "floor"), (PRESET, "preset")):
            for what in ("test", "dev", "loss"):
                row |= trainings.mean(f"{name}_{what}", (s[what] for s in of[by].values()))
        both = sorted(of[FLOOR].keys() & of[PRESET].keys())
        values = [of[PRESET][seed]["test"] - of[FLOOR][seed]["test"] for seed in both]
        row |= trainings.mean("difference", values)
        row["p"] = []
        for seed in both:
            cells = (Cell(pairs, steps, by, seed) for by in (FLOOR, PRESET))
            translated = [
                trainings.lines(translation(output / str(pairs), cell, "test")) for cell in cells
            ]
            tested, _ = significance.paired_bootstrap(
                translated, trainings.lines(texts["test_target"])
            )
            row["p"].append(tested[1].p_value)
        rows.append(row)
    write_text_atomic(output / "table.json", json.dumps(rows, indent=1) + "\n")
    columns = {
        "floor_test": f"{FLOOR}, test",
        "preset_test": "preset, test",
        "difference": "difference",
        "p": "p",
        "floor_dev": "dev",
        "preset_dev": "preset, dev",
        "floor_loss": "loss of dev",
        "preset_loss": "preset, loss of dev",
    }
    head = [
        f"| pairs | steps | seeds | {' | '.join(columns.values())} |",
        f"|{'---|' * (3 + len(columns))}",
    ]
    body = []
    for row in rows:
        cells = [f"{row[name]:,}" for name in ("pairs", "steps", "seeds")]
        for name in columns:
            sign = "+" if name == "difference" else ""
            p_values = ", ".join(f"{p:.3f}" for p in row["p"])
            cells.append(p_values if name == "p" else trainings.shown(row, name, sign))
        body.append(f"| {' | '.join(cells)} |")
    text = "\n".join([*head, *body]) + "\n"
    write_text_atomic(output / "table.md", text)
    return text


if __name__ == "__main__":
    cli.run("little_text", __doc__, define_flags, main)

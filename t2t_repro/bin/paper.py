"""t2t-paper: the tables of "Attention Is All You Need", with ours beside them.

  t2t-paper                                   prints all, and writes paper/paper.json and .md
  t2t-paper --tables=3                        the variations and their parameters
  t2t-paper --tables=2,4 --runs=run,run2      and the BLEU or F1 of runs
  t2t-paper --tables=training,scaling --hardware=1xH200

Tables: 1 (the cost of a layer; it measures for half a minute), 2 (BLEU and training FLOPs), 3 (the
variations and their parameters), 4 (parsing), training (the command that trains each row, and its
hours), scaling (1, 8 and 64 devices).
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError, unknown
from t2t_repro.files import write_text_atomic
from t2t_repro.studies.paper import hardware as machines
from t2t_repro.studies.paper import run_scores, scaling, training_plan
from t2t_repro.studies.paper import tables as paper_tables
from t2t_repro.studies.tables import Table

TABLES = ("1", "2", "3", "4", "training", "scaling")


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-paper's flags."""
    flags.DEFINE_string(
        "tables", ",".join(TABLES), "Which to make, with commas between.", flag_values=f
    )
    text = "Where to write paper.json and paper.md."
    flags.DEFINE_string("output_dir", "paper", text, flag_values=f)
    text = (
        "Runs to put beside the paper's, with commas between: DIR, which holds bleu.json or "
        "f1.json, or DIR=FILE. t2t-bleu and t2t-score-trees write them (--json_file)."
    )
    flags.DEFINE_string("runs", "", text, flag_values=f)
    names = ", ".join(machines.DEVICES)
    text = f"Where training is to run: COUNTxNAME ({names}), or this, which is measured."
    flags.DEFINE_string("hardware", "8xP100", text, flag_values=f)
    text = "The share of the hardware's rate that a training step reaches on one device."
    flags.DEFINE_float("efficiency", machines.EFFICIENCY, text, flag_values=f)
    text = "GB/s of the links between devices, instead of the hardware's usual ones."
    flags.DEFINE_float("bandwidth", None, text, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Makes the tables that the flags name, prints and writes them."""
    from rich import console

    names = [name.strip() for name in args.tables.split(",") if name.strip()]
    for name in names:
        if name not in TABLES:
            raise unknown("table", name, TABLES)
    if not names:
        raise UserError(f"Expected --tables of {', '.join(TABLES)}. Received: none.")
    if not 0 < args.efficiency <= 1:
        raise UserError(f"Expected 0 < --efficiency <= 1. Received: {args.efficiency}.")
    if args.bandwidth is not None and args.bandwidth <= 0:
        raise UserError(f"Expected --bandwidth > 0, in GB/s. Received: {args.bandwidth}.")
    for flag, given, wanted in (
        ("runs", bool(args.runs), {"2", "4"}),
        ("hardware", args["hardware"].present, {"training", "scaling"}),
        ("efficiency", args["efficiency"].present, {"training", "scaling"}),
        ("bandwidth", args.bandwidth is not None, {"scaling"}),
    ):
        if given and not wanted & set(names):
            raise UserError(
                f"--{flag} has no effect on --tables={args.tables}: {', '.join(sorted(wanted))} "
                "read it. Leave it out."
            )
    runs = run_scores.read(args.runs)
    hardware = machines.with_bandwidth(machines.parse(args.hardware), args.bandwidth)
    Path(args.output_dir).expanduser().mkdir(parents=True, exist_ok=True)
    out, made = console.Console(), []
    for name in names:
        tables = make(name, runs, hardware, args.efficiency)
        for table in tables:
            table.print(out)
        made += tables
    for path in write(made, args.output_dir):
        print(f"Written to {path}.")


def make(
    name: str,
    runs: Sequence[run_scores.RunScore],
    hardware: machines.Hardware,
    efficiency: float,
) -> list[Table]:
    """Returns the tables that --tables calls `name`."""
    if name == "1":
        print("Measuring the layers of table 1, about half a minute ...", file=sys.stderr)
        return paper_tables.table1()
    if name == "2":
        return paper_tables.table2(runs)
    if name == "3":
        return paper_tables.table3()
    if name == "4":
        return paper_tables.table4(runs)
    if name == "training":
        return [training_plan.plan(hardware, efficiency)]
    return scaling.tables(hardware.device, efficiency)


def write(tables: Sequence[Table], output_dir: str) -> list[Path]:
    """Writes paper.json and paper.md, and returns their paths."""
    folder = Path(output_dir).expanduser()
    values = {table.name: table.as_dict() for table in tables}
    write_text_atomic(folder / "paper.json", json.dumps(values, indent=1) + "\n")
    text = "\n".join(["# The paper's tables, and ours\n", *(table.markdown() for table in tables)])
    write_text_atomic(folder / "paper.md", text)
    return [folder / "paper.json", folder / "paper.md"]


console = cli.program(__name__, "t2t-paper", __doc__, define_flags, main)

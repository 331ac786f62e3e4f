"""t2t-paper: the tables of "Attention Is All You Need", and its rows as runs.

  t2t-paper tables                               prints all, and writes paper/paper.json and .md
  t2t-paper tables --tables=2,3,4 --runs=run     and what runs have: BLEU, perplexity, cost, F1
  t2t-paper reproduce --rows=ende_base           table 2: trains, averages, translates, scores
  t2t-paper reproduce --rows=ende_big --worker_gpu=8
  t2t-paper reproduce --table=3                  table 3 at an eighth of its widths, on captions

Tables: 2 (BLEU and training FLOPs), 3 (the variations and their parameters), 4 (parsing).

A row is a run in --output_dir, with the paper's settings: docs/paper.md has them all. Each step is
a program of its own, whose command is printed; --plan prints those that train, and stops. Stopped
or killed, the same command goes on. Of table 3 all rows are trained with one seed, then with the
next; after each run the page (table3.md and table3.json) is written anew: the rows, and which of
the paper's conclusions hold. What runs ended with is kept in table3-runs.json: folders may go.
"""

import itertools
import json
import shlex
from pathlib import Path

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError, unknown
from t2t_repro.files import write_text_atomic
from t2t_repro.paper import reproduce, runs, scaled
from t2t_repro.paper import tables as paper_tables

TABLES = {"2": paper_tables.table2, "3": paper_tables.table3, "4": paper_tables.table4}
ACTIONS = ("tables", "reproduce")


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-paper's flags."""
    flags.DEFINE_enum("action", None, ACTIONS, "May stand alone.", flag_values=f)
    text = "tables: which to make, with commas between."
    flags.DEFINE_string("tables", ",".join(TABLES), text, flag_values=f)
    text = "tables: runs to put beside the paper's, with commas between: DIR, or a folder of such."
    flags.DEFINE_string("runs", "", text, flag_values=f)
    cli.define_request_flags(f, reproduce.Request)


def main(args: flags.FlagValues) -> None:
    """Makes tables, or runs."""
    if args.action == "tables":
        folder = Path(args.output_dir if args["output_dir"].present else "paper")
        print_tables([name.strip() for name in args.tables.split(",")], args.runs, folder)
    elif args.action == "reproduce":
        make_runs(cli.request(args, reproduce.Request))
    else:
        raise UserError("Expected t2t-paper tables or t2t-paper reproduce. Received: none.")


def print_tables(names: list[str], named_runs: str, folder: Path) -> None:
    """Makes tables, prints them, and writes paper.json and paper.md.

    Raises:
        UserError: on an unknown table or run.
    """
    from rich import console

    for name in names:
        if name not in TABLES:
            raise unknown("table", name, TABLES)
    found = runs.read(named_runs)
    for run in found:
        if not (run.bleu or run.f1):
            print(f"{run.path} has no score: t2t-bleu --json_file={run.path}/bleu.json makes one.")
    made = [table for name in names for table in TABLES[name](found)]
    for table in made:
        table.print(console.Console())
    folder.mkdir(parents=True, exist_ok=True)
    values = {table.name: table.as_dict() for table in made}
    write_text_atomic(folder / "paper.json", json.dumps(values, indent=1) + "\n")
    text = "\n".join(["# The paper's tables, and ours\n", *(table.markdown() for table in made)])
    write_text_atomic(folder / "paper.md", text)
    print(f"Written to {folder / 'paper.json'} and {folder / 'paper.md'}.")


def make_runs(request: reproduce.Request) -> None:
    """Makes rows of table 2 or 3, as far as they are not there."""
    if request.table == 2:
        recipes = [reproduce.table2(name, request) for name in request.names]
    else:
        seeds = range(request.seeds)
        cells = itertools.product(seeds, request.names)
        recipes = [reproduce.table3(name, request, seed) for seed, name in cells]
    commands = [shlex.join(reproduce.training(recipe, request)) for recipe in recipes]
    if request.plan:
        print("\n".join(commands))
    elif request.table == 2:
        for recipe in recipes:
            path = reproduce.carry_out(recipe, request).path
            print(f"\nDone: {path}. t2t-paper tables --tables=2 --runs={path}")
    else:
        print(f"Written to {' and '.join(map(str, scaled.run(request)))}.")


console = cli.program(__name__, "t2t-paper", __doc__, define_flags, main, positional="action")

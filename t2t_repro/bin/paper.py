"""t2t-paper: the tables of "Attention Is All You Need", and its rows as runs.

  t2t-paper tables                               prints all tables, with the runs in paper_runs
  t2t-paper tables --table=4 --output_dir=RUN
  t2t-paper reproduce --rows=ende_base           table 2: trains, averages, translates, scores
  t2t-paper reproduce --table=3                  table 3 at 1/8 of its widths, on Multi30k

Tables: 2 (BLEU and training FLOPs), 3 (the variations and their parameters), 4 (parsing). `tables`
shows the results of runs beside the paper's: BLEU, perplexity, cost, F1. It reads
--output_dir, a run or a folder of runs, and writes paper.html, paper.md and paper.json there.

Each row becomes a run in --output_dir, with the paper's settings (docs/paper.md). Each step runs a
program, whose command is printed. If interrupted, run the same command to resume. Table 3 trains
all rows with one seed, then with the next. After each run it rewrites table3.html, .md and .json,
which show the rows and which of the paper's conclusions hold.
"""

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import flag
from t2t_repro.paper import reproduce
from t2t_repro.paper import tables as paper_tables
from t2t_repro.study import report, runs
from t2t_repro.study.results import MOST_SEEDS

TABLES = {2: paper_tables.table2, 3: paper_tables.table3, 4: paper_tables.table4}
ACTIONS = ("tables", "reproduce")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The flags of t2t-paper."""

    action: str = flag("tables", "What to do; --action= may be left out.", choices=ACTIONS)
    table: int | None = flag(
        None, "Table 2, 3 or 4. Default: all three; for t2t-paper reproduce, 2.", least=2, most=4
    )
    rows: str = flag(
        "",
        f"Rows: a,b,c. Table 3 default: all. Table 2 needs some of: {', '.join(reproduce.TABLE2)}.",
    )
    output_dir: str = flag("paper_runs", "The folder of all runs or, for tables only, of one run.")
    data_dir: str = flag("t2t_data", "The folder of TFRecords, which are made if missing.")
    tmp_dir: str = flag("/tmp/t2t_datagen", "The folder of the raw files, including downloads.")
    hparams: str = flag("", "Overrides for all rows, such as batch_size=8192 on large devices.")
    train_steps: int | None = flag(None, "Steps; default: paper's (table 3, base: 2000).", least=1)
    scale: int = flag(8, "Table 3: divide all widths by 1, 2, 4, 8 or 16.", least=1, most=16)
    seeds: int = flag(3, "Table 3: how many runs (seeds) per row.", least=1, most=MOST_SEEDS)

    @property
    def names(self) -> list[str]:
        """The rows.

        Raises:
            UserError: if there are none, or one that is not there.
        """
        known = reproduce.TABLE3 if self.table == 3 else reproduce.TABLE2
        asked = [name.strip() for name in self.rows.split(",") if name.strip()]
        for name in asked:
            if name not in known:
                raise unknown("row of the table", name, known)
        if not asked and self.table != 3:
            raise UserError(
                f"Expected --rows, one or more of: {', '.join(reproduce.TABLE2)}. Received: none."
            )
        return asked or list(reproduce.TABLE3)


def main(args: flags.FlagValues) -> None:
    """Makes tables, or runs."""
    request = cli.request(args, Request)
    if request.action == "tables":
        print_tables(request)
        return
    of = reproduce.Folders(request.output_dir, request.data_dir, request.tmp_dir), request.hparams
    if request.table == 3:
        sizes: dict[str, Any] = {"scale": request.scale, "seeds": request.seeds}
        steps = request.train_steps or reproduce.STEPS
        study = reproduce.table3(request.names, *of, train_steps=steps, **sizes)
        print(f"Written to {reproduce.write_table3(runs.run(study, reproduce.write_table3))}.")
    else:
        for name in request.names:
            path = reproduce.table2(name, *of, request.train_steps)
            print(f"\nDone: {path}. To show it: t2t-paper tables, with the same --output_dir.")


def print_tables(request: Request) -> None:
    """Makes tables, prints them, and writes paper.html, .md and .json."""
    from rich import console, markdown

    found = paper_tables.runs_in(request.output_dir)
    names = [request.table] if request.table else list(TABLES)
    made = [table for name in names for table in TABLES[name](found)]
    console.Console().print(markdown.Markdown("\n\n".join(table.markdown() for table in made)))
    command = shlex.join(["t2t-paper", *sys.argv[1:]])
    where, title = Path(request.output_dir), "The paper's tables, and ours"
    print(f"Written to {report.write(where, 'paper', title, made, '', command, {})}.")


console = cli.program(__name__, "t2t-paper", __doc__, (Request,), main, positional="action")

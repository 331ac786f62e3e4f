"""t2t-paper: the tables of "Attention Is All You Need", with ours beside them.

  t2t-paper                                   prints all, and writes paper/paper.json and .md
  t2t-paper --tables=3                        the variations and their parameters
  t2t-paper --tables=2,3,4 --runs=run,run2    and what runs have: BLEU, perplexity, cost, F1
  t2t-paper --tables=settings                 the paper's settings, T2T's and ours, and --runs'

Tables: 2 (BLEU and training FLOPs), 3 (the variations and their parameters), 4 (parsing), settings.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError, unknown
from t2t_repro.files import write_text_atomic
from t2t_repro.outputs import check_outputs
from t2t_repro.requests import flag
from t2t_repro.studies.paper import run_scores, settings
from t2t_repro.studies.paper import tables as paper_tables
from t2t_repro.studies.tables import Table

TABLES = ("2", "3", "4", "settings")
_NEED_SCORES = {"2", "4"}  # of the runs that they show


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What t2t-paper is asked for: its flags, and which of them were `given`.

    Raises:
        UserError: on an unknown table, or if none is named.
    """

    tables: str = flag(",".join(TABLES), "Which to make, with commas between.")
    output_dir: str = flag("paper", "Where to write paper.json and paper.md.")
    runs: str = flag(
        "",
        "Runs to put beside the paper's, with commas between: DIR, a folder of such, as "
        "t2t-reproduce's, or DIR=FILE. Tables 2 and 4 need a bleu.json or f1.json in DIR, or FILE, "
        "which t2t-bleu and t2t_repro.parsing.score write.",
    )

    def __post_init__(self):
        for name in self.names:
            if name not in TABLES:
                raise unknown("table", name, TABLES)
        if not self.names:
            raise UserError(f"Expected --tables of {', '.join(TABLES)}. Received: none.")

    @property
    def names(self) -> list[str]:
        """The tables."""
        return [name.strip() for name in self.tables.split(",") if name.strip()]


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-paper's flags."""
    cli.define_request_flags(f, Request)


def main(args: flags.FlagValues) -> None:
    """Makes the tables that the flags name, prints and writes them."""
    report(cli.request(args, Request))


def report(request: Request) -> None:
    """Makes, prints and writes the tables.

    Raises:
        UserError: if a run's score cannot be read.
    """
    from rich import console

    folder = Path(request.output_dir).expanduser()
    files = (file for _, file in run_scores.named(request.runs) if file)
    scores = {f"{file} of --runs": Path(file).expanduser() for file in files}
    check_outputs({name: folder / name for name in ("paper.json", "paper.md")}, scores)
    runs = run_scores.read(request.runs, scored=bool(_NEED_SCORES & set(request.names)))
    make: dict[str, Callable[[], list[Table]]] = {
        "2": lambda: paper_tables.table2(runs),
        "3": lambda: paper_tables.table3(runs),
        "4": lambda: paper_tables.table4(runs),
        "settings": lambda: settings.table(runs),
    }
    folder.mkdir(parents=True, exist_ok=True)
    out, made = console.Console(), []
    for name in request.names:
        tables = make[name]()
        for table in tables:
            table.print(out)
        made += tables
    for path in write(made, folder):
        print(f"Written to {path}.")


def write(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Writes paper.json and paper.md, and returns their paths."""
    values = {table.name: table.as_dict() for table in tables}
    write_text_atomic(folder / "paper.json", json.dumps(values, indent=1) + "\n")
    text = "\n".join(["# The paper's tables, and ours\n", *(table.markdown() for table in tables)])
    write_text_atomic(folder / "paper.md", text)
    return [folder / "paper.json", folder / "paper.md"]


console = cli.program(__name__, "t2t-paper", __doc__, define_flags, main)

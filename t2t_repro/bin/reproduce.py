"""t2t-reproduce: the paper's rows as runs, from raw files to scores, each by one command.

  t2t-reproduce --rows=ende_base          table 2: trains, averages, translates newstest, scores
  t2t-reproduce --rows=ende_big --worker_gpu=8
  t2t-reproduce --table=3                 table 3 at an eighth of its widths, on 29,000 captions

A row is a run in --output_dir, with the paper's settings: docs/paper.md has them all. Each step is
a program of its own, whose command is printed; --plan prints those that train, and stops. Stopped
or killed, the same command goes on. t2t-paper --tables=2 --runs=RUN has the paper's beside it.

Of table 3 all rows are trained with one seed, then with the next; after each run the page
(table3.md and table3.json) is written anew: the rows, and which of the paper's conclusions hold.
What runs ended with is kept in table3-runs.json: their folders may go.
"""

import dataclasses
import itertools
import shlex

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import INT64
from t2t_repro.requests import flag
from t2t_repro.studies.paper import recipes, reproduce, scaled
from t2t_repro.studies.paper.conclusions import MOST_SEEDS
from t2t_repro.studies.paper.reproduce import Place

_ROWS = ", ".join(recipes.TABLE2)
_STEPS = 2000  # of table 3's base: a seed of all rows in two hours, on two cores
_OF_TABLE3 = ("scale", "seeds", "batch", "warmup_steps", "problem")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The flags of t2t-reproduce, and which of them were `given`.

    Raises:
        UserError: if they lack rows, or one of them has no effect.
    """

    table: int = flag(2, "Of which table the rows are: 2 or 3.")
    rows: str = flag("", f"Which, with commas between; of table 3 all. Table 2: {_ROWS}.")
    output_dir: str = flag("paper_runs", "The folder of the runs.")
    data_dir: str = flag("t2t_data", "The folder of the data; they are made if need be.")
    tmp_dir: str = flag("/tmp/t2t_datagen", "The folder of raw files.")
    hparams: str = flag("", "Changes to all rows, such as batch_size=8192 on large devices.")
    train_steps: int | None = flag(
        None,
        f"Updates of a run; default: the paper's; table 3's: {_STEPS:,}.",
        least=1,
        most=INT64,
    )
    save_checkpoints_secs: int = flag(
        0,
        "Save by the clock, as 600; 0: by the updates that 8 P100 made in 600 seconds.",
        least=0,
        most=INT64,
    )
    worker_gpu: int | None = flag(
        None, "On how many GPUs; default: all, or one CPU.", least=1, most=INT64
    )
    plan: bool = flag(False, "Print the commands that train, and stop.")
    yes: bool = flag(False, "Go to work even where this machine plainly cannot end it.")
    scale: int = flag(8, "Table 3: divide all widths by this: 1, 2, 4, 8 or 16.")
    seeds: int = flag(3, "Table 3: how many runs of each row.", least=1, most=MOST_SEEDS)
    batch: int = flag(2048, "Table 3: tokens of each side in an update.", least=1, most=INT64)
    warmup_steps: int | None = flag(
        None, "Table 3: updates of warm-up; default: half of base's.", least=1, most=INT64
    )
    problem: str = flag("translate_ende_multi30k", "Table 3: on what.")
    given: frozenset[str]

    def __post_init__(self):
        if self.table not in (2, 3):
            raise UserError(f"Expected --table=2 or 3. Received: {self.table}.")
        if self.table == 2 and not self.names:
            raise UserError(
                f"Expected --rows of table 2: {_ROWS}. Received: none. Name at least one."
            )
        for name in _OF_TABLE3:
            if self.table == 2 and name in self.given:
                raise UserError(f"--{name} has no effect on table 2. Leave it out.")
        if self.scale not in (1, 2, 4, 8, 16):
            raise UserError(f"Expected --scale of 1, 2, 4, 8 or 16. Received: {self.scale}.")

    @property
    def names(self) -> list[str]:
        """The rows."""
        return [name.strip() for name in self.rows.split(",") if name.strip()]


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-reproduce's flags."""
    cli.define_request_flags(f, Request)


def main(args: flags.FlagValues) -> None:
    """Makes the runs that the flags name, as far as they are not there."""
    request = cli.request(args, Request)
    place = Place(
        data_dir=request.data_dir,
        tmp_dir=request.tmp_dir,
        output_dir=request.output_dir,
        hparams=request.hparams,
        train_steps=request.train_steps if request.table == 2 else None,
        save_checkpoints_secs=request.save_checkpoints_secs,
        worker_gpu=request.worker_gpu,
        yes=request.yes,
    )
    rows_of_table2(request, place) if request.table == 2 else table3(request, place)


def rows_of_table2(request: Request, place: Place) -> None:
    """Makes rows of table 2.

    Raises:
        UserError: on an unknown row, or as `reproduce.carry_out`.
    """
    for recipe in [recipes.table2(name) for name in request.names]:
        if request.plan:
            print(shlex.join(reproduce.training(recipe, place)))
        else:
            run = reproduce.carry_out(recipe, place)
            print(f"\nDone: {run.path}. t2t-paper --tables=2 --runs={run.path}")


def table3(request: Request, place: Place) -> None:
    """Makes table 3, smaller.

    Raises:
        UserError: on an unknown row, or as `scaled.check_hparams` and `scaled.run`.
    """
    for name in request.names:
        if name not in scaled.ROWS:
            raise unknown("row of table 3", name, scaled.ROWS)
    scaled.check_hparams(request.hparams)
    steps = request.train_steps or _STEPS
    scale = recipes.Scale(
        width=request.scale,
        train_steps=steps,
        warmup_steps=request.warmup_steps or max(1, steps // 2),
        batch=request.batch,
    )
    rows = [name for name in scaled.ROWS if name in request.names or not request.names]
    study = scaled.Study(
        rows=rows, scale=scale, problem=request.problem, seeds=request.seeds, place=place
    )
    reproduce.check_problem(registry.get_problem(request.problem))
    if request.plan:
        for seed, name in itertools.product(range(request.seeds), rows):
            recipe = recipes.table3(name, request.problem, scale, seed)
            print(shlex.join(reproduce.training(recipe, place)))
        return
    for path in scaled.run(study):
        print(f"Written to {path}.")


console = cli.program(__name__, "t2t-reproduce", __doc__, define_flags, main)

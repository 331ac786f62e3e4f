"""The runs of a study, one after another: each trained by t2t-trainer, then measured."""

import json
import math
import time
from collections.abc import Callable

from t2t_repro import process, stages
from t2t_repro.errors import UserError
from t2t_repro.process import run_program
from t2t_repro.progress import duration
from t2t_repro.stages import Stage
from t2t_repro.study import results
from t2t_repro.study.results import MEASUREMENT, RECORD_FILE, TRAINING, Results
from t2t_repro.study.study import Cell, Study

_REPORTS = 100  # lines of training in metrics.jsonl


def run(study: Study, report: Callable[[Results], object]) -> Results:
    """Makes the unfinished runs, after each the report; returns all results.

    Raises:
        UserError: if a run fails; the same command tries it again.
    """
    from t2t_repro.training import checkpoints

    cells = study.cells()
    todo = [cell for cell in cells if results.load_cell(study, cell) is None]
    print(f"{len(cells) - len(todo)} of {len(cells)} runs are finished.", flush=True)
    for cell in (cell for cell in cells if cell not in todo):  # a kill may have come before it
        checkpoints.prune(study.run_of(cell).checkpoints_dir, 1, cell.variant.hparams.train_steps)
    began = time.monotonic()
    for done, cell in enumerate(todo, 1):
        _make(study, cell)
        checkpoints.prune(study.run_of(cell).checkpoints_dir, 1, cell.variant.hparams.train_steps)
        left = duration((time.monotonic() - began) * (len(todo) - done) / done)
        if found := results.load_cell(study, cell):
            ended = f"dev loss {found.dev_loss or math.nan:.3f}, {found.status}"
            print(f"[{done}/{len(todo)}] {cell}: {ended} | {left} left", flush=True)
        report(results.load(study))
    return results.load(study)


def command(study: Study, cell: Cell) -> list[str]:
    """Returns the command of t2t-trainer that makes or resumes a run."""
    steps = cell.variant.hparams.train_steps
    made = stages.command(
        "t2t-trainer",
        problem=study.problem,
        hparams_set=cell.variant.hparams_set,
        hparams=cell.variant.changes,
        data_dir=study.data_dir,
        output_dir=study.run_of(cell).path,
        local_eval_frequency=max(1, steps // study.evaluations),
        keep_checkpoint_max=0,  # they are measured, and then all but the last go
        log_step_count_steps=max(1, steps // _REPORTS),
        random_seed=cell.seed,
    )
    return [*made, *study.flags]


def _make(study: Study, cell: Cell) -> None:
    """Trains and measures a run.

    A loss or gradient that is not finite ends the training and is part of the result.
    """
    from t2t_repro.study.measure import measure

    run = study.run_of(cell)
    training = Stage(name=TRAINING, says=str(cell), command=command(study, cell))

    def train() -> int | None:
        """Returns the step that was not finite; None: there was none."""
        try:
            run_program(training.command, training.says)
        except UserError:
            batches = run.path.glob("nonfinite/batch-*.json")
            steps = [json.loads(file.read_text())["step"] for file in batches]
            if not steps:
                raise
            return max(steps)
        return None

    with stages.begin(run.path / RECORD_FILE, study.begun_with(cell), []) as doing:
        ended = doing.run(training, train) is None
        doing.run(
            Stage(name=MEASUREMENT, says=f"Measuring {cell}"),
            lambda: process.call(measure, str(run.path), study.bleu_sentences, ended),
        )

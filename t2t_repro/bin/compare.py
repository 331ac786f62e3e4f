"""t2t-compare: trains one model with post-norm and with pre-norm, and reports what differs.

  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_set=transformer_multi30k --hparams=batch_size=512 \\
      --depths=2,6,12 --warmup=0,2000 --seeds=2 --train_steps=300 --output_dir=comparison

Each cell of the grid depths x warm-ups x sequences x seeds is a run directory of its own under
OUTPUT_DIR/cells. Only the sequences of pre- and postprocessing differ between two cells of one
depth, warm-up and seed. Written: report.html (pictures inside, nothing to load), report.md,
results.csv, curves.csv, norms.csv, comparisons.csv and the pictures. A run that diverges is a
result. Stopped or killed, the same command goes on; with longer axes it adds their cells.
"""

import glob
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import shlex
import signal
import sys
import threading
import time
from collections.abc import Sequence

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.problem import Split
from t2t_repro.studies.compare import grid
from t2t_repro.studies.compare.grid import Cell, Plan

LOG_FILE = "compare.log"  # in a cell's run directory
_POLL = 1.0  # seconds between two looks at a running cell


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-compare's flags."""
    cli.define_run_flags(f)

    def whole(name: str, default: int, text: str, least: int = 0) -> None:
        flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=f)

    text = "Layers of the encoder and of the decoder, with commas between; default: the set's."
    flags.DEFINE_string("depths", "", text, flag_values=f)
    text = (
        "Warm-up steps, with commas between; 0: none, from the first step at the peak of the set's "
        "own warm-up; default: the set's."
    )
    flags.DEFINE_string("warmup", "", text, flag_values=f)
    text = "What is compared: PREPROCESS/POSTPROCESS pairs of the letters a, d and n, or none."
    flags.DEFINE_string("sequences", "none/dan,n/da", text, flag_values=f)
    text = "Of the learning rate, instead of the set's (T2T's legacy learning_rate 0.1 is 1.0)."
    flags.DEFINE_float("learning_rate_constant", None, text, lower_bound=0, flag_values=f)
    text = "How many runs of each, of the seeds 0, 1, ..."
    flags.DEFINE_integer("seeds", 3, text, lower_bound=1, upper_bound=1000, flag_values=f)
    whole("train_steps", 2000, "Steps of each run.", 1)
    whole("evaluations", 8, "How often each run is evaluated on its way.", 1)
    whole("eval_steps", 20, "At most this many batches for that; 0: all. The end has all.")
    text = "How many dev sentences to translate at the end; default: 200 of a translation; 0: none."
    flags.DEFINE_integer("bleu_sentences", None, text, lower_bound=0, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Trains what is not trained yet, and writes the report."""
    from t2t_repro.training import signals

    with signals.watching():
        _main(args)


def _main(args: flags.FlagValues) -> None:
    if args.t2t_usr_dir:
        from t2t_repro.interop import usr_dir

        usr_dir.load(args.t2t_usr_dir)
    for name in ("problem", "hparams_set", "data_dir", "output_dir"):
        if not getattr(args, name):
            raise UserError(
                f"Expected --{name}. Received: none. t2t-compare --help has an example."
            )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    plan = plan_of(args)
    output_dir = pathlib.Path(args.output_dir).expanduser()
    grid.begin(plan, output_dir)
    command = ["t2t-compare", *sys.argv[1:]]
    faults = run_cells(plan, output_dir, command, args.t2t_usr_dir)

    from t2t_repro.studies.compare import report as comparison_report

    report = comparison_report.write(plan, output_dir, shlex.join(command))
    for sentence in report.summary:
        print(sentence)
    print(f"Written to {report.html}, {report.markdown} and {report.results}.")
    if faults:
        cell, reason = next(iter(faults.items()))
        raise UserError(
            f"Expected all {len(plan.cells())} cells to end. Received: {len(faults)} that did not "
            f"and are not in the report, the first {cell}: {reason} The same command tries again."
        )


def plan_of(args: flags.FlagValues) -> Plan:
    """Returns the comparison that complete flags describe.

    Raises:
        UserError: if they do not describe one.
    """
    problem = registry.get_problem(args.problem)
    if problem.packed_length:
        raise UserError(
            "Expected a problem whose examples are sentences: they are compared one by one. "
            f"Received: {args.problem}, which packs them. Take the problem that it packs."
        )
    data_dir = pathlib.Path(args.data_dir).expanduser()
    if not any(data_dir.glob(f"{glob.escape(problem.dataset_filename())}-{Split.TRAIN}-*")):
        raise UserError(
            f"Expected the files of {args.problem} in --data_dir. Received: {data_dir} without "
            f"them. Make them: {problem.datagen_command(data_dir)}"
        )
    base = registry.get_hparams(args.hparams_set, args.hparams)
    bleu_sentences = args.bleu_sentences
    if bleu_sentences is None:
        translation = args.problem.startswith("translate_")
        bleu_sentences = grid.BLEU_SENTENCES if translation else 0
    return Plan(
        problem=args.problem,
        data_dir=os.path.abspath(data_dir),
        hparams_set=args.hparams_set,
        hparams=args.hparams,
        depths=grid.parse_numbers("depths", args.depths) or (base.num_hidden_layers,),
        warmups=grid.parse_numbers("warmup", args.warmup) or (base.learning_rate_warmup_steps,),
        sequences=grid.parse_sequences(args.sequences),
        seeds=args.seeds,
        train_steps=args.train_steps,
        learning_rate_constant=args.learning_rate_constant,
        evaluations=args.evaluations,
        eval_steps=args.eval_steps,
        bleu_sentences=bleu_sentences,
    )


def run_cells(
    plan: Plan, output_dir: pathlib.Path, command: Sequence[str], usr_dir: str | None
) -> dict[Cell, str]:
    """Runs the cells that have no result yet, each in a process of its own, one after another.

    Returns:
        {cell: why} for those that did not end.

    Raises:
        UserError: if the first one does not end, as the others would not either.
    """
    from t2t_repro.training.progress import duration

    cells = plan.cells()
    todo = [cell for cell in cells if not _is_finished(output_dir, cell)]
    if len(todo) < len(cells):
        print(f"{len(cells) - len(todo)} of {len(cells)} cells are finished already.", flush=True)
    faults: dict[Cell, str] = {}
    progress = _Progress(todo)
    for number, cell in enumerate(todo, start=1 + len(cells) - len(todo)):
        where = f"[{number}/{len(cells)}] {cell}"
        started = time.monotonic()
        reason = ""
        if not _is_finished(output_dir, cell):  # by another t2t-compare, meanwhile
            reason = _run_cell(plan, cell, output_dir, command, usr_dir, progress.shower(where))
        progress.done(cell)
        took = duration(time.monotonic() - started)
        if reason and number == 1:
            raise UserError(reason)
        if reason:
            faults[cell] = reason
        progress.say(f"{where}: {reason or _ending(output_dir, cell)} | {took}{progress.left()}")
    return faults


def _is_finished(output_dir: pathlib.Path, cell: Cell) -> bool:
    return (grid.run_of(output_dir, cell).path / grid.RESULT_FILE).is_file()


def _ending(output_dir: pathlib.Path, cell: Cell) -> str:
    """Returns how a finished cell ended, in words."""
    from t2t_repro.studies.compare import results

    return results.load_cell(output_dir, cell).ending()


def _run_cell(plan, cell, output_dir, command, usr_dir, show) -> str:
    """Runs a cell in a new process; returns why it did not end, or ""."""
    run = grid.run_of(output_dir, cell)
    run.path.mkdir(parents=True, exist_ok=True)
    log = run.path / LOG_FILE
    # Spawned, not forked: each process loads TensorFlow for itself, and gives all memory back.
    process = multiprocessing.get_context("spawn").Process(
        target=_work, args=(plan, cell, output_dir, command, usr_dir, log)
    )
    process.start()
    try:
        while process.is_alive():
            process.join(_POLL)
            show(run, plan.train_steps)
    except Interrupted as stop:
        if stop.signum == signal.SIGTERM:  # Ctrl-C reaches both
            process.terminate()
        process.join()
        raise
    if process.exitcode == 0:
        return ""
    if process.exitcode == -signal.SIGKILL:
        return "killed, as the system does where there is no memory."
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return (lines or [f"exit code {process.exitcode}, {log} is empty."])[-1]


def _work(plan, cell, output_dir, command, usr_dir, log: pathlib.Path) -> None:
    """The work of a cell's process: it writes to its log, and ends with its parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)  # as a kill: the next start goes on from the newest checkpoint

    threading.Thread(target=watch, daemon=True).start()
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from t2t_repro.training import signals

    try:
        with signals.watching():
            if usr_dir:
                from t2t_repro.interop import usr_dir as package

                package.load(usr_dir)
            from t2t_repro.studies.compare import cell as comparison_cell

            comparison_cell.run(plan, cell, output_dir, command)
    except (UserError, OSError) as error:
        print(f"{error}", flush=True)
        sys.exit(2)
    except Interrupted as stop:
        print(stop, flush=True)
        sys.exit(stop.exit_code)


class _Progress:
    """Says which cell runs, where it stands, and how long the rest will take.

    Args:
        todo: the cells that are to run. One costs its layers and, as much as two, the rest.
    """

    def __init__(self, todo: Sequence[Cell]):
        self._left = sum(self._cost(cell) for cell in todo)
        self._done = 0
        self._began = time.monotonic()
        self._terminal = sys.stdout.isatty()

    @staticmethod
    def _cost(cell: Cell) -> int:
        return cell.depth + 2

    def done(self, cell: Cell) -> None:
        """Counts a cell as done."""
        self._done += self._cost(cell)
        self._left -= self._cost(cell)

    def left(self) -> str:
        """Returns " | 12m 05s left", or "" at the end and before there is something to go by."""
        from t2t_repro.training.progress import duration

        if not self._done or not self._left:
            return ""
        seconds = (time.monotonic() - self._began) * self._left / self._done
        return f" | {duration(seconds)} left"

    def shower(self, where: str):
        """Returns a function that shows, in a terminal, how far a run is."""

        def show(run, steps: int) -> None:
            rows = [row for row in run.read_metrics() if row.get("kind") == "train"]
            if self._terminal and rows:
                text = f"{where}: step {rows[-1]['step']}/{steps}, loss {rows[-1]['loss']:.3f}"
                print(f"\r\x1b[K{text}{self.left()}", end="", flush=True)

        return show

    def say(self, text: str) -> None:
        """Prints a line of its own."""
        print(f"{chr(13)}\x1b[K{text}" if self._terminal else text, flush=True)


def console() -> None:
    """The console script."""
    cli.run("t2t-compare", __doc__, define_flags, main)


if __name__ == "__main__":
    console()

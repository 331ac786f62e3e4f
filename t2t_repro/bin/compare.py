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

import functools
import glob
import os
import pathlib
import shlex
import signal
import sys
import time
from collections.abc import Sequence

from absl import flags

from t2t_repro import cli, processes, progress, registry
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.progress import duration
from t2t_repro.run_directory import RunDirectory
from t2t_repro.studies.compare import grid
from t2t_repro.studies.compare.grid import Cell, Plan

LOG_FILE = "compare.log"  # in a cell's run directory


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
    cells = plan.cells()
    todo = [cell for cell in cells if not _is_finished(output_dir, cell)]
    if len(todo) < len(cells):
        print(f"{len(cells) - len(todo)} of {len(cells)} cells are finished already.", flush=True)
    faults: dict[Cell, str] = {}
    costs, done, began = sum(map(_cost, todo)), 0, time.monotonic()
    with progress.report("cells", costs, unit="") as advance:
        for number, cell in enumerate(todo, start=1 + len(cells) - len(todo)):
            where = f"[{number}/{len(cells)}] {cell}"
            started = time.monotonic()
            reason = ""
            if not _is_finished(output_dir, cell):  # by another t2t-compare, meanwhile
                show = functools.partial(_show, advance, where, plan.train_steps)
                reason = _run_cell(plan, cell, output_dir, command, usr_dir, show)
            if reason and number == 1:
                raise UserError(reason)
            if reason:
                faults[cell] = reason
            advance(_cost(cell))
            done += _cost(cell)
            now = time.monotonic()
            left = (now - began) * (costs - done) / done
            said = f"{where}: {reason or _ending(output_dir, cell)} | {duration(now - started)}"
            print(said + (f" | {duration(left)} left" if done < costs else ""), flush=True)
    return faults


def _cost(cell: Cell) -> int:
    """Returns what a cell costs: its layers and, as much as two, the rest."""
    return cell.depth + 2


def _show(advance: progress.Advance, where: str, steps: int, run: RunDirectory) -> None:
    """Shows how far a cell's run is."""
    rows = [row for row in run.read_metrics() if row.get("kind") == "train"]
    if rows:
        advance(0, f"{where}: step {rows[-1]['step']}/{steps}, loss {rows[-1]['loss']:.3f}")


def _is_finished(output_dir: pathlib.Path, cell: Cell) -> bool:
    return (grid.run_of(output_dir, cell).path / grid.RESULT_FILE).is_file()


def _ending(output_dir: pathlib.Path, cell: Cell) -> str:
    """Returns how a finished cell ended, in words."""
    from t2t_repro.studies.compare import results

    return results.load_cell(output_dir, cell).ending()


def _run_cell(plan, cell, output_dir, command, usr_dir, show) -> str:
    """Runs a cell in a process of its own; returns why it did not end, or ""."""
    run = grid.run_of(output_dir, cell)
    run.path.mkdir(parents=True, exist_ok=True)
    log = run.path / LOG_FILE

    def watch(pid: int) -> bool:
        show(run)
        return True

    work = (plan, cell, output_dir, command, usr_dir)
    ended = processes.run(_work, *work, log=log, watch=watch)
    if ended.code == 0:
        return ""
    if ended.code == -signal.SIGKILL:
        return "killed, as the system does where there is no memory."
    return ended.last_line() or f"exit code {ended.code}, {log} is empty."


def _work(plan, cell, output_dir, command, usr_dir) -> None:
    """The work of a cell's process."""
    from t2t_repro.training import signals

    with signals.watching():
        if usr_dir:
            from t2t_repro.interop import usr_dir as package

            package.load(usr_dir)
        from t2t_repro.studies.compare import cell as comparison_cell

        comparison_cell.run(plan, cell, output_dir, command)


def console() -> None:
    """The console script."""
    cli.run("t2t-compare", __doc__, define_flags, main)


if __name__ == "__main__":
    console()

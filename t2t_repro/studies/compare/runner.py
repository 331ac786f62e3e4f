"""t2t-compare as one call: trains the cells that are not finished yet, and writes the report."""

import dataclasses
import functools
import pathlib
import shlex
import signal
import time

from t2t_repro import processes, progress, signals
from t2t_repro.errors import UserError
from t2t_repro.progress import duration
from t2t_repro.studies.compare import grid as grids
from t2t_repro.studies.compare.grid import Cell, Grid

LOG_FILE = "compare.log"  # in a cell's run directory


@dataclasses.dataclass(frozen=True)
class Request:
    """What t2t-compare is asked for.

    Attributes:
        grid: what to compare.
        output_dir: where to.
        command: the command line, kept in each run directory and in the report.
        usr_dir: the user's own package; None: there is none.
        worker_gpu: on how many devices each cell is trained; None: as t2t-trainer finds them.
    """

    grid: Grid
    output_dir: pathlib.Path
    command: tuple[str, ...]
    usr_dir: str | None = None
    worker_gpu: int | None = None

    def is_finished(self, cell: Cell) -> bool:
        """Whether a cell has its result."""
        return (grids.run_of(self.output_dir, self.grid, cell).path / grids.RESULT_FILE).is_file()


def run(request: Request) -> None:
    """Trains what is not trained yet, writes the report, and prints its sentences.

    Raises:
        UserError: if the folder holds another comparison, or a cell did not end; all others are in
            the report.
    """
    grids.begin(request.grid, request.output_dir)
    faults = run_cells(request)

    from t2t_repro.studies.compare import report

    written = report.write(request.grid, request.output_dir, shlex.join(request.command))
    print("\n".join(written.summary))
    print(f"Written to {written.html}, {written.markdown} and {written.results}.")
    if faults:
        cell, reason = next(iter(faults.items()))
        raise UserError(
            f"Expected all {len(request.grid.cells())} cells to end. Received: {len(faults)} that "
            f"did not and are not in the report, the first {cell}: {reason} The same command tries "
            "again."
        )


def run_cells(request: Request) -> dict[Cell, str]:
    """Runs the cells that have no result yet, each in a process of its own, one after another.

    Returns:
        {cell: why} for those that did not end.

    Raises:
        UserError: if the first one does not end, as the others would not either.
    """
    cells = request.grid.cells()
    todo = [cell for cell in cells if not request.is_finished(cell)]
    if len(todo) < len(cells):
        print(f"{len(cells) - len(todo)} of {len(cells)} cells are finished already.", flush=True)
    faults: dict[Cell, str] = {}
    told: set[str] = set()
    costs, done, began = sum(map(_cost, todo)), 0, time.monotonic()
    with progress.report("cells", costs, unit="") as advance:
        for number, cell in enumerate(todo, start=1 + len(cells) - len(todo)):
            where = f"[{number}/{len(cells)}] {cell}"
            started = time.monotonic()
            reason = ""
            if not request.is_finished(cell):  # by another t2t-compare, meanwhile
                reason = _run_cell(request, cell, functools.partial(advance, 0), where, told)
            if reason and number == 1:
                raise UserError(reason)
            if reason:
                faults[cell] = reason
            advance(_cost(cell))
            done += _cost(cell)
            now = time.monotonic()
            left = (now - began) * (costs - done) / done
            said = f"{where}: {reason or _ending(request, cell)} | {duration(now - started)}"
            print(said + (f" | {duration(left)} left" if done < costs else ""), flush=True)
    return faults


def _cost(cell: Cell) -> int:
    """Returns what a cell costs: its layers and, as much as two, the rest."""
    return (cell.depth or 0) + 2


def _ending(request: Request, cell: Cell) -> str:
    """Returns how a finished cell ended, in words."""
    from t2t_repro.studies.compare import cell_result

    return cell_result.load(request.output_dir, request.grid, cell).ending()


def _run_cell(request: Request, cell: Cell, show, where: str, told: set[str]) -> str:
    """Runs a cell in a process of its own; returns why it did not end, or "".

    A warning in its log that is not among `told` is passed on, and added.
    """
    run = grids.run_of(request.output_dir, request.grid, cell)
    run.path.mkdir(parents=True, exist_ok=True)
    log = run.path / LOG_FILE

    def pass_on() -> None:
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        for line in said.splitlines(keepends=True):
            if line.startswith("Warning: ") and line.endswith("\n") and line not in told:
                told.add(line)
                progress.on_stderr(line.rstrip())

    def watch(pid: int) -> bool:
        pass_on()
        rows = [row for row in run.read_metrics() if row.get("kind") == "train"]
        if rows:
            at = f"step {rows[-1]['step']}/{request.grid.train_steps}"
            show(f"{where}: {at}, loss {rows[-1]['loss']:.3f}")
        return True

    ended = processes.run(_work, request, cell, log=log, watch=watch)
    pass_on()
    if ended.code == 0:
        return ""
    if ended.code == -signal.SIGKILL:
        return "killed, as the system does where there is no memory."
    return ended.last_line() or f"exit code {ended.code}, {log} is empty."


def _work(request: Request, cell: Cell) -> None:
    """The work of a cell's process."""
    with signals.watching():
        if request.usr_dir:
            from t2t_repro.interop import usr_dir

            usr_dir.load(request.usr_dir)
        from t2t_repro.studies.compare import cell as comparison_cell

        how = (request.command, request.worker_gpu, request.usr_dir)
        comparison_cell.run(request.grid, cell, request.output_dir, *how)

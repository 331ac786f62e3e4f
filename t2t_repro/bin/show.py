"""t2t-show: shows a run in a terminal, also while it trains.

  t2t-show RUN
  t2t-show RUN --json            the same for programs
  t2t-show RUN --verify          checks a run or an export against provenance.json

It shows the hparams that differ from the set, the parameters by component, the curves, the
checkpoints with their dev scores (best and last are marked), and what to do next.

--verify hashes the run, its vocabulary, the data and the raw text again, and repeats 20
translations. It prints a line for each. The exit code is 1 if anything differs.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import statistics
import sys
from collections.abc import Sequence

from absl import flags

from t2t_repro import cli
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export import forms
from t2t_repro.fields import flag
from t2t_repro.progress import took
from t2t_repro.run_directory import RunDirectory
from t2t_repro.views.run_view import Checkpoint, RunView, next_steps, view

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 50  # of a curve
_ROWS = 12  # of the table of checkpoints
_COLUMNS = ("loss", "bleu", "approx_bleu_score", "accuracy", "accuracy_per_sequence")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShowFlags:
    """The flags of t2t-show."""

    output_dir: str | None = flag(None, "The run directory, as in t2t-show RUN.")
    json: bool = flag(False, "Print JSON instead of text.")
    verify: bool = flag(False, "Check hashes and translations against provenance.json.")
    t2t_usr_dir: str | None = flag(None, "Your Python package of hparam sets.")


def main(args: flags.FlagValues) -> None:
    """Shows the run that the flags name."""
    if not args.output_dir:
        raise UserError(
            "Expected a run directory, as in t2t-show RUN. Received: none. Give the --output_dir "
            "that t2t-trainer was given."
        )
    if args.verify:
        verify(pathlib.Path(args.output_dir).expanduser(), as_json=args.json)
        return
    found = view(RunDirectory(args.output_dir))
    if args.json:
        print(json.dumps({**dataclasses.asdict(found), "next": next_steps(found)}, indent=1))
    else:
        show(found)


def verify(folder: pathlib.Path, *, as_json: bool) -> None:
    """Prints the checks of a run or an export; exits with 1 if something differs."""
    from t2t_repro import provenance

    record, translate = provenance.read(folder), None
    if record and record.kind != provenance.RUN:
        settings = DecodeHParams(**record.decoding)  # type: ignore[arg-type]
        form = forms.form_of(record.kind)
        translate = functools.partial(form.translate, folder, record.problem, settings)
    found = []
    for state, what in provenance.verify(folder, translate):
        found.append((state, what))
        if not as_json:
            print(f"{state:<8}  {what}", flush=True)
    bad = sum(state in (provenance.CHANGED, provenance.MISSING) for state, _ in found)
    if as_json:
        rows = [{"state": state, "what": what} for state, what in found]
        print(json.dumps({"verified": not bad, "checks": rows}, indent=1))
    else:
        print(f"Changed or missing: {bad} of {len(found)} checks." if bad else "Nothing changed.")
    if bad:
        sys.exit(1)


def show(of: RunView) -> None:
    """Prints a run."""
    from rich import console

    out = console.Console(highlight=False, markup=False, soft_wrap=True)
    out.print(f"{of.path}: {of.problem}, {of.hparams_set}", style="bold")
    out.print(_standing(of))
    out.print(f"t2t_repro {of.version}, seed {of.random_seed}, times started: {len(of.commands)}")
    out.print("\nChanged from the hparam set" if of.changes else "", style="bold", end="")
    out.print(_changes(of))
    _parameters(of, out)
    _curves(of, out)
    _checkpoints(of, out)
    out.print("\nNext", style="bold")
    for text in next_steps(of):
        out.print(f"  {text}")


def sparkline(values: Sequence[float]) -> str:
    """Returns values as a line of at most _WIDTH bars, each the mean of its share of them."""
    width = min(_WIDTH, len(values))
    cuts = [i * len(values) // width for i in range(width + 1)]
    means = [statistics.fmean(values[a:b]) for a, b in itertools.pairwise(cuts)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * scale)] for value in means)


def _standing(of: RunView) -> str:
    if of.trainer:
        doing = f"training now ({of.trainer})"
    elif any(each.averaged for each in of.checkpoints):
        steps = of.checkpoints[-1].averaged
        doing = f"average of {len(steps)} checkpoints: {', '.join(map(str, steps))}"
        return f"step {of.step}, {doing}"
    elif of.checkpoints and of.checkpoints[-1].whole and not of.checkpoints[-1].trains_on:
        return f"step {of.step:,}, weights only (no optimizer state)"
    else:
        early = "stopped early" if of.stopped_early else "stopped"
        doing = "finished" if of.step >= of.train_steps else early
    share = f"step {of.step:,} of {of.train_steps:,} ({of.step / of.train_steps:.0%})"
    ago = "" if of.seconds_since is None else f", last report {took(of.seconds_since)} ago"
    return f"{share}, {doing}{ago}"


def _changes(of: RunView) -> str:
    if of.changes is None:
        return f"Unknown hparam set {of.hparams_set}. Give its Python package: --t2t_usr_dir=DIR."
    if not of.changes:
        return "All hparams are those of the hparam set."
    width = max(map(len, of.changes))
    lines = [f"  {name:{width}}  {a!r} -> {b!r}" for name, (a, b) in sorted(of.changes.items())]
    return "\n" + "\n".join(lines)


def _parameters(of: RunView, out) -> None:
    total = sum(of.parameters.values())
    out.print("\nParameters" if total else "\nParameters: unknown yet", style="bold")
    for name, count in of.parameters.items():
        out.print(f"  {name:30}{count:>14,}  {count / total:5.1%}")
    if total:
        out.print(f"  {'all':30}{total:>14,}")


def _curves(of: RunView, out) -> None:
    shown = [name for name in of.curves if name.partition(" ")[2] in _COLUMNS]
    if shown:
        out.print("\nCurves", style="bold")
    for name in shown:
        values = [value for _, value in of.curves[name]]
        ends = f"{values[0]:.4f} -> {values[-1]:.4f}"
        out.print(f"  {name:30}{sparkline(values)}  {ends}")
    for metric, (step, value) in of.best.items():
        if metric in _COLUMNS:
            out.print(f"  best dev {metric:21} {value:.4f} at step {step}")


def _checkpoints(of: RunView, out) -> None:
    count = len(of.checkpoints)
    out.print(f"\nCheckpoints ({count})" if count else "\nCheckpoints: none", style="bold")
    metrics = [name for name in _COLUMNS if any(name in c.scores for c in of.checkpoints)]
    if count:
        heads = "".join(f"{name:>{max(10, len(name) + 2)}}" for name in metrics)
        out.print(f"  {'step':>9}{'MB':>9}{heads}")
    for number, each in enumerate(of.checkpoints):
        if number == 1 and count > _ROWS:
            out.print(f"  ... {count - _ROWS} more ...")
        if not 1 <= number <= count - _ROWS:
            out.print(_row(of, each, metrics, last=number == count - 1))
    for step in of.being_written:
        out.print(f"  {step:>9}  is being saved")
    if of.kept_best:
        out.print(f"  best checkpoints kept in {of.path}/best: {', '.join(map(str, of.kept_best))}")


def _row(of: RunView, each: Checkpoint, metrics: Sequence[str], last: bool) -> str:
    cells = "".join(
        f" {_score(each.scores.get(name, '')):>{max(9, len(name) + 1)}}" for name in metrics
    )
    marks = ["last"] * last + ["INCOMPLETE"] * (not each.whole)
    marks += [f"best {name}" for name in metrics if of.best.get(name, (-1,))[0] == each.step]
    return f"  {each.step:>9}{each.megabytes:>9.1f}{cells}  {', '.join(marks)}".rstrip()


def _score(value: float | str) -> str:
    """Returns a score in some nine characters."""
    if isinstance(value, str):
        return value
    return f"{value:.4f}" if abs(value) < 10_000 else f"{value:.6g}"


console = cli.program(__name__, "t2t-show", __doc__, (ShowFlags,), main, positional="output_dir")

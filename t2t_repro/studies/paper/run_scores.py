"""The scores of runs: what t2t-bleu and t2t_repro.parsing.score wrote about them."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t_repro import registry, schema
from t2t_repro.errors import UserError
from t2t_repro.problem import OutputType
from t2t_repro.run_directory import RunDirectory
from t2t_repro.studies.paper import run_records
from t2t_repro.studies.paper.run_records import RunRecord

BLEU_FILE = "bleu.json"
F1_FILE = "f1.json"


@dataclass(frozen=True)
class RunScore:
    """A run and a score of it, BLEU or F1; what it has not is None."""

    path: str
    problem: str
    hparams_set: str
    step: int | None  # of the run's last metrics
    bleu: dict[str, Any] | None  # as `BleuScores.as_dict`
    f1: dict[str, Any] | None  # as `parseval.score`
    record: RunRecord


def named(text: str) -> list[tuple[str, str]]:
    """Returns the folders and files in "DIR,DIR=FILE", "" where there is no file.

    What is a folder as it stands is that folder, whatever its name has of these signs.
    """

    def is_folder(name: str) -> bool:
        return os.path.isdir(os.path.expanduser(name))

    text, found = text.strip(), []
    for piece in filter(None, map(str.strip, [text] if is_folder(text) else text.split(","))):
        folder, _, file = (piece, "", "") if is_folder(piece) else piece.partition("=")
        found.append((folder, file))
    return found


def read(text: str, *, scored: bool = True) -> list[RunScore]:
    """Returns the scores of the runs in "DIR,DIR=FILE": FILE, else bleu.json and f1.json in DIR.

    A DIR that is no run but has some stands for those in it that have a score.

    Args:
        text: names the runs, as `named` takes them apart.
        scored: whether a run must have a score.

    Raises:
        UserError: if a folder is no run, has no score that it must have, or a file holds none.
    """
    scores = []
    for folder, file in named(text):
        run = RunDirectory(folder)
        inside = [] if file or run.exists() else sorted(run.path.glob("*/run.json"))
        if inside:
            runs = [RunDirectory(path.parent) for path in inside]
            found = [score for each in runs for score in _found(each, scored)]
        else:
            run.config()  # an error when it is none
            found = [_given(run, file)] if file else _found(run, scored)
        if not found:
            raise UserError(
                f"Expected {BLEU_FILE} or {F1_FILE} in {run.path}, a score of the run. Received: "
                f"neither. {_how_to_score(run)}"
            )
        scores += found
    return scores


def _found(run: RunDirectory, scored: bool) -> list[RunScore]:
    """Returns what a run has."""
    files = [path for name in (BLEU_FILE, F1_FILE) if (path := run.path / name).is_file()]
    of_table3 = run_records.of(run).dev_bleu is not None
    if not files and (of_table3 or not scored):
        return [_of(run)]
    return [_read_file(run, path) for path in files]


def _given(run: RunDirectory, file: str) -> RunScore:
    path = Path(file).expanduser()
    if not path.is_file():
        raise UserError(
            f"Expected the JSON file of a score. Received: {file!r} for {run.path}, which does not "
            f"exist. {_how_to_score(run)}"
        )
    return _read_file(run, path)


def _read_file(run: RunDirectory, path: Path) -> RunScore:
    try:
        values = schema.read(path, dict[str, Any])
        bleu = values if "sacrebleu" in values else None
        f1 = values if "all" in values else None
        if bleu is not None:
            float(bleu["sacrebleu"]["score"]), float(bleu["compound_split"]["score"])
            str(bleu["sacrebleu"]["signature"])
        elif f1 is not None:
            float(f1["all"]["f1"])
        else:
            raise KeyError("neither 'sacrebleu' nor 'all'")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"Expected in {path} what t2t-bleu --translation or t2t_repro.parsing.score writes "
            f"with --json_file. Received: {error!r}. {_how_to_score(run)}"
        ) from error
    return _of(run, bleu, f1)


def _of(run: RunDirectory, bleu: Any = None, f1: Any = None) -> RunScore:
    config = run.config()
    steps = [row["step"] for row in run.read_metrics() if "step" in row]
    step = max(steps, default=None)
    path, record = str(run.path), run_records.of(run)
    return RunScore(path, config.problem, config.hparams_set, step, bleu, f1, record)


def _how_to_score(run: RunDirectory) -> str:
    ways = {
        OutputType.TEXT: "t2t-bleu --translation=OUT --reference=REFERENCE "
        f"--json_file={run.path / BLEU_FILE}",
        OutputType.TREE: "python -m t2t_repro.parsing.score --gold=TREES --predicted=OUT "
        "--gold_parts_of_speech "
        f"--json_file={run.path / F1_FILE}",
    }
    with contextlib.suppress(UserError):  # of a problem of the user's that is not loaded
        written = registry.get_problem(run.config().problem).output_type
        ways = {kind: way for kind, way in ways.items() if kind == written} or ways
    return (
        f"Make one: t2t-decoder --output_dir={run.path} --decode_from_file=SOURCE "
        f"--decode_to_file=OUT, then {' or '.join(ways.values())}."
    )

"""The scores of runs: what t2t-bleu and t2t-score-trees wrote about them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory

BLEU_FILE = "bleu.json"
F1_FILE = "f1.json"


@dataclass(frozen=True)
class RunScore:
    """A run and a score of it: either BLEU or F1; the other is None."""

    path: str
    problem: str
    hparams_set: str
    step: int | None  # of the run's last metrics
    bleu: dict[str, Any] | None  # as `BleuScores.as_dict`
    f1: dict[str, Any] | None  # as `parseval.score`


def read(text: str) -> list[RunScore]:
    """Returns the scores of the runs in "DIR,DIR=FILE": FILE, else bleu.json and f1.json in DIR.

    Raises:
        UserError: if a folder is no run, has no score, or a file holds none.
    """
    scores = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        folder, _, file = piece.partition("=")
        run = RunDirectory(folder)
        run.config()  # an error when it is none
        if file:
            files = [Path(file).expanduser()]
            if not files[0].is_file():
                raise UserError(
                    f"Expected the JSON file of a score. Received: {file!r} for {folder}, which "
                    f"does not exist. {_how_to_score(run)}"
                )
        else:
            files = [path for name in (BLEU_FILE, F1_FILE) if (path := run.path / name).is_file()]
        if not files:
            raise UserError(
                f"Expected {BLEU_FILE} or {F1_FILE} in {run.path}, a score of the run. Received: "
                f"neither. {_how_to_score(run)}"
            )
        scores += [_read_file(run, path) for path in files]
    return scores


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
            f"Expected in {path} what t2t-bleu --translation or t2t-score-trees writes with "
            f"--json_file. Received: {error!r}. {_how_to_score(run)}"
        ) from error
    config = run.config()
    steps = [row["step"] for row in run.read_metrics() if "step" in row]
    step = max(steps, default=None)
    return RunScore(str(run.path), config.problem, config.hparams_set, step, bleu, f1)


def _how_to_score(run: RunDirectory) -> str:
    return (
        f"Make one: t2t-decoder --output_dir={run.path} --decode_from_file=SOURCE "
        "--decode_to_file=OUT, then "
        f"t2t-bleu --translation=OUT --reference=REFERENCE --json_file={run.path / BLEU_FILE} or "
        f"t2t-score-trees --gold=TREES --predicted_tags=OUT --json_file={run.path / F1_FILE}."
    )

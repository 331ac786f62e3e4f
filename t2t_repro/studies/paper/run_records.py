"""What a run's files say of it beside its scores: perplexity, parameters, and what it cost."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from t2t_repro.training.state import read_state_file, usual_sample

AVERAGED = "averaged"  # the folder in a run of its averaged checkpoints
DEV_BLEU_FILE = "bleu-dev.json"
_PAST_ANY = 100.0  # nats: no model's loss, but that of a training that diverged
_EVALUATION = re.compile(r"eval-dev-(\d+)\.json")


class Cost(NamedTuple):
    """What training took: the hours of the steps alone, on how many devices, and the TFLOP/s of
    the matrix products of each, as measured before training."""

    hours: float
    devices: int
    rate: float


@dataclass(frozen=True)
class RunRecord:
    """What is known of a run; None: it is not.

    Attributes:
        perplexity: of a word piece of dev, without label smoothing, of the averaged weights where
            there are some; a training that diverged has none.
        dev_bleu: sacreBLEU of dev.
        parameters: of the model.
        cost: of its training.
    """

    perplexity: float | None
    dev_bleu: float | None
    parameters: int | None
    cost: Cost | None


def of(run: RunDirectory) -> RunRecord:
    """Returns what the files of a run say.

    Raises:
        UserError: if one is not as the programs write it.
    """
    loss, plan, bleu = evaluation_of(run), _plan(run), None
    if (file := run.path / DEV_BLEU_FILE).is_file():
        bleu = _number(file, _read(file), "sacrebleu", "score")
    if loss is None:
        rows = [
            row for row in run.read_metrics() if row.get("split") == Split.EVAL and "loss" in row
        ]
        usual = usual_sample(
            str(row.get("sample", "")) for row in rows
        )  # others cannot be compared
        rows = [row for row in rows if row.get("sample", usual) == usual]
        loss = float(rows[-1]["loss"]) if rows else None
    return RunRecord(
        perplexity=math.exp(loss) if loss is not None and loss < _PAST_ANY else None,  # nan is not
        dev_bleu=bleu,
        parameters=int(_number(run.path / PLAN, plan, "parameters")) if plan else None,
        cost=_cost(run, plan) if plan else None,
    )


def evaluation_of(run: RunDirectory) -> float | None:
    """Returns the loss on dev of a run's averaged weights, the newest; None: t2t-eval was not."""
    found = {}
    for path in (run.path / AVERAGED).glob("eval-dev-*.json"):
        if match := _EVALUATION.fullmatch(path.name):
            found[int(match[1])] = path
    if not found:
        return None
    path = found[max(found)]
    return _number(path, _read(path), "metrics", "loss")


def averaged_in(run: RunDirectory) -> int | None:
    """Returns how many checkpoints a run's average is of; None: it has none.

    Raises:
        UserError: if the average does not say it.
    """
    averages = RunDirectory(run.path / AVERAGED)
    if not (step := averages.newest_step()):
        return None
    return len(read_state_file(averages.checkpoints_dir / f"ckpt-{step}").averaged)


def _plan(run: RunDirectory) -> dict[str, Any] | None:
    file = run.path / PLAN
    return _read(file) if file.is_file() else None


def _cost(run: RunDirectory, plan: dict[str, Any]) -> Cost | None:
    """Returns what the steps took that metrics.jsonl tells of; None: it tells of none."""
    file = run.path / TRAINING_DATA
    if not file.is_file():
        return None
    data, name = _read(file), run.path / PLAN
    batches = _number(file, data, "batches")
    tokens_a_step = _number(file, data, "targets_tokens") / batches if batches else 0.0
    rows = [row for row in run.read_metrics() if row.get("kind") == "train" and "step" in row]
    last, seconds, counted = 0, 0.0, 0
    for row in sorted(rows, key=lambda row: row["step"]):
        steps, rate = row["step"] - last, float(row.get("tokens_per_second") or 0)
        last = row["step"]
        if rate > 0:  # a process's first row has none
            seconds, counted = seconds + steps * tokens_a_step / rate, counted + steps
    if not counted:
        return None
    replicas = int(_number(name, plan, "machine", "replicas"))
    return Cost(
        hours=seconds * last / counted / 3600,
        devices=replicas if plan["machine"].get("kind") == "GPU" else 1,
        rate=_number(name, plan, "machine", "rate") / 1e12,
    )


def _read(file: Path) -> dict[str, Any]:
    return schema.read(file, dict[str, Any])


def _number(file: Path, values: Any, *keys: str) -> float:
    try:
        for key in keys:
            values = values[key]
        return float(values)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"Expected the number {'.'.join(keys)} in {file}, as the programs write it. Received: "
            f"{error!r}. Remove the file, and make it anew."
        ) from error

"""What runs say of themselves: BLEU, F1, perplexity, parameters, and what training cost."""

import math
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro import schema
from t2t_repro.problem import Split
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from t2t_repro.training.state import usual_sample

AVERAGED = "averaged"  # the folder in a run of its averaged checkpoints
BLEU_FILE, DEV_BLEU_FILE, F1_FILE = "bleu.json", "bleu-dev.json", "f1.json"
_PAST_ANY = 100.0  # nats: no model's loss, but that of a training that diverged


class Cost(NamedTuple):
    """What training took: the hours of the steps alone, on how many devices, and the TFLOP/s of
    the matrix products of each, as measured before training."""

    hours: float
    devices: int
    rate: float


class RunRecord(NamedTuple):
    """What is known of a run; None: it is not.

    Attributes:
        path, problem, hparams_set: of the run.
        step: of its last metrics.
        bleu: as t2t-bleu's --json_file; f1: as that of the parses' scores.
        perplexity: of a word piece of dev, without label smoothing, of the averaged weights where
            there are some; a training that diverged has none.
        dev_bleu: sacreBLEU of dev.
        parameters: of the model.
        cost: of its training.
    """

    path: str
    problem: str
    hparams_set: str
    step: int | None
    bleu: dict[str, Any] | None
    f1: dict[str, Any] | None
    perplexity: float | None
    dev_bleu: float | None
    parameters: int | None
    cost: Cost | None


def read(text: str) -> list[RunRecord]:
    """Returns what the runs in "DIR,DIR" say; a DIR that is no run stands for those in it.

    Raises:
        UserError: if a folder is no run and has none.
    """
    found = []
    for folder in filter(None, map(str.strip, text.split(","))):
        run = RunDirectory(folder)
        inside = [] if run.exists() else sorted(run.path.glob("*/run.json"))
        if not inside:
            run.config()  # an error when it is none
        found += [of(RunDirectory(path.parent)) for path in inside] or [of(run)]
    return found


def of(run: RunDirectory) -> RunRecord:
    """Returns what the files of a run say."""
    config, rows, plan = run.config(), run.read_metrics(), _read(run.path / PLAN)
    loss, dev = evaluation_of(run), _read(run.path / DEV_BLEU_FILE)
    if loss is None:
        evaluated = [row for row in rows if row.get("split") == Split.EVAL and "loss" in row]
        usual = usual_sample(str(row.get("sample", "")) for row in evaluated)
        losses = [row["loss"] for row in evaluated if row.get("sample", usual) == usual]
        loss = float(losses[-1]) if losses else None
    return RunRecord(
        *(str(run.path), config.problem, config.hparams_set),
        step=max((row["step"] for row in rows if "step" in row), default=None),
        bleu=_read(run.path / BLEU_FILE),
        f1=_read(run.path / F1_FILE),
        perplexity=math.exp(loss) if loss is not None and loss < _PAST_ANY else None,  # nan is not
        dev_bleu=dev["sacrebleu"]["score"] if dev else None,
        parameters=plan.get("parameters") if plan else None,
        cost=_cost(run, rows, plan),
    )


def evaluation_of(run: RunDirectory) -> float | None:
    """Returns the loss on dev of a run's averaged weights, the newest; None: t2t-eval was not."""
    paths = (run.path / AVERAGED).glob("eval-dev-*.json")
    newest = max(paths, key=lambda path: int(path.stem.rpartition("-")[2]), default=None)
    found = newest and _read(newest)
    return float(found["metrics"]["loss"]) if found else None


def _cost(run: RunDirectory, rows: list[dict], plan: dict[str, Any] | None) -> Cost | None:
    """Returns what the steps took that metrics.jsonl tells of; None: it tells of none."""
    data, machine = _read(run.path / TRAINING_DATA), (plan or {}).get("machine", {})
    if not data or not data["batches"] or "rate" not in machine:
        return None
    tokens_a_step = data["targets_tokens"] / data["batches"]
    last, seconds, counted = 0, 0.0, 0
    for row in rows:
        if row.get("kind") == "train" and "step" in row:
            steps, last = row["step"] - last, row["step"]
            if rate := row.get("tokens_per_second"):  # a process's first row has none
                seconds, counted = seconds + steps * tokens_a_step / rate, counted + steps
    if not counted:
        return None
    devices = machine["replicas"] if machine.get("kind") == "GPU" else 1
    return Cost(seconds * last / counted / 3600, devices, machine["rate"] / 1e12)


def _read(file: Path) -> dict[str, Any] | None:
    return schema.read(file, dict[str, Any]) if file.is_file() else None

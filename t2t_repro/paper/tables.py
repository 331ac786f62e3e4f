"""The paper's tables 2 to 4, with runs beside them: what their files say."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_repro import registry, schema
from t2t_repro.config import HParams
from t2t_repro.models import parameters
from t2t_repro.paper import published
from t2t_repro.problem import Split
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from t2t_repro.study.tables import Table
from t2t_repro.training import trainable
from t2t_repro.training.state import usual_sample

AVERAGED = "averaged"  # the folder in a run of its averaged checkpoints
BLEU_FILE, DEV_BLEU_FILE, F1_FILE = "bleu.json", "bleu-dev.json", "f1.json"


def runs_in(folder: str) -> list[RunDirectory]:
    """Returns a run, or those in a folder."""
    run = RunDirectory(folder)
    inside = [run.path] if run.exists() else sorted(f.parent for f in run.path.glob("*/run.json"))
    return [RunDirectory(path) for path in inside]


def flop_by_time(hours: float, devices: int, tflops: float) -> float:
    """Returns what training cost as the paper has it: time by devices by their sustained rate."""
    return hours * 3600 * devices * tflops * 1e12


def cost(run: RunDirectory) -> tuple[float, int, float] | None:
    """Returns the hours of a run's steps, on how many devices, and the TFLOP/s of the matrix
    products of each, as measured before training; None: they are not known."""
    machine = _read(run.path / PLAN).get("machine", {})
    data = _read(run.path / TRAINING_DATA)
    rows = [row for row in run.read_metrics() if row.get("kind") == "train"]
    rates = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    if not (rates and data and "rate" in machine):
        return None
    batches = rows[-1]["step"] * trainable.batches_per_step(run.config.hparams)
    tokens = batches * data["targets_tokens"] / data["batches"]
    devices = machine["replicas"] if machine["kind"] == "GPU" else 1
    return tokens / statistics.harmonic_mean(rates) / 3600, devices, machine["rate"] / 1e12


def perplexity(run: RunDirectory) -> float | None:
    """Returns that of a word piece of dev, without label smoothing: of the newest average of a
    run's checkpoints, else of the run at its last evaluation; None: there was none."""
    files = (run.path / AVERAGED).glob("eval-dev-*.json")
    whole = {path.stem.rpartition("eval-dev-")[2]: path for path in files}  # or of a part of dev
    if steps := [step for step in whole if step.isdigit()]:
        loss = _read(whole[max(steps, key=int)])["metrics"]["loss"]
    else:
        rows = [row for row in run.read_metrics() if row.get("split") == Split.EVAL]
        usual = usual_sample(str(row.get("sample", "")) for row in rows)
        rows = [row for row in rows if row.get("sample", usual) == usual and "loss" in row]
        loss = rows[-1]["loss"] if rows else None
    return None if loss is None else math.exp(min(float(loss), 700.0))


def _read(file: Path) -> dict[str, Any]:
    """Returns what a file of a run holds; {}: there is none."""
    return schema.read(file, dict[str, Any]) if file.is_file() else {}


def table2(runs: Sequence[RunDirectory] = ()) -> list[Table]:
    """Returns the paper's systems and the runs that have a BLEU."""
    rows: list[tuple] = [
        (*system, system.bleu_ende and 0.978 * system.bleu_ende - 0.05)  # NVIDIA's line
        for system in published.TABLE2
    ]
    notes = [
        "BLEU: tokenised, compounds split. sacreBLEU of the paper's systems: estimated as 0.978 x "
        "BLEU - 0.05, a line fitted to 2,000 checkpoints by NVIDIA. FLOP: hours x devices x FLOP/s "
        f"of a device in matrix products; for the paper's Transformer, {published.GPUS} P100 at "
        f"{published.SUSTAINED_TFLOPS} TFLOP/s.",
    ]
    for run in runs:
        if bleu := _read(run.path / BLEU_FILE):
            problem, took = run.config.problem, cost(run)
            values = bleu["compound_split"]["score"], took and flop_by_time(*took)
            pairs = [(None, v) if "enfr" in problem else (v, None) for v in values]
            rows.append((str(run.path), *pairs[0], *pairs[1], bleu["sacrebleu"]["score"]))
            said = "; {:.3g} hours x {} x {:.3g} TFLOP/s".format(*took) if took else ""
            notes.append(f"{run.path}: {problem}; {bleu['sacrebleu']['signature']}{said}")
    heads = (
        "system | BLEU En-De :.4g | BLEU En-Fr :.4g | FLOP En-De :.1e | FLOP En-Fr :.1e | "
        "sacreBLEU :.1f"
    )
    title = "Table 2: BLEU on newstest2014 and training FLOPs"
    return [Table("2", title, heads, rows, notes)]


def settings(hparams: HParams) -> dict[str, float]:
    """Returns what the columns of table 3 say of a model."""
    depth = hparams.hidden_size
    return {
        "N": hparams.num_hidden_layers,
        "d": depth,
        "d_ff": hparams.filter_size,
        "h": hparams.num_heads,
        "d_k": (hparams.attention_key_channels or depth) // hparams.num_heads,
        "d_v": (hparams.attention_value_channels or depth) // hparams.num_heads,
        "drop": hparams.layer_prepostprocess_dropout,
        "eps": hparams.label_smoothing,
        "k steps": hparams.train_steps / 1000,
    }


def table3(runs: Sequence[RunDirectory] = ()) -> list[Table]:
    """Returns the variations with the sets that are they, their parameters, and runs."""
    rows: list[tuple] = []
    for row in published.TABLE3:
        changes = row.changes if rows else published.BASE
        ours = parameters.count(registry.get_hparams(row.hparams_set), published.VOCABULARY).total
        own = (dict.fromkeys(published.BASE) | changes).values()
        scores = (row.perplexity, row.bleu, row.million_parameters)
        rows.append((row.name, *own, *scores, ours / 1e6))
    for run in runs:
        known = perplexity(run), _read(run.path / DEV_BLEU_FILE).get("sacrebleu", {}).get("score")
        if known != (None, None):
            own = settings(run.config.hparams).values()
            count = _read(run.path / PLAN).get("parameters")
            rows.append((str(run.path), *own, *known, None, count and count / 1e6))
    note = (
        "Set a_h1 is the hparam set paper_table3_a_h1, of row (A). Empty cells: as in base. "
        f"paper, ours: parameters in millions; ours with {published.VOCABULARY:,} subwords "
        "(docs/paper.md says why). BLEU of runs: sacreBLEU on their own dev split."
    )
    heads = f"set | {' | '.join(published.BASE)} | PPL :.2f | BLEU :.4g | paper | ours :.1f"
    title = "Table 3: the variations, on newstest2013, and their parameters in millions"
    return [Table("3", title, heads, rows, (note,))]


def table4(runs: Sequence[RunDirectory] = ()) -> list[Table]:
    """Returns the paper's parsers, and the runs that have an F1."""
    scores = [(run, _read(run.path / F1_FILE)) for run in runs]
    rows = [(str(run.path), run.config.problem, f1["all"]["f1"]) for run, f1 in scores if f1]
    title = "Table 4: F1 on section 23 of the WSJ"
    note = "Runs: EVALB, COLLINS.prm, all sentences. Compare only F1 on section 23 with the paper."
    heads = "parser | training | F1 :.4g"
    return [Table("4", title, heads, [*published.TABLE4, *rows], (note,))]

"""Measures training and decoding on this machine's GPUs, into one file of JSON.

  python benchmarks/gpu.py --json_file=gpu.json

Each row is a process of its own, of benchmarks/train_step.py or decode.py: a training step under
TensorFlow, TensorFlow with XLA, and JAX, in each precision; then on 2, 4 ... of the GPUs, with a
batch for each; and decoding under TensorFlow and JAX. What fails is a row that says why, such as a
backend that is not installed or a batch that does not fit: the others go on. A row has the step's
time, tokens/s, the model's FLOP/s, memory of the device, and as `mfu` the share of the devices'
peak: that of the data sheet, or --peak_tflops.
Where there is no GPU all is of the CPU, for a trial of this program.
"""

import dataclasses
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from absl import flags

from t2t_repro import cli, progress
from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import flag
from t2t_repro.files import write_json

BACKENDS = {"tensorflow": "pip install 'tensorflow[and-cuda]'", "jax": "pip install 'jax[cuda12]'"}
TRAINING = (("tensorflow", False), ("tensorflow", True), ("jax", False))  # backend, XLA by a flag
PRECISIONS = ("float32", "bfloat16", "float16")
PEAKS = {"V100": 125, "A100": 312, "H100": 989, "H200": 989}  # TFLOP/s without sparsity

Row = dict[str, Any]


@dataclasses.dataclass
class Rows:
    """What is measured."""

    json_file: str = flag("gpu.json", "Where the result is written, after every row.")
    hparams_set: str = flag("transformer_base", "The configuration.")
    hparams: str = flag("", 'Changes to it: "name=value,name=value".')
    precisions: str = flag("float32,bfloat16", "In which precisions to train.")
    backends: str = flag(",".join(BACKENDS), "Which backends to measure.")
    batch: int = flag(128, "Sentences of a batch, of each device.", least=1)
    src: int = flag(32, "Source tokens of a sentence.", least=1)
    tgt: int = flag(32, "Target tokens of a sentence.", least=1)
    vocab_size: int = flag(32768, "Symbols of the vocabulary.", least=1)
    steps: int = flag(20, "Steps to time.", least=1)
    gemm: int = flag(
        8192, "Rows and columns of the float32 matrices that gemm_gflops multiplies.", least=1
    )
    most_devices: int = flag(64, "At most this many GPUs at once.", least=1)
    peak_tflops: float = flag(
        0, "A device's peak in TFLOP/s, except for float32; 0: the data sheet's.", least=0
    )


def main(args: flags.FlagValues, run: Callable[[list[str]], Row] | None = None) -> None:
    """Measures, prints each row, and writes them all; `run` takes the place of the processes."""
    for name, known in (("precisions", PRECISIONS), ("backends", tuple(BACKENDS))):
        for each in args[name].value.split(","):
            if each not in known:
                raise unknown(f"--{name}", each, known)
    rows: list[Row] = []
    for row in measured(args, run or in_a_process):
        rows.append(row)
        print(json.dumps(row), flush=True)
        write_json(args.json_file, rows)
    done = [row for row in rows if "failure" not in row]
    if not done:
        raise UserError(
            f"Expected at least one measured row. Received: {rows[0]['failure']} ({args.json_file} "
            "has every row's reason)."
        )
    if not any(row["kind"] == "GPU" for row in done):
        progress.on_stderr(
            "Warning: no GPU was found, so these are numbers of the CPU. If the machine has "
            "one, t2t-trainer prints why it was not found."
        )
    print(f"{len(done)} of {len(rows)} rows measured: {args.json_file}", flush=True)


def measured(args: flags.FlagValues, run: Callable[[list[str]], Row]) -> Iterator[Row]:
    """Yields a row of each measurement: what was asked, and the result or a "failure"."""
    sizes = ("hparams_set", "hparams", "batch", "src", "tgt", "vocab_size", "steps", "gemm")
    common = [f"--{name}={args[name].value}" for name in sizes]

    def row(program: str, asked: Row) -> Row:
        backend = asked["backend"]
        if importlib.util.find_spec(backend) is None:
            why = f"{backend} is not installed: {BACKENDS[backend]}"
            return {"program": program, **asked, "failure": why}
        of_it = [f"--{name}={value}".replace("=True", "=true") for name, value in asked.items()]
        found = run([f"{program}.py", *common, *of_it])
        return {"program": program, **asked, **found, **_mfu(args, asked, found)}

    alone: dict[tuple[str, str], Row] = {}
    for backend, xla in TRAINING:
        if backend not in args.backends.split(","):
            continue
        for precision in args.precisions.split(","):
            asked = {"backend": backend, "xla_compile": xla, "precision": precision, "devices": 1}
            found = row("train_step", asked)
            yield found
            if not xla and "failure" not in found:
                alone[backend, precision] = found
    for (backend, precision), one in alone.items():
        count = 2
        while count <= min(args.most_devices, gpus(one)):
            asked = {"backend": backend, "precision": precision, "devices": count}
            found = row("train_step", asked)
            if "failure" not in found:
                found["scaling"] = round(found["tokens_per_s"] / count / one["tokens_per_s"], 3)
            yield found
            count *= 2
    for backend in args.backends.split(","):
        yield row("decode", {"backend": backend})


def gpus(row: Row) -> int:
    """Returns how many GPUs the process of a row found."""
    count = re.search(r" on (\d+) x ", row["machine"])
    return (int(count[1]) if count else 1) if row["kind"] == "GPU" else 0


def _mfu(args: flags.FlagValues, asked: Row, found: Row) -> Row:
    """Returns {"peak_tflops", "mfu"} where the peak of what was measured is known."""
    precision = asked.get("precision", "float32")
    named = [peak for name, peak in PEAKS.items() if name in found.get("machine", "")]
    peak = args.peak_tflops or (named[0] if named else 0)
    if not peak or precision == "float32" or found.get("kind") != "GPU":
        return {}
    rate = found["gflops"] / 1e3 / asked.get("devices", 1)
    return {"peak_tflops": peak, "mfu": round(rate / peak, 4)}


def in_a_process(command: list[str]) -> Row:
    """Returns what a program of this folder printed, or {"failure": its last line}."""
    progress.on_stderr(f"Measuring: {' '.join(command)}")
    program, *argv = command
    path = pathlib.Path(__file__).with_name(program)
    done = subprocess.run([sys.executable, path, *argv], capture_output=True, text=True)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return json.loads(last) if done.returncode == 0 else {"failure": last}


cli.program(__name__, "gpu", __doc__, [Rows], main)

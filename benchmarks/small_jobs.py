"""Each program on something tiny, in a process that begins where TensorFlow is imported already.

What kills, full disks and company do to a program is tried on these: `prepare` makes what they
read, `start` starts one, `contents` says what it left, without what tells the time.
"""

import hashlib
import importlib
import io
import json
import multiprocessing
import os
import pathlib
import random
import resource
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

PROBLEM, TEXT = "algorithmic_reverse_binary40_test", "text2text_tmpdir"
TINY = "--hparams=num_hidden_layers=1,batch_size=256"
# {program: its flags, of which {of} is the folder that `prepare` filled, and {to} the one to fill}.
JOBS = {
    "trainer": (
        f"--problem={PROBLEM} --hparams_set=transformer_test {TINY} --data_dir={{of}}/data "
        "--output_dir={to}/run --train_steps=8 --local_eval_frequency=2 --eval_steps=1 "
        "--log_step_count_steps=1 --keep_checkpoint_max=3"
    ),
    "datagen": (
        f"--problem={TEXT} --data_dir={{to}}/data --tmp_dir={{of}}/raw --num_shards=10 "
        "--num_concurrent_processes=1"
    ),
    "decoder": (
        "--output_dir={of}/run --decode_from_file={of}/source --decode_to_file={to}/out "
        "--decode_json_file={to}/out.jsonl --decode_hparams=beam_size=2,extra_length=2"
    ),
    "compare": (
        f"--problem={PROBLEM} --hparams_set=transformer_test --hparams=batch_size=256 --depths=1 "
        "--data_dir={of}/data --output_dir={to}/compared --train_steps=3 --seeds=1 --warmup=2"
    ),
    "exporter": "--output_dir={of}/text --export_dir={to}/export",
    "checkpoint import": "--checkpoint={of}/t2t --data_dir={of}/data --output_dir={to}/run",
    "checkpoint export": "--output_dir={of}/run --t2t_dir={to}/t2t",
    "avg_all": "--model_dir={of}/run --output_dir={to}/average --n=2",
    "translate_all": (
        "--model_dir={of}/run --source={of}/short --reference={of}/short "
        "--translations_dir={to}/translations --decode_hparams=beam_size=1,extra_length=2"
    ),
}
WINDOW = 64  # lines after which the decoder keeps what is done
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["tensorflow", "keras", "t2t_repro.training.trainer", "t2t_repro.decoding.translate"]
)
# What differs from one time to the next: files, and fields of JSON.
_OTHER_FILES = (
    "events.out",
    ".lock",
    ".log",
    ".png",
    "fingerprint.pb",
    "variables.data",
    "report.html",
    "report.json",
    "report.md",  # of compare, with tokens a second, as its results.csv; the cells have the rest
    "results.csv",
    "plan.json",
    "provenance.json",
)
_CLOCKS = {"time", "seconds", "tokens_per_second", "created", "started", "date", "commands"}


class Process:
    """A program at work; the file `log` gets what it prints."""

    def __init__(self, program: str, flags: Sequence[str], log: pathlib.Path, most: int = 0):
        self._log, self._begin = log, log.stat().st_size if log.exists() else 0
        self._process = _CONTEXT.Process(target=_work, args=(program, list(flags), log, most))
        self._process.start()

    def kill(self) -> None:
        """Ends it with SIGKILL."""
        self._process.kill()
        self._process.join()

    def wait(self, seconds: float | None = None) -> int | None:
        """Returns its exit code, negative after a signal; None if it is still at work."""
        self._process.join(seconds)
        return self._process.exitcode

    def said(self) -> str:
        """Returns what it printed."""
        return self._log.read_bytes()[self._begin :].decode("utf-8", "replace")


def start(program: str, of: pathlib.Path, to: pathlib.Path, log: pathlib.Path, most: int = 0):
    """Starts one of `JOBS`; `most`: bytes of a file that it may write, 0: any."""
    to.mkdir(parents=True, exist_ok=True)
    flags = [flag.format(of=of, to=to) for flag in JOBS[program].split()]
    return Process(program, flags, log, most)


def prepare(folder: pathlib.Path) -> None:
    """Makes data, a run of three checkpoints, one of tensor2tensor's, and texts."""
    rng = random.Random(5)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(rng.choices("01", k=rng.randint(1, 9))) + "\n" for _ in range(300)]
    (folder / "source").write_text("".join(lines))
    (folder / "short").write_text("".join(lines[:10]))
    words = [f"w{number}" for number in range(500)]
    (folder / "raw").mkdir()
    for split, many in (("train", 6000), ("eval", 60)):
        for side in ("inputs", "targets"):
            text = "".join(" ".join(rng.choices(words, k=4)) + "\n" for _ in range(many))
            (folder / "raw" / f"{side}.{split}.txt").write_text(text)
    common = ["--hparams_set=transformer_test", TINY, "--generate_data", "--eval_steps=1"]
    common += [f"--data_dir={folder / 'data'}", f"--tmp_dir={folder / 'raw'}"]
    flags = [f"--problem={PROBLEM}", f"--output_dir={folder / 'run'}", "--train_steps=6"]
    flags += ["--local_eval_frequency=2", *common]
    text = [f"--problem={TEXT}", f"--output_dir={folder / 'text'}", "--train_steps=1", *common]
    for program, given in (
        ("trainer", flags),
        ("trainer", text),
        ("checkpoint export", JOBS["checkpoint export"].format(of=folder, to=folder).split()),
    ):
        process = Process(program, given, folder / f"{program}.log")
        if process.wait():
            raise SystemExit(process.said())


def contents(folder: pathlib.Path) -> dict[str, Any]:
    """Returns {file: its digest}, without what is another in each run: times, paths, logs."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not any(part in name for part in _OTHER_FILES):
            found[name] = _digest(path, folder)
    return found


def _digest(path: pathlib.Path, folder: pathlib.Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".npz":
        with np.load(io.BytesIO(content)) as arrays:
            content = b"".join(name.encode() + arrays[name].tobytes() for name in arrays.files)
    elif path.name == "variables.index":  # the names are another in each export
        content = _variables(path.with_suffix(""))
    elif path.suffix in (".json", ".jsonl"):
        rows = map(json.loads, content.splitlines() if path.suffix == ".jsonl" else [content])
        content = json.dumps([_timeless(row) for row in rows]).encode()
    return hashlib.sha256(content.replace(os.fsencode(folder), b"TO")).hexdigest()


def _variables(prefix: pathlib.Path) -> bytes:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    kinds = reader.get_variable_to_dtype_map()  # the others are seeds and the graph of objects
    return b"".join(sorted(reader.get_tensor(n).tobytes() for n in kinds if kinds[n].is_floating))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(value[name]) for name in value if name not in _CLOCKS}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def _work(program: str, flags: list[str], log: pathlib.Path, most: int) -> None:
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from t2t_repro.decoding import translate

    translate.WINDOW = WINDOW
    if most:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    name, *action = program.split()
    sys.argv = [f"t2t-{name}", *action, *flags]
    importlib.import_module(f"t2t_repro.bin.{name}").console()

"""Whatever operation on a file fails, or is a process's last: nothing is lost, no file is half.

Each program works on something tiny (`JOBS`), and of the operations on its files one fails or ends
it: see faulty_files.py. What then stands under a final name is whole, as the program wrote it or as
it was before; and the same command again ends with the same bytes as a run without faults. Some
operations of each program fail; EVERY_FAULT=1 lets all of them, each in three ways.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import io
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import sys

import numpy as np
import pytest

from tests import untrained
from tests.faulty_files import KILLED, Faults, Warm

PROBLEM, TEXT = "algorithmic_reverse_binary40_test", "text2text_tmpdir"
SMALL = "--hparams=num_hidden_layers=1,batch_size=256"
SHORT = "--decode_hparams=beam_size=1,extra_length=2"
EXPORT = f"--output_dir={{given}}/text --export_dir={{to}}/export {SHORT}"
LIGHT = (
    *("tests.test_faults", "pydantic.dataclasses", "t2t_repro.registry:list_problems"),
    *("t2t_repro.bin.datagen", "t2t_repro.data.generate", "t2t_repro.bin.avg_all"),
    *("t2t_repro.training.checkpoints", "t2t_repro.data.corpus_check", "sacrebleu"),
)
WAYS = ("exit", "full", "broken")


@dataclasses.dataclass(frozen=True)
class Job:
    """A program and its flags.

    Attributes:
        flags: {given} is the folder that the fixtures fill, {to} the one to be filled.
        most: how many operations fail, spread over all.
        older: the folder in {given} of what lies under {to} before; "": nothing.
        first: one more flag where an operation fails; if it fails early, all stays as it was.
        once: a refusal by exit code 2 is right where all is made.
        light: works without TensorFlow, so that its test is quick.
    """

    flags: str
    most: int
    older: str = ""
    first: str = ""
    once: bool = False
    light: bool = False


JOBS = {
    "avg_all": Job("--model_dir={given}/plain --output_dir={to}/average --n=2", 6, light=True),
    "datagen": Job(
        f"--problem={TEXT} --data_dir={{to}}/data --tmp_dir={{given}}/raw --num_shards=5 "
        "--num_concurrent_processes=1 --nocheck_data",
        6,
        light=True,
    ),
    "bleu": Job(
        "--translation={given}/short --reference={given}/short --json_file={to}/bleu.json",
        5,
        older="files",
        light=True,
    ),
    "datagen again": Job(
        f"--problem={TEXT} --data_dir={{to}} --tmp_dir={{given}}/raw --num_shards=5 "
        "--num_concurrent_processes=1 --nocheck_data",
        6,
        older="data",
        first="--overwrite",
        light=True,
    ),
    "growing": Job("{to}", 24, light=True),
    "stages": Job("{given} {to}", 16, light=True),
    "trainer": Job(
        f"--problem={PROBLEM} --hparams_set=transformer_test {SMALL} --data_dir={{given}}/data "
        "--output_dir={to}/run --train_steps=4 --local_eval_frequency=2 --eval_steps=1 "
        "--log_step_count_steps=1 --keep_checkpoint_max=1 --keep_best=1",
        3,
    ),
    "decoder": Job(
        "--output_dir={given}/run --decode_from_file={given}/source --decode_to_file={to}/out "
        "--decode_json_file={to}/out.jsonl --decode_hparams=beam_size=2,extra_length=2",
        4,
        older="files",
    ),
    "checkpoint import": Job(
        "--checkpoint={given}/t2t --data_dir={given}/data --output_dir={to}/run", 5, once=True
    ),
    "checkpoint export": Job("--output_dir={given}/run --t2t_dir={to}/t2t", 5, once=True),
    "exporter": Job(EXPORT, 2, once=True),
    "exporter --format=ctranslate2": Job(EXPORT, 3, once=True),
    "translate_all": Job(
        "--model_dir={given}/run --source={given}/short --reference={given}/short "
        f"--translations_dir={{to}}/translations {SHORT}",
        4,
        older="files",
    ),
    "visualize": Job(
        "--output_dir={given}/run --source=0 --target=1 --visualization_dir={to}/pictures", 3
    ),
}
# What differs from one time to the next: files, and fields of JSON.
OTHER_FILES = (
    "events.out",
    ".log",
    ".lock",
    ".png",
    "fingerprint.pb",
    "variables.data",
    "plan.json",
    "provenance.json",
)
# What says how far a program came, and so is neither as before nor as at the end.
PROGRESS = (".json", ".jsonl", "results.csv", "scores.csv", "report.md", "report.html")
CLOCKS = {"time", "seconds", "tokens_per_second", "created", "started", "date", "commands"}


def work(program, flags):
    """Does one of `JOBS` in this process, which does nothing else, in less time."""
    if program in OWN:
        try:
            return OWN[program](*map(pathlib.Path, flags))
        except OSError as error:
            print(f"{program}: error: {error}")
            sys.exit(2)
    if program == "trainer":
        import tensorflow as tf

        tf.config.run_functions_eagerly(True)  # or it would trace for seconds
    if program == "exporter":
        from t2t_repro.export import signatures

        signatures.Served.names = ("best",)  # each is traced for a second
    if program == "decoder":
        from t2t_repro.decoding import translate

        translate.WINDOW = 8  # lines after which it keeps what is done
    if program.startswith("datagen"):
        from t2t_repro.data import generate

        generate.SAMPLES = 30
    begin(program, flags)


def begin(program, flags):
    """Runs a program in this process."""
    name, *action = program.removesuffix(" again").split()
    sys.argv = [f"t2t-{name}", *action, *flags]
    importlib.import_module(f"t2t_repro.bin.{name}").console()


def grow(to):
    """Writes two files as decoding does, four pieces of three lines, and goes on where it was."""
    from t2t_repro.decoding.decode_files import growing

    with growing([to / "a", to / "b"], {"job": 5}, 3, lambda line: None) as (done, append):
        for piece in range(done // 3, 4):
            append([f"{piece}\u00fc\n" * 3, f"b{piece}\n" * 3])


def stage(given, to):
    """Does two stages, of two files and of one."""
    from t2t_repro import files, stages

    def add(outputs, before):
        text = "".join(path.read_text() for path in before)
        for path in outputs:
            files.write_text_atomic(path, text + path.name)
        return len(text)

    before = [given / "short"]
    with stages.begin(to / "record.json", {"input": before[0]}, before, print) as doing:
        for name, parts in {"one": "ab", "two": "c"}.items():
            made = [to / f"{name}.{part}" for part in parts]
            stage = stages.Stage(name=name, says=name, outputs=made)
            doing.run(stage, lambda made=made, before=before: add(made, before))
            before = made


OWN = {"growing": grow, "stages": stage}


def call(warm, program, given, to, more="", **faults):
    """Runs one of `JOBS`, with its faults under `to`."""
    to.mkdir(parents=True, exist_ok=True)
    flags = [flag.format(given=given, to=to) for flag in f"{JOBS[program].flags} {more}".split()]
    return warm.run("tests.test_faults:work", [program, flags], Faults(folder=str(to), **faults))


@pytest.fixture(scope="module")
def given(tmp_path_factory, warm):
    """What the programs read that needs no TensorFlow: texts, and a run of three checkpoints."""
    from t2t_repro.training import checkpoints

    folder, rng = tmp_path_factory.mktemp("prepared"), random.Random(5)
    lines = [" ".join(rng.choices("01", k=rng.randint(1, 9))) + "\n" for _ in range(24)]
    (folder / "source").write_text("".join(lines))
    (folder / "short").write_text("".join(lines[:3]))
    (folder / "raw").mkdir()
    words = [f"w{number}" for number in range(40)]
    for split, many in (("train", 120), ("eval", 20)):
        for side in ("inputs", "targets"):
            text = "".join(" ".join(rng.choices(words, k=4)) + "\n" for _ in range(many))
            (folder / "raw" / f"{side}.{split}.txt").write_text(text)
    run = untrained.begun(folder / "plain", "transformer_test", PROBLEM)
    for step in (2, 4, 6):
        arrays = {checkpoints.WEIGHTS: {"kernel": np.full((2, 3), step, "float32")}}
        checkpoints.write(run.checkpoints_dir, arrays, checkpoints.State(step=step))
    files = folder / "older" / "files"
    (files / "translations").mkdir(parents=True)
    for name in ("out", "out.jsonl", "bleu.json", "translations/text"):
        (files / name).write_text("{}\n")
    older = folder / "older" / "data"
    ended = call(warm, "datagen again", folder, older, "--random_seed=5")
    assert ended.code == 0, ended.said
    return folder


@pytest.fixture(scope="module")
def warm():
    """Forks of a process without TensorFlow."""
    with Warm(*LIGHT) as made:
        yield made


@pytest.fixture(scope="module")
def trained(given, warm_tensorflow):
    """A run, one of text, and one of tensor2tensor's."""
    common = f"--hparams_set=transformer_test {SMALL} --generate_data --eval_steps=1".split()
    common += f"--data_dir={given}/data --tmp_dir={given}/raw --local_eval_frequency=1".split()
    run = [f"--problem={PROBLEM}", f"--output_dir={given / 'run'}", "--train_steps=2"]
    text = [f"--problem={TEXT}", f"--output_dir={given / 'text'}", "--train_steps=1"]
    text += ["--schedule=train"]
    for program, flags in (
        ("trainer", run + common),
        ("trainer", text + common),
        ("checkpoint export", [f"--output_dir={given / 'run'}", f"--t2t_dir={given / 't2t'}"]),
    ):
        ended = warm_tensorflow.run("tests.test_faults:begin", [program, flags], Faults("/nowhere"))
        assert ended.code == 0, ended.said
    return given


@pytest.fixture(scope="module")
def warm_tensorflow():
    """Forks of a process with TensorFlow."""
    heavy = ("matplotlib.pyplot", "tensorflow_text", "t2t_repro.export.saved_model")
    heavy += ("tests.faulty_files:leave_graphs", "t2t_repro.training.trainer")
    heavy += ("t2t_repro.decoding.translate",)
    with Warm(*LIGHT, *heavy) as made:
        yield made


def contents(folder):
    """Returns {file: its digest}, without what is another in each run: times, paths, logs.

    A file that cannot be read to its end raises.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        unfinished = "incomplete" in name
        if path.is_file() and not unfinished and not any(part in name for part in OTHER_FILES):
            found[name] = digest(path, folder)
    return found


def without_progress(found):
    return {name: value for name, value in found.items() if not name.endswith(PROGRESS)}


def digest(path, folder):
    content = path.read_bytes()
    if path.suffix == ".npz":
        with np.load(io.BytesIO(content)) as arrays:
            content = b"".join(name.encode() + arrays[name].tobytes() for name in arrays.files)
    elif path.name == "variables.index":  # the names are another in each export
        content = variables(path.with_suffix(""))
    elif path.suffix in (".json", ".jsonl"):
        rows = whole_rows(content) if path.suffix == ".jsonl" else [json.loads(content)]
        content = json.dumps(list(map(timeless, rows))).encode()
    return hashlib.sha256(content.replace(os.fsencode(folder), b"TO")).hexdigest()


def whole_rows(content):
    """Yields the rows of a file that grows; its readers leave out one that was cut short."""
    for line in content.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(line)


def variables(prefix):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    kinds = reader.get_variable_to_dtype_map()  # the others are seeds and the graph of objects
    return b"".join(sorted(reader.get_tensor(n).tobytes() for n in kinds if kinds[n].is_floating))


def timeless(value):
    if isinstance(value, dict):
        return {name: timeless(value[name]) for name in value if name not in CLOCKS}
    return [timeless(part) for part in value] if isinstance(value, list) else value


class Trial:
    """A program's end without faults, and what faults did to it instead."""

    def __init__(self, warm, program, given, folder):
        self._warm, self._program, self._given, self._to = warm, program, given, folder / "to"
        self._job = JOBS[program]
        ended = call(warm, program, given, folder / "straight")
        assert ended.code == 0, ended.said
        self.operations, self.straight = ended.operations, contents(folder / "straight")
        files = (path for path in (folder / "straight").rglob("*") if path.is_file())
        self.largest = max(path.stat().st_size for path in files)

    def fail_at(self, numbers):
        """Lets operations fail, {number: how}, and two writes of the largest file."""
        for number, how in numbers:
            self.fail(at=[number], how=how)
        for share, how in ((3, "exit"), (2, "full")):
            self.fail(limit=self.largest // share, how=how)

    def fail(self, **faults):
        """Lets operations fail; then gives the same command again."""
        shutil.rmtree(self._to, ignore_errors=True)
        if self._job.older:
            shutil.copytree(self._given / "older" / self._job.older, self._to)
        before = contents(self._to) if self._to.exists() else {}
        ended = self._run(self._job.first, **faults)
        left = contents(self._to)  # no file is half
        if ended.code == 0:  # it could do without
            assert left == before | self.straight, faults
        elif ended.code not in KILLED:
            assert ended.code == 2 and "Traceback" not in ended.said, (faults, ended.said)
            assert len(re.findall(r"^\S+: error: ", ended.said, re.M)) == 1, (faults, ended.said)
        for name in without_progress(left).keys() & (before | self.straight).keys():
            assert left[name] in (before.get(name), self.straight.get(name)), (faults, name)
        again = self._run()
        refused = again.code == 2 and self._job.once and left == self.straight
        assert again.code == 0 or refused, (faults, again.said)
        end, ends = contents(self._to), [before | self.straight]
        if self._job.first:  # with a part that was kept, the summary is another
            ends.append(before)
            end, *ends = map(without_progress, (end, *ends))
        assert end in ends, (faults, ended.said, again.said)
        assert not [path for path in self._to.rglob("*") if "incomplete" in path.name], faults

    def _run(self, more="", **faults):
        return call(self._warm, self._program, self._given, self._to, more, **faults)


def some(operations, most):
    """Returns numbers of operations that fail, and how: {number: way}, or all of them."""
    if os.environ.get("EVERY_FAULT"):
        return list(itertools.product(range(1, operations + 1), WAYS))
    numbers = sorted({round(n) for n in np.linspace(1, operations, min(most, operations))})
    return [(number, WAYS[i % len(WAYS)]) for i, number in enumerate(numbers)]


@pytest.mark.parametrize(
    "program",
    [
        name if job.light else pytest.param(name, marks=pytest.mark.slow)
        for name, job in JOBS.items()
    ],
)
def test_an_operation_fails(request, tmp_path, program):
    names = ("warm", "given") if JOBS[program].light else ("warm_tensorflow", "trained")
    warm, given = map(request.getfixturevalue, names)
    trial = Trial(warm, program, given, tmp_path)
    trial.fail_at(some(trial.operations, JOBS[program].most))

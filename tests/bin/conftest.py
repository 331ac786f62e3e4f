import dataclasses
import json
import pathlib
import shutil

import pytest

from t2t_repro import plan, registry
from t2t_repro.bin import quickstart, trainer
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import devices
from t2t_repro.training.devices import Devices
from tests import programs, untrained
from tests.data.record_files import write_examples

TINY = "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1"
VOCABULARY = "vocab.text2text_tmpdir.32768.subwords"


def _run(folder, problem, examples, overrides="", files=()):
    """Begins a run on examples, beside their folder `data`, with checkpoints 5 and 7."""
    data = folder / "data"
    run = untrained.begun(
        folder / "run", "transformer_test", problem, TINY + overrides, data, files
    )
    for split in ("train", "dev"):
        write_examples(registry.get_problem(problem).filepaths(split, data, 1)[0], examples)
    untrained.save(run, 5, 7)
    return run


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    """A run of untrained models that write digits, on 5 sentences. It stays as it is."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "data").mkdir()
    lines = [[5, 6], [9], [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 2], [2], [11, 3, 7]]
    examples = [{"inputs": [*ids, 1], "targets": [*ids, 1]} for ids in lines]
    return _run(folder, "algorithmic_identity_decimal40", examples, ",pos=emb,max_length=60")


@pytest.fixture
def run(numbers, tmp_path):
    """A copy of `numbers`, for what writes into a run."""
    return RunDirectory(shutil.copytree(numbers.path, tmp_path / "run"))


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """A run of untrained models that write letters, on 2 sentences. It stays as it is."""
    folder = tmp_path_factory.mktemp("letters")
    (folder / "data").mkdir()
    subtokens = ["<pad>_", "<EOS>_", *"\\_u;0123456789abcd. "]
    vocabulary = folder / "data" / VOCABULARY
    vocabulary.write_text("".join(f"'{subtoken}'\n" for subtoken in subtokens))
    examples = [{"inputs": [17, 18, 1], "targets": [18, 1]}, {"inputs": [19, 1], "targets": [1]}]
    return _run(folder, "text2text_tmpdir", examples, files=[vocabulary])


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Takes the place of training, in an empty folder; the requests that it gets."""
    requests = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trainer, "plan_and_train", requests.append)
    monkeypatch.setattr("t2t_repro.provenance.write_of_run", lambda *of, data_dir: None)
    monkeypatch.setattr(quickstart, "train_and_show", lambda directory, train: train())
    return requests


@pytest.fixture
def on(monkeypatch, tmp_path):
    """Simulates a machine, in an empty folder: on(MACHINE); what went to work."""
    begun = []

    def train(request, where, plan=""):
        begun.append((request, where, json.loads(plan or "null")))
        return {}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["t2t-trainer"])  # of which what is proposed is made
    monkeypatch.setattr("t2t_repro.training.trainer.train", train)
    monkeypatch.setattr("t2t_repro.provenance.write_of_run", lambda *of, **how: None)
    monkeypatch.setattr(trainer, "generate", lambda job, *of: begun.append(job))

    def simulate(found: plan.Machine, free=500 * 10**9):
        where = Devices(local=found.replicas, kind=found.kind)
        monkeypatch.setattr(devices, "choose", lambda worker_gpu: where)
        monkeypatch.setattr(devices, "names", lambda where: found.devices)
        brief = dataclasses.replace(found, rate=found.rate / 2)  # a measurement of no time
        monkeypatch.setattr(plan, "examine", lambda *of, seconds=(): brief if seconds else found)
        monkeypatch.setattr(plan.needs, "free", lambda path: (1, free))
        return begun

    return simulate


@pytest.fixture
def refused(capsys):
    """Calls a program with flags that it refuses; returns what it says."""

    def call(program, *argv):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            programs.call(program, *argv)
        assert stopped.value.code == 2
        return capsys.readouterr()

    return call


@pytest.fixture
def prepared(tmp_path):
    """WMT14 as t2t-datagen would leave it in t2t_data, but for the records."""
    folder, problem = tmp_path / "t2t_data", registry.get_problem("translate_ende_wmt14")
    folder.mkdir()
    for entry in problem.dataset_splits:
        for path in problem.filepaths(entry["split"], folder, entry["shards"]):
            pathlib.Path(path).touch()
    characters = [chr(code) for code in range(0x20000, 0x20000 + 36_000)]
    subwords = ["<pad>_", "<EOS>_", *"0123456789;\\_u", *characters]
    (folder / problem.vocab_filename).write_text("".join(f"'{word}'\n" for word in subwords))
    return folder

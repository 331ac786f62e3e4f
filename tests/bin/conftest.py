import json

import pytest

from t2t_repro import plan
from t2t_repro.bin import quickstart, trainer
from t2t_repro.plan import Machine
from t2t_repro.training import devices
from t2t_repro.training.devices import Devices
from tests import programs


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Takes the place of training, in an empty folder; the requests that it gets."""
    requests = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trainer, "run", requests.append)
    monkeypatch.setattr("t2t_repro.provenance.write_of_run", lambda *of, data_dir: None)
    monkeypatch.setattr(quickstart, "run", lambda directory, train: train())
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

    def simulate(found: Machine, free=500 * 10**9):
        where = Devices(local=found.replicas, kind=found.kind)
        monkeypatch.setattr(devices, "choose", lambda worker_gpu: where)
        monkeypatch.setattr(devices, "names", lambda where: found.devices)
        monkeypatch.setattr(plan, "examine", lambda where, dtype: found)
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

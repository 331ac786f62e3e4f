"""Into how many parts a run cuts its batches: what is chosen, asked for, remembered, refused."""

import dataclasses
import json
import os
import types

import numpy as np
import pytest
from absl import flags

from t2t_repro import registry
from t2t_repro.bin import trainer
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import batch_parts, devices, experiment
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.request import TRY_BATCH_SIZE, Plan, TrainRequest

PROBLEM = "algorithmic_reverse_binary40_test"
ALLOCATOR = ("TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB")


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Returns a factory of requests, with six cores; `told` are the threads it would set."""

    def make(parts=0, data_dir="data", threads=(0, 0), run="run", steps=3, **changes):
        hparams = registry.get_hparams("transformer_test", "batch_size=256,num_hidden_layers=1")
        config = RunConfig(
            hparams_set="transformer_test",
            hparams=dataclasses.replace(hparams, train_steps=steps, **changes),
            problem=PROBLEM,
            data_dir=data_dir,
            version="0",
            batch_parts=parts,
        )
        return TrainRequest(
            run=RunDirectory(tmp_path / run),
            config=config,
            problem=registry.get_problem(PROBLEM),
            plan=Plan(train_steps=steps, local_eval_frequency=3, log_step_count_steps=1),
            threads=threads,
        )

    make.told = []
    monkeypatch.setattr(batch_parts, "available_cores", lambda: 6)
    monkeypatch.setattr(devices, "set_threads", lambda *threads: make.told.append(threads))
    return make


def found(request, where=ONE):
    request = batch_parts.decided(request, where)
    return request.config.batch_parts, request.threads


def test_a_small_model_on_a_cpu_gets_two_parts(make, monkeypatch):
    assert found(make()) == (2, (2, 3)) and make.told == [(2, 3)]
    assert found(make(hidden_size=batch_parts.WIDEST + 2)) == (1, (0, 0))
    assert found(make(threads=(5, 7))) == (1, (5, 7))
    assert found(make(), Devices(kind="GPU")) == (1, (0, 0))
    assert found(make(), Devices(strategy=object(), local=2)) == (1, (0, 0))
    monkeypatch.setattr(batch_parts, "available_cores", lambda: 1)
    assert found(make()) == (1, (0, 0))
    assert make.told == [(2, 3)]


def test_parts_keep_the_memory_that_they_free(make, monkeypatch):
    for name in ALLOCATOR:
        monkeypatch.setenv(name, "")  # so that monkeypatch puts back what was there
        monkeypatch.delenv(name)
    found(make(parts=1))
    assert not set(ALLOCATOR) & set(os.environ)
    found(make(parts=2, threads=(5, 7)))
    assert os.environ[ALLOCATOR[0]] == "true" and int(os.environ[ALLOCATOR[1]]) > 100
    monkeypatch.setenv(ALLOCATOR[0], "false")
    found(make())
    assert os.environ[ALLOCATOR[0]] == "false"  # what the user's environment says counts


def test_what_is_asked_for_counts_and_a_run_keeps_it(make):
    assert found(make(parts=3)) == (3, (3, 2))
    assert found(make(parts=3, threads=(5, 7))) == (3, (5, 7))
    begun = batch_parts.decided(make(parts=3), ONE)
    begun.run.begin(begun.config, [], [])
    assert json.loads((begun.run.path / "run.json").read_text())["batch_parts"] == 3
    again = make()
    again.run.check(again.config)
    assert found(again) == (3, (3, 2))
    with pytest.raises(UserError, match="batch_parts"):
        again.run.check(make(parts=2).config)


def test_a_run_that_says_nothing_of_parts_has_one(make):
    request = make(parts=1)
    request.run.begin(request.config, [], [])
    file = request.run.path / "run.json"
    written = json.loads(file.read_text())
    del written["batch_parts"]
    file.write_text(json.dumps(written))
    assert found(make()) == (1, (0, 0))


def test_several_devices_take_no_parts_of_their_own(make):
    where = Devices(strategy=object(), local=2)
    with pytest.raises(UserError, match="3"):
        batch_parts.decided(make(parts=3), where)
    request = make(parts=3)
    request.run.begin(request.config, [], [])
    assert found(make(), where) == (3, (0, 0))
    model = types.SimpleNamespace(batch_parts=1)
    batch_parts.use(model, 3, where)
    assert model.batch_parts == 1
    batch_parts.use(model, 3, ONE)
    assert model.batch_parts == 3


def test_a_trial_of_a_batch_size_has_the_parts_of_the_run(make, monkeypatch):
    seen = []
    model = types.SimpleNamespace(batch_parts=1)
    monkeypatch.setattr(devices, "choose", lambda worker_gpu: ONE)
    monkeypatch.setattr(experiment, "build_model", lambda config, problem: model)
    data = types.SimpleNamespace(longest=9)
    monkeypatch.setattr(experiment.Experiment, "_describe_data", lambda self: data)
    step = seen.append
    monkeypatch.setattr(experiment.distribution, "step_function", lambda model: step)
    monkeypatch.setattr(experiment.batch_size, "report", lambda seconds: {})
    experiment.run(dataclasses.replace(make(), schedule=TRY_BATCH_SIZE))
    assert seen and model.batch_parts == 2


def test_the_trainer_has_a_flag_for_it(tmp_path):
    given = flags.FlagValues()
    trainer.define_flags(given)
    named = {"problem": PROBLEM, "hparams_set": "transformer_test", "data_dir": tmp_path}
    argv = [f"--{name}={value}" for name, value in named.items()]
    given(["t2t-trainer", *argv, f"--output_dir={tmp_path / 'run'}", "--batch_parts=2"])
    assert trainer.request_of(given).config.batch_parts == 2
    assert given["batch_parts"].default == 0


@pytest.mark.slow
def test_a_stopped_run_of_parts_ends_as_one_that_never_stopped(make, tmp_path, capsys):
    from t2t_repro.data.generate import generate_data
    from t2t_repro.data.job import Job
    from t2t_repro.training import checkpoints

    generate_data(Job(registry.get_problem(PROBLEM), tmp_path / "data", tmp_path / "data"))
    arrays = []
    for name, ends in (("straight", [6]), ("stopped", [3, 6])):
        for steps in ends:
            experiment.run(make(data_dir=str(tmp_path / "data"), run=name, steps=steps))
        path = tmp_path / name / "checkpoints" / "ckpt-6" / "weights.npz"
        arrays.append(checkpoints.read_arrays(path))
        assert RunDirectory(tmp_path / name).config().batch_parts == 2
    assert arrays[0].keys() == arrays[1].keys()
    for name, value in arrays[0].items():
        np.testing.assert_array_equal(value, arrays[1][name], name)
    assert "in 2 parts side by side" in capsys.readouterr().out

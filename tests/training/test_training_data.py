import dataclasses
import json

import pytest

from t2t_repro.data.pipeline import SplitStatistics
from t2t_repro.errors import UserError
from t2t_repro.run_directory import TRAINING_DATA, RunDirectory
from t2t_repro.training import training_data

DATA = SplitStatistics(
    examples=90,
    too_short=2,
    too_long=5,
    inputs_tokens=700,
    targets_tokens=800,
    longest=31,
    batches=4.5,
    padding=0.06,
)


@pytest.fixture
def run(tmp_path):
    """A run of 2 replicas with a checkpoint."""
    (tmp_path / "checkpoints" / "ckpt-3").mkdir(parents=True)
    run = RunDirectory(tmp_path)
    training_data.write(run, DATA, replicas=2, train_steps=9)
    return run


def test_the_same_data_on_as_many_devices_say_nothing(run):
    said = []
    batched = dataclasses.replace(DATA, batches=3.5, padding=0.09)  # as more replicas would
    training_data.check_same(run, batched, 2, said.append)
    assert not said
    kept = json.loads((run.path / TRAINING_DATA).read_text())
    assert (kept["kept"], kept["replicas"]) == (83, 2)


def test_other_data_are_refused_once_there_is_a_checkpoint(run):
    other = dataclasses.replace(DATA, examples=91, inputs_tokens=712)
    message = (
        f"that {run.path} was trained on. Received: others: examples was 90, now 91; inputs_tokens "
        f"was 700, now 712. Give .* with --warm_start_from={run.path}."
    )
    with pytest.raises(UserError, match=message):
        training_data.check_same(run, other, 2, print)
    (run.checkpoints_dir / "ckpt-3").rmdir()
    training_data.check_same(run, other, 3, pytest.fail)


def test_other_devices_are_told(run):
    said = []
    training_data.check_same(run, DATA, 3, said.append)
    (line,) = said
    assert "was trained on 2 replicas, now on 3: a batch is 1.5 times as large" in line

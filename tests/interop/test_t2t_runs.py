"""Checkpoints of tensor2tensor's recurrent and convolutional models become runs, and come back."""

import dataclasses
import json
import pathlib
from unittest import mock

import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.interop import t2t_files, t2t_runs, t2t_shapes
from t2t_repro.interop.t2t_checkpoint import Checkpoint
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import trained_run
from tests.conftest import GoldenCase, T2TRun
from tests.models.test_baselines import CASES

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", CASES)
def test_the_variables_say_which_model_they_are_of(name):
    case = GoldenCase(name, "baselines")
    shapes = {variable: value.shape for variable, value in case.group("var").items()}
    t2t_shapes.check_names(shapes, "a")
    values = dataclasses.asdict(case.hparams)
    assert t2t_shapes.reconcile(values, shapes, values) == (case.hparams, [])
    decided = ("model", "hidden_size", "num_hidden_layers", "symbol_modality_num_shards")
    without = {name: v for name, v in values.items() if name not in decided}
    hparams, notes = t2t_shapes.reconcile(without, shapes)
    assert [getattr(hparams, n) for n in decided] == [values[n] for n in decided]
    assert f"model={case.hparams.model!r}" in notes


@pytest.mark.parametrize(
    "name", sorted(json.loads((GOLDEN / "baselines_hparams.json").read_text()))
)
def test_their_sets_are_read_as_tensor2tensor_wrote_them(name, tmp_path):
    values = json.loads((GOLDEN / "baselines_hparams.json").read_text())[name]
    (tmp_path / "hparams.json").write_text(json.dumps(values))
    found = t2t_files.read_hparams(tmp_path / "hparams.json")
    assert found["hidden_size"] == values["hidden_size"]
    hparams = HParams(**found, model="byte_net" if "byte" in name else "lstm_seq2seq_attention")
    written = json.loads(t2t_files.write_hparams(hparams))
    assert written["daisy_chain_variables"] == values["daisy_chain_variables"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name, tmp_path, monkeypatch):
    case = GoldenCase(name, "baselines")
    theirs = T2TRun(tmp_path / "t2t", case)
    folder = theirs.write(7)
    model = str(case["model"])
    flags = (folder / "flags.txt").read_text().replace("--model=transformer", f"--model={model}")
    (folder / "flags.txt").write_text(flags)
    request = t2t_runs.ImportRequest(checkpoint=folder, output_dir=tmp_path / "run")
    t2t_runs.import_checkpoint(request)
    config = RunDirectory(tmp_path / "run").config
    assert config.hparams == case.hparams
    assert config.hparams_set == ("bytenet_base" if model == "byte_net" else "lstm_seq2seq")
    stop = mock.Mock(side_effect=KeyboardInterrupt)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(t2t_runs.t2t_checkpoint, "write", stop)
        t2t_runs.export_checkpoint(trained_run(tmp_path / "run"), tmp_path / "back")
    # Nothing is taken for a checkpoint before all that belongs to it is there.
    there = {path.name for path in (tmp_path / "back").iterdir()}
    assert {"flags.txt", "hparams.json"} <= there and "checkpoint" not in there
    t2t_runs.export_checkpoint(trained_run(tmp_path / "run"), tmp_path / "back")
    one, other = Checkpoint(folder), Checkpoint(tmp_path / "back")
    assert set(one.shapes) == set(other.shapes)
    for array in set(one.shapes) - {"training/beta1_power", "training/beta2_power"}:
        np.testing.assert_array_equal(other.array(array), one.array(array), err_msg=array)
    assert f"--model={model}\n" in (tmp_path / "back" / "flags.txt").read_text()

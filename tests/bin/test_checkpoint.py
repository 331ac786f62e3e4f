"""tensor2tensor's checkpoints become runs, and runs such checkpoints."""

import json
import os
import shutil

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.bin import checkpoint
from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_checkpoint, t2t_runs, tensor2tensor
from t2t_repro.interop.t2t_checkpoint import Checkpoint
from t2t_repro.interop.t2t_runs import export_checkpoint as export_it
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints
from tests.programs import call


def import_it(checkpoint, output_dir, say=print, **flags):
    request = t2t_runs.ImportRequest(checkpoint=checkpoint, output_dir=output_dir, **flags)
    return t2t_runs.import_checkpoint(request, say=say)


def test_a_folder_becomes_a_run(t2t_run, golden_case, tmp_path):
    t2t = t2t_run("base_v1")
    (tmp_path / "my_problems").mkdir()
    (tmp_path / "my_problems" / "__init__.py").write_text("")
    usr_dir = f"--t2t_usr_dir={os.path.relpath(tmp_path / 'my_problems')}"
    call(
        checkpoint,
        "import",
        f"--checkpoint={t2t.write()}",
        f"--output_dir={tmp_path / 'run'}",
        usr_dir,
    )
    run, case = RunDirectory(tmp_path / "run"), golden_case("base_v1")
    config = run.config
    assert config.hparams == case.hparams
    assert (config.problem, config.data_dir) == (t2t.PROBLEM, str(t2t.folder))
    assert config.t2t_usr_dir == str(tmp_path / "my_problems")
    assert config.commands[0].split()[1] == "t2t-checkpoint"
    assert (run.path / t2t.VOCABULARY).read_bytes() == (t2t.folder / t2t.VOCABULARY).read_bytes()
    model = case.model("trained")
    assert checkpoints.load_weights(model, run.path).step == 7
    for name, value in tensor2tensor.export_variables(model).items():
        np.testing.assert_array_equal(value, t2t.variables[name])
    logits = np.asarray(model(case.batch))
    np.testing.assert_allclose(logits, case["logits"], atol=2e-5)
    assert (checkpoints.latest(run.checkpoints_dir) / checkpoints.TRAINING).exists()


def test_all_checkpoints_of_a_run_join_those_that_are_there(t2t_run, tmp_path):
    t2t, run = t2t_run("base_v1"), tmp_path / "run"
    name = "transformer/body/decoder/layer_1/ffn/conv2/bias"
    for step in (7, 0, 11, 9):
        t2t.variables[name] = np.full(24, step, "float32")
        t2t.write(step)
    import_it(t2t.folder, run)
    assert [path.name for path in checkpoints.list_checkpoints(run)] == ["ckpt-9"]
    call(
        checkpoint,
        *("import", f"--checkpoint={t2t.folder}", f"--output_dir={run}", "--all_checkpoints"),
    )
    found = checkpoints.list_checkpoints(run)
    assert [path.name for path in found] == ["ckpt-0", "ckpt-7", "ckpt-9", "ckpt-11"]
    model = trained_run(run).new_model()
    for path in found:
        step = checkpoints.read_state(path).step
        checkpoints.load_weights(model, path)
        assert tensor2tensor.export_variables(model)[name].tolist() == [step] * 24
        assert (path / checkpoints.TRAINING).exists() == (step > 0)
    with pytest.raises(UserError, match="11"):
        import_it(t2t.folder, run, all_checkpoints=True)


@pytest.mark.parametrize(
    "step, slots, wanted", [(7, False, True), (0, True, True), (7, True, False)]
)
def test_without_optimizer_state(t2t_run, tmp_path, step, slots, wanted):
    t2t = t2t_run("base_v1")
    written = import_it(t2t.write(step, slots=slots), tmp_path / "run", optimizer_state=wanted)
    assert not (written / checkpoints.TRAINING).exists()


def test_of_an_unknown_optimizer_the_weights_alone_go_there_and_back(t2t_run, tmp_path, capsys):
    t2t = t2t_run("base_v1")
    t2t.hparams["optimizer"] = "Momentum"
    with pytest.raises(UserError, match="--nooptimizer_state"):
        import_it(t2t.write(), tmp_path / "run")
    import_it(t2t.folder, tmp_path / "run", optimizer_state=False)
    t2t_runs.export_checkpoint(trained_run(tmp_path / "run"), tmp_path / "back")
    assert "without optimizer state" in capsys.readouterr().out


def test_hparams_json_wins_over_the_set_and_flags_over_both(t2t_run, tmp_path):
    t2t = t2t_run("base_v1")
    t2t.hparams["attention_dropout"] = 0.25
    t2t.hparams["moe_k"] = 9
    import_it(
        t2t.write(),
        tmp_path / "run",
        hparams_set="transformer_big",
        hparams="relu_dropout=0.5",
        ignore_hparams="moe_k",
        target_space_id=8,
    )
    config = RunDirectory(tmp_path / "run").config
    assert config.hparams_set == "transformer_big"
    assert (config.hparams.attention_dropout, config.hparams.relu_dropout) == (0.25, 0.5)
    assert trained_run(tmp_path / "run").new_model().target_space_id == 8


@pytest.mark.parametrize("row", [0, 8])
def test_the_kind_of_target_that_was_trained_is_the_problems(tmp_path, row):
    """Versions up to 1.5.1 had 8 for WMT's German, which is 0 since."""
    kernel = np.zeros((32, 5), "float32")
    moment = kernel.copy()
    moment[row, 2] = 0.1
    name = "transformer/body/target_space_embedding/kernel"
    slots = {f"training/{name}/Adam": kernel, f"training/{name}/Adam_1": moment}
    t2t_checkpoint.write(tmp_path, 3, {name: kernel, **slots})
    source = t2t_checkpoint.Checkpoint(tmp_path)
    problem = registry.get_problem("translate_ende_wmt32k")
    for given in (None, 0, 8):
        hparams = registry.get_hparams("transformer_base_v1", f"target_space_id={given}")
        if row == (given or problem.target_space_id):
            t2t_runs._check_target_space(source, problem, hparams)
        else:
            with pytest.raises(UserError, match=f"target_space_id={row}"):
                t2t_runs._check_target_space(source, problem, hparams)


@pytest.mark.parametrize("name", ["relative", "multistep"])
def test_there_and_back_and_there_again(t2t_run, tmp_path, name):
    t2t = t2t_run(name)
    first = import_it(t2t.write(9), tmp_path / "first")
    call(
        checkpoint, "export", f"--output_dir={tmp_path / 'first'}", f"--t2t_dir={tmp_path / 'back'}"
    )
    second = import_it(tmp_path / "back", tmp_path / "second")
    for file in (checkpoints.WEIGHTS, checkpoints.TRAINING):
        one, other = (checkpoints.read_arrays(path / file) for path in (first, second))
        assert list(one) == list(other)
        for key, value in one.items():
            np.testing.assert_array_equal(value, other[key], err_msg=key)
    theirs, ours = Checkpoint(t2t.folder), Checkpoint(tmp_path / "back")
    assert set(theirs.shapes) <= set(ours.shapes)
    assert set(ours.shapes) - set(theirs.shapes) <= {"training/iter"}
    for array in set(theirs.shapes) - {"training/beta1_power", "training/beta2_power"}:
        np.testing.assert_array_equal(ours.array(array), theirs.array(array), err_msg=array)
        assert ours.array(array).dtype == theirs.array(array).dtype
    files = {path.name for path in (tmp_path / "back").iterdir()}
    assert {"checkpoint", "hparams.json", "flags.txt", t2t.VOCABULARY} < files
    there = json.loads((tmp_path / "back" / "hparams.json").read_text())
    assert {key: there.get(key) for key in t2t.hparams} == t2t.hparams


@pytest.mark.parametrize(
    "name, change", [("base_v1", "freeze=encoder"), ("adafactor", "attention_variables_3d=True")]
)
def test_slots_that_tensor2tensor_does_not_have_are_left_out(
    t2t_run, tmp_path, capsys, name, change
):
    import_it(t2t_run(name).write(), tmp_path / "run")
    file = tmp_path / "run" / "hparams.json"
    file.write_text(trained_run(file.parent).config.hparams.override(change).to_json())
    prefix = export_it(trained_run(file.parent), tmp_path / "back")
    assert Checkpoint(prefix).slots() == {} and Checkpoint(prefix).step() == 7
    assert f"because of {change}" in capsys.readouterr().out


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_tensor2tensor_left_is_not_replaced(t2t_run, tmp_path):
    """Neither the run that was imported, nor one that went on with an export, nor another's."""
    t2t = t2t_run("base_v1")
    command = ["t2t-checkpoint", "import", f"--checkpoint={t2t.write()}"]
    request = t2t_runs.ImportRequest(checkpoint=t2t.folder, output_dir=tmp_path / "run")
    t2t_runs.import_checkpoint(request, command=command)
    run, before = trained_run(tmp_path / "run"), contents(t2t.folder)
    with pytest.raises(UserError):
        export_it(run, t2t.folder)
    assert contents(t2t.folder) == before

    first = contents(export_it(run, tmp_path / "back").parent)
    assert contents(export_it(run, tmp_path / "back").parent) == first

    shutil.copytree(tmp_path / "run", tmp_path / "other")
    for name, sign in (("other", None), ("run", "graph.pbtxt"), ("run", "model.ckpt-9.meta")):
        if sign:
            (tmp_path / "back" / sign).touch()
        with pytest.raises(UserError):
            export_it(trained_run(tmp_path / name), tmp_path / "back")
        if sign:
            (tmp_path / "back" / sign).unlink()

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / t2t.VOCABULARY).write_text("another")
    with pytest.raises(UserError, match=t2t.VOCABULARY):
        export_it(run, tmp_path / "data")
    assert (tmp_path / "data" / t2t.VOCABULARY).read_text() == "another"

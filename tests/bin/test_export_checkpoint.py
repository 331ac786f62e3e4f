"""Runs become tensor2tensor's checkpoints, and come back."""

import json
import shutil

import numpy as np
import pytest

from t2t_repro import cli
from t2t_repro.bin import export_checkpoint, trainer
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.interop import t2t_checkpoint, t2t_runs
from t2t_repro.interop.t2t_checkpoint import Checkpoint
from t2t_repro.interop.t2t_runs import ImportRequest, import_checkpoint
from t2t_repro.interop.t2t_runs import export_checkpoint as export_it
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints


def import_it(checkpoint, output_dir, say=print, **flags):
    request = ImportRequest(checkpoint=checkpoint, output_dir=output_dir, **flags)
    return import_checkpoint(request, say=say)


def run_program(*argv):
    module = export_checkpoint
    cli.run("t2t-export-checkpoint", module.__doc__, module.define_flags, module.main, list(argv))


@pytest.mark.parametrize("name", ["base_v1", "shared_embedding_only", "relative", "multistep"])
def test_there_and_back_and_there_again(t2t_run, tmp_path, name):
    t2t = t2t_run(name)
    first = import_it(t2t.write(9), tmp_path / "first")
    run_program(f"--output_dir={tmp_path / 'first'}", f"--t2t_dir={tmp_path / 'back'}")
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


def test_an_average_has_no_slots(t2t_run, tmp_path, capsys):
    import_it(t2t_run("base_v1").write(slots=False), tmp_path / "run")
    prefix = export_it(trained_run(tmp_path / "run"), tmp_path / "back")
    assert Checkpoint(prefix).slots() == {} and Checkpoint(prefix).step() == 7
    assert "no optimizer state" in capsys.readouterr().out


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
    assert f"as tensor2tensor has none with {change}." in capsys.readouterr().out


def test_one_of_several_checkpoints(t2t_run, tmp_path):
    t2t = t2t_run("base_v1")
    for step in (7, 9):
        import_it(t2t.write(step), tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "ckpt-7"
    assert export_it(
        trained_run(tmp_path / "run"), tmp_path / "back", checkpoint=str(path)
    ).name.endswith("-7")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_tensor2tensor_left_is_not_replaced(t2t_run, tmp_path):
    """Neither the run that was imported, nor one that went on with an export, nor another's."""
    t2t = t2t_run("base_v1")
    command = ["t2t-import-checkpoint", f"--checkpoint={t2t.write()}"]
    request = ImportRequest(checkpoint=t2t.folder, output_dir=tmp_path / "run")
    import_checkpoint(request, command=command)
    run, before = trained_run(tmp_path / "run"), contents(t2t.folder)
    (tmp_path / "link").symlink_to(t2t.folder)
    for name in (t2t.folder, tmp_path / "link"):
        with pytest.raises(UserError):
            export_it(run, name)
    assert contents(t2t.folder) == before

    first = contents(export_it(run, tmp_path / "back").parent)
    assert contents(export_it(run, tmp_path / "back").parent) == first
    shutil.copy(tmp_path / "back" / "flags.txt", t2t.folder)
    with pytest.raises(UserError, match="7"):
        export_it(run, t2t.folder)

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
    with pytest.raises(UserError, match=f"which holds {t2t.VOCABULARY}. Name another."):
        export_it(run, tmp_path / "data")
    assert (tmp_path / "data" / t2t.VOCABULARY).read_text() == "another"


def test_killed_on_the_way_it_is_written_again(t2t_run, tmp_path, monkeypatch):
    import_it(t2t_run("base_v1").write(), tmp_path / "run")
    run = trained_run(tmp_path / "run")
    whole = contents(export_it(run, tmp_path / "whole").parent)
    for number in range(3):
        with monkeypatch.context() as patch:
            left = [number]

            def stop(*arguments, left=left, **options):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                return write_text_atomic(*arguments, **options)

            for module in (t2t_runs, t2t_checkpoint):
                patch.setattr(module, "write_text_atomic", stop)
            with pytest.raises(KeyboardInterrupt):
                export_it(run, tmp_path / "back")
    assert contents(export_it(run, tmp_path / "back").parent) == whole


def test_what_is_missing_is_named(t2t_run, tmp_path, capsys):
    for flags, missing in (([], "--output_dir"), ([f"--output_dir={tmp_path}"], "--t2t_dir")):
        with pytest.raises(SystemExit):
            run_program(*flags)
        assert f"Expected {missing}" in capsys.readouterr().err
    import_it(t2t_run("base_v1").write(), tmp_path / "run")
    with pytest.raises(UserError, match="t2t_repro"):
        export_it(trained_run(tmp_path / "run"), tmp_path / "run")
    with pytest.raises(UserError):
        export_it(trained_run(tmp_path), tmp_path / "back")


@pytest.mark.slow
def test_a_run_goes_to_tensor2tensor_and_back_and_trains_on(tmp_path, capsys):
    flags = [
        "--problem=algorithmic_reverse_binary40_test",
        "--hparams_set=transformer_test",
        "--hparams=num_hidden_layers=1,batch_size=256",
        f"--data_dir={tmp_path / 'data'}",
        "--schedule=train",
        "--train_steps=3",
    ]

    def train(name, *more):
        argv = [*more, f"--output_dir={tmp_path / name}"]
        cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, argv)

    train("run", *flags, "--generate_data")
    export_it(trained_run(tmp_path / "run"), tmp_path / "t2t")
    import_it(tmp_path / "t2t", tmp_path / "again")
    assert RunDirectory(tmp_path / "again").config().hparams == (
        RunDirectory(tmp_path / "run").config().hparams
    )
    capsys.readouterr()
    train("again", "--train_steps=4", f"--data_dir={tmp_path / 'data'}", "--schedule=train")
    out = capsys.readouterr().out
    assert "(step 3)" in out and "step 4/4" in out

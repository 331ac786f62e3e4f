import errno
import json
import os
import re

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.training import checkpoints, model_state
from t2t_repro.training.checkpoints import State


def flip_a_byte(file, at=0.5):
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    file.write_bytes(data)


def test_steps_are_ordered_as_numbers(tmp_path, make_model):
    model = make_model()
    for number in (8, 9, 10, 100):
        model_state.save(tmp_path, model, State(step=number))
    names = [path.name for path in checkpoints.list_checkpoints(tmp_path)]
    assert names == ["ckpt-8", "ckpt-9", "ckpt-10", "ckpt-100"]
    assert checkpoints.latest(tmp_path).name == "ckpt-100"


def test_a_ranking_goes_before_the_newest(tmp_path, make_model):
    model = make_model()
    for number in (3, 5, 7):
        model_state.save(tmp_path, model, State(step=number))
    ranking = {"ranking": [{"step": 5}, {"step": 7}, {"step": 3}]}
    (tmp_path / "ranking.json").write_text(json.dumps(ranking))
    assert checkpoints.find(tmp_path).name == "ckpt-5"
    (tmp_path / "ckpt-5" / "weights.npz").unlink()
    assert checkpoints.latest(tmp_path, lambda text: None).name == "ckpt-7"
    (tmp_path / "ranking.json").write_text("torn")
    assert checkpoints.latest(tmp_path).name == "ckpt-7"


@pytest.mark.parametrize("links", [True, False])
def test_weights_alone_are_copied(tmp_path, make_model, monkeypatch, links):
    def refuse(*paths):
        raise OSError(errno.EXDEV, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    model = make_model(seed=5)
    path = model_state.save(tmp_path / "run", model, State(step=9, batches=4))
    copy = checkpoints.copy_weights(path, tmp_path / "best")
    checkpoints.delete(path)
    assert checkpoints.verify(copy) == State(step=9, batches=4)
    assert sorted(file.name for file in copy.iterdir()) == ["state.json", "weights.npz"]
    other = make_model(seed=6)
    model_state.load_weights(other, copy)
    np.testing.assert_array_equal(
        np.asarray(other.softmax.kernel), np.asarray(model.softmax.kernel)
    )


@pytest.mark.parametrize("file", ["weights.npz", "training.npz", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "flipped"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    tmp_path, make_model, capsys, file, damage
):
    model = make_model()
    model_state.save(tmp_path, model, State(step=1))
    victim = model_state.save(tmp_path, model, State(step=2)) / file
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-20])
    elif damage == "empty":
        victim.write_bytes(b"")
    elif damage == "missing":
        victim.unlink()
    elif file == "state.json":
        victim.write_text(victim.read_text().replace("format", "fromat"))
    else:
        flip_a_byte(victim)
    warnings = []
    assert checkpoints.latest(tmp_path, warnings.append).name == "ckpt-1"
    assert re.search("Skipping a checkpoint that is not whole.*ckpt-2", warnings[0])
    assert file in warnings[0]
    capsys.readouterr()
    assert checkpoints.find(tmp_path).name == "ckpt-1"
    out, err = capsys.readouterr()  # stdout may be the translations
    assert out == "" and err.startswith("Skipping a checkpoint")


def test_every_flipped_byte_of_an_archive_is_found(tmp_path, make_model):
    path = model_state.save(tmp_path, make_model(), State(step=1))
    whole = (path / "weights.npz").read_bytes()
    arrays = checkpoints.read_arrays(path / "weights.npz")
    for at in np.linspace(0, 0.999, 60):
        (path / "weights.npz").write_bytes(whole)
        flip_a_byte(path / "weights.npz", at)
        try:
            checkpoints.verify(path)
            read = checkpoints.read_arrays(path / "weights.npz")
        except checkpoints.CorruptCheckpoint:
            continue
        # A byte of the zip's own headers that nothing reads, such as a time stamp.
        assert set(read) == set(arrays)
        assert all(np.array_equal(read[name], arrays[name]) for name in arrays)


def test_a_failed_write_leaves_the_earlier_ones_and_no_rubbish(tmp_path, make_model, monkeypatch):
    model = make_model()
    model_state.save(tmp_path, model, State(step=1))

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError):
        model_state.save(tmp_path, model, State(step=2))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]


def test_leftovers_of_a_killed_writer_are_removed_and_a_step_can_be_saved_again(
    tmp_path, make_model
):
    (tmp_path / ".incomplete-4").mkdir()
    model = make_model()
    model_state.save(tmp_path, model, State(step=5))
    model_state.save(tmp_path, model, State(step=5, batches=6))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-5"]
    assert checkpoints.verify(tmp_path / "ckpt-5").batches == 6


def test_no_checkpoint_says_what_to_give(tmp_path):
    with pytest.raises(UserError):
        checkpoints.find(tmp_path)
    with pytest.raises(UserError):
        checkpoints.find(tmp_path / "ckpt-8")
    (tmp_path / "model.ckpt-8.index").touch()
    for path in (tmp_path, tmp_path / "model.ckpt-8"):
        with pytest.raises(UserError, match=f"t2t-checkpoint import --checkpoint={path} --output"):
            checkpoints.find(path)
    with pytest.raises(UserError, match="8"):
        checkpoints.step_of(checkpoints.pathlib.Path("model.ckpt-8"))


def test_a_full_disk_leaves_no_half_of_a_checkpoint(make_model, tmp_path, monkeypatch):
    model = make_model()
    model_state.save(tmp_path, model, checkpoints.State(step=1))

    def fail(*args, **values):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        model_state.save(tmp_path, model, checkpoints.State(step=2))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]

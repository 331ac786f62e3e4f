import errno
import os
import threading

import numpy as np
import pytest

from t2t_repro.training import checkpoints, model_state
from t2t_repro.training.checkpoints import State
from t2t_repro.training.saving import PERMANENT, NoSaver, Saver, prune


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def names(folder):
    return [path.name for path in checkpoints.list_checkpoints(folder)]


def slow(monkeypatch):
    """Makes writing wait for the event that it returns."""
    go, write = threading.Event(), checkpoints.write

    def wait(*arguments):
        assert go.wait(20)
        return write(*arguments)

    monkeypatch.setattr(checkpoints, "write", wait)
    return go


def test_steps_go_on_while_the_weights_of_before_are_written(folder, make_model, monkeypatch):
    go = slow(monkeypatch)
    model, saver = make_model(), Saver(folder)
    before = np.array(model.softmax.kernel)
    saver.save(model, State(step=1))
    model.softmax.kernel.assign(before + 1)
    assert names(folder) == []
    go.set()
    saver.wait()
    saved = checkpoints.read_arrays(folder / "ckpt-1" / "weights.npz")["softmax/kernel"]
    np.testing.assert_array_equal(saved, before)


def test_a_save_waits_for_the_one_before(folder, make_model, monkeypatch):
    go = slow(monkeypatch)
    model, saver = make_model(), Saver(folder)
    saver.save(model, State(step=1))
    threading.Timer(0.2, go.set).start()
    saver.save(model, State(step=2))
    assert "ckpt-1" in names(folder)
    saver.close()
    assert names(folder) == ["ckpt-1", "ckpt-2"]


@pytest.mark.parametrize("ask", [Saver.wait, Saver.check])
def test_a_full_disk_is_an_error_once_and_leaves_the_earlier_ones(
    folder, make_model, monkeypatch, ask
):
    model, saver = make_model(), Saver(folder, keep_max=1)
    saver.save(model, State(step=1))
    saver.wait()
    savez = np.savez

    def full(file, **values):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    saver.save(model, State(step=2))
    saver.close()
    with pytest.raises(OSError, match=f"No space left on device: '{folder}'"):
        ask(saver)
    assert [path.name for path in folder.iterdir()] == ["ckpt-1"]
    checkpoints.verify(folder / "ckpt-1")
    monkeypatch.setattr(np, "savez", savez)
    saver.save(model, State(step=3))
    saver.wait()
    assert names(folder) == ["ckpt-3"]


def test_the_oldest_go_but_the_permanent_stay(folder, make_model):
    model = make_model()
    for step in range(1, 8):
        permanent = {PERMANENT: True} if step in (2, 6) else {}
        model_state.save(folder, model, State(step=step, extra=permanent))
    (folder / "ckpt-3" / "state.json").write_text("torn")
    prune(folder, 0, 7)
    assert len(names(folder)) == 7
    prune(folder, 2, 6)  # 7 is damaged, say: it does not count
    assert names(folder) == ["ckpt-2", "ckpt-4", "ckpt-5", "ckpt-6", "ckpt-7"]
    prune(folder, 1, 7)
    assert names(folder) == ["ckpt-2", "ckpt-6", "ckpt-7"]


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path, make_model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saver = NoSaver()
    saver.save(make_model(), State(step=1))
    saver.wait()
    saver.check()
    saver.close()
    assert list(tmp_path.iterdir()) == []

"""The files of TensorFlow 1 checkpoints: found, read, written, refused."""

import pickle

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_checkpoint, tensor2tensor

ARRAYS = {
    "global_step": np.array(30, "int64"),
    "m/kernel": np.arange(6, dtype="float32").reshape(2, 3),
    "m/kernel/part": np.ones(2, "float32"),
    "m/bias": np.zeros(3, "float32"),
    "training/m/kernel/Adam": np.zeros((2, 3), "float32"),
    "training/m/kernel/Adam_1": np.ones((2, 3), "float32"),
    "scope/m/bias/Adam_1": np.ones(3, "float32"),
    "m/bias/Adam": np.zeros(3, "float32"),
    "training/beta1_power": np.array(0.5, "float32"),
    "losses_avg/problem_0/total_loss": np.array(0.5, "float32"),
    "train_stats/problem_0_steps": np.array(0, "int32"),
}


@pytest.fixture
def folder(tmp_path):
    t2t_checkpoint.write(tmp_path, 30, ARRAYS)
    return tmp_path


@pytest.mark.parametrize("name", ["run", "x=[12]", "a?[*\\"])
def test_reading_leaves_slots_and_bookkeeping_out(tmp_path, name):
    folder = tmp_path / name  # some of which TensorFlow reads as patterns
    t2t_checkpoint.write(folder, 30, ARRAYS)
    for path in (folder, folder / "model.ckpt-30", folder / "model.ckpt-30.index"):
        arrays = tensor2tensor.read_checkpoint(path)
        assert set(arrays) == {"m/kernel", "m/bias"}
        np.testing.assert_array_equal(arrays["m/kernel"], ARRAYS["m/kernel"])


def test_slots_and_step_are_read_separately(folder):
    checkpoint = t2t_checkpoint.Checkpoint(str(folder))
    assert checkpoint.step() == 30
    assert checkpoint.slots() == {
        "Adam": {
            "m/bias": ["m/bias/Adam", "scope/m/bias/Adam_1"],
            "m/kernel": ["training/m/kernel/Adam", "training/m/kernel/Adam_1"],
        },
        "part": {"m/kernel": ["m/kernel/part"]},
    }
    assert checkpoint.array("training/beta1_power") == np.float32(0.5)


def test_tensorflow_1_reads_what_is_written(folder):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        kernel = tf.compat.v1.get_variable("m/kernel", (2, 3))
        step = tf.compat.v1.train.get_or_create_global_step()
        newest = tf.compat.v1.train.latest_checkpoint(str(folder))
        tf.compat.v1.train.Saver([kernel, step]).restore(session, newest)
        np.testing.assert_array_equal(session.run(kernel), ARRAYS["m/kernel"])
        assert session.run(step) == 30


def test_a_folder_that_was_moved_keeps_its_newest(folder):
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/me/old/model.ckpt-30"\n')
    assert t2t_checkpoint.find(folder) == folder / "model.ckpt-30"


@pytest.mark.parametrize("names", ['model_checkpoint_path: "model.ckpt-9"', "nothing", None])
def test_no_checkpoint(folder, names):
    with pytest.raises(UserError, match="model.ckpt-9"):
        t2t_checkpoint.find(folder / "model.ckpt-9")
    (folder / "checkpoint").unlink()
    if names is not None:
        (folder / "checkpoint").write_text(names)
    with pytest.raises(UserError, match=str(folder)):
        t2t_checkpoint.find(folder)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


@pytest.mark.parametrize("name", ["model.pkl", "model.ckpt-1"])
def test_a_pickle_is_never_loaded(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError):
        t2t_checkpoint.read_checkpoint(tmp_path / name)
    (tmp_path / f"{name}.index").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError):
        t2t_checkpoint.read_checkpoint(tmp_path / name)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("harm", ["cut", "changed", "gone"])
def test_a_checkpoint_that_is_not_whole(folder, ending, harm):
    file = folder / f"model.ckpt-30{ending}"
    content = file.read_bytes()
    if harm == "gone":
        file.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
        file.write_bytes(content[:middle] if harm == "cut" else flipped)
    with pytest.raises(UserError):
        for name in ARRAYS:
            t2t_checkpoint.Checkpoint(folder).array(name)

import os

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.training import averaging, checkpoints


def step(model, seed):
    inputs = np.random.default_rng(seed).integers(2, 11, (3, 5)).astype("int32")
    model.train_on_batch({"inputs": inputs, "targets": inputs})


def test_average_is_the_mean_in_float64_and_keeps_type_and_step(tmp_path, make_model):
    model = make_model()
    paths, history = [], []
    for number in (10, 20, 30, 40):
        step(model, number)
        paths.append(checkpoints.save(tmp_path / "run", model, checkpoints.State(step=number)))
        os.utime(paths[-1] / "weights.npz", (1e9 + number, 1e9 + number))
        history.append(np.asarray(model.softmax.kernel).astype("float64"))
    path = averaging.average(paths[-3:], tmp_path / "avg")
    arrays = checkpoints.read_arrays(path / "weights.npz")
    assert path.name == "ckpt-40" and arrays["softmax/kernel"].dtype == np.float32
    mean = np.mean(history[-3:], axis=0).astype("float32")
    np.testing.assert_array_equal(arrays["softmax/kernel"], mean)
    assert checkpoints.verify(path).averaged == (20, 30, 40)
    opened = averaging.opened(paths)
    written = list(averaging.rolling_average(opened, tmp_path / "rolling", 2))
    assert [p.name for p in written] == ["ckpt-20", "ckpt-30", "ckpt-40"]
    assert [p.stat().st_mtime - 1e9 for p in written] == [20, 30, 40]  # the last one's
    middle = checkpoints.read_arrays(written[1] / "weights.npz")["softmax/kernel"]
    np.testing.assert_array_equal(middle, np.mean(history[1:3], axis=0).astype("float32"))
    (again,) = averaging.rolling_average(averaging.opened(paths[:3:2]), tmp_path / "rolling", 2)
    assert again == written[1] and again.stat().st_mtime > 1e9 + 1000  # others are newer
    checkpoints.load_weights(model, path)
    with pytest.raises(UserError, match="20"):
        checkpoints.restore(model, path)
    other = checkpoints.save(
        tmp_path / "other", make_model(vocab_size=13), checkpoints.State(step=50)
    )
    with pytest.raises(UserError, match="50"):
        averaging.average([paths[0], other], tmp_path / "avg")

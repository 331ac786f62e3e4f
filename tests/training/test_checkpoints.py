import errno
import json
import os
import re
import threading

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.training import checkpoints
from t2t_repro.training.checkpoints import PERMANENT, TRAINING, WEIGHTS, Saver, State
from tests.training.runs import arrays, assert_same


def step(model, seed):
    inputs = np.random.default_rng(seed).integers(2, 11, (3, 5)).astype("int32")
    return model.train_on_batch({"inputs": inputs, "targets": inputs}, return_dict=True)["loss"]


def names(folder):
    return [path.name for path in checkpoints.list_checkpoints(folder)]


@pytest.fixture
def save(tmp_path, make_model):
    """Saves a model, if none is named always the same, under the steps given."""
    made = make_model()

    def save(*steps, model=made, folder=tmp_path, **state):
        return [checkpoints.save(folder, model, State(step=step, **state)) for step in steps]

    return save


def fill_the_disk(monkeypatch):
    def full(file, **arrays):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)


def flipped(content, at=0.5):
    data = bytearray(content)
    data[int(len(data) * at)] ^= 0xFF
    return bytes(data)


def test_a_ranking_goes_before_the_newest(tmp_path, save):
    save(3, 5, 7)
    ranking = {"ranking": [{"step": 5}, {"step": 7}, {"step": 3}]}
    (tmp_path / "ranking.json").write_text(json.dumps(ranking))
    assert checkpoints.find(tmp_path).name == "ckpt-5"
    (tmp_path / "ckpt-5" / WEIGHTS).unlink()
    assert checkpoints.latest(tmp_path, lambda text: None).name == "ckpt-7"
    (tmp_path / "ranking.json").write_text("torn")
    assert checkpoints.latest(tmp_path).name == "ckpt-7"


@pytest.mark.parametrize("links", [True, False])
def test_weights_alone_are_copied(tmp_path, make_model, save, monkeypatch, links):
    def refuse(*paths):
        raise OSError(errno.EXDEV, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    model, other = make_model(seed=5), make_model(seed=6)
    (path,) = save(9, model=model, batches=4)
    copy = checkpoints.copy_weights(path, tmp_path / "best")
    checkpoints.delete(path)
    assert checkpoints.verify(copy) == State(step=9, batches=4)
    assert sorted(file.name for file in copy.iterdir()) == ["state.json", WEIGHTS]
    for folder in (copy, tmp_path / "best"):
        assert checkpoints.load_weights(other, folder).step == 9
        assert_same(model, other)


DAMAGES = {
    "cut": lambda content: content[:-20],
    "empty": lambda content: b"",
    "flipped": flipped,
    # Still JSON, but not of the schema.
    "renamed": lambda content: content.replace(b"format", b"fromat").replace(b"PK", b"KP"),
    "missing": None,
}


@pytest.mark.parametrize("file", [WEIGHTS, TRAINING, "state.json"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    tmp_path, save, capsys, file, damage
):
    victim = save(1, 2)[1] / file
    if damage:
        victim.write_bytes(damage(victim.read_bytes()))
    else:
        victim.unlink()
    warnings = []
    assert checkpoints.latest(tmp_path, warnings.append).name == "ckpt-1"
    assert f"ckpt-2/{file}" in warnings[0]
    assert checkpoints.find(tmp_path).name == "ckpt-1"
    out, err = capsys.readouterr()  # stdout may be the translations
    assert out == "" and file in err


def test_leftovers_of_a_killed_writer_are_removed(tmp_path, save):
    (tmp_path / "ckpt-4.incomplete").mkdir()
    save(5)
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-5"]


def test_no_checkpoint_says_what_to_give(tmp_path):
    for path in (tmp_path, tmp_path / "ckpt-8"):
        with pytest.raises(UserError):
            checkpoints.find(path)
    (tmp_path / "model.ckpt-8.index").touch()
    for path in (tmp_path, tmp_path / "model.ckpt-8"):
        with pytest.raises(UserError, match=f"t2t-checkpoint import --checkpoint={path}"):
            checkpoints.find(path)


def test_restored_training_goes_on_bit_for_bit(make_model, save):
    straight = make_model(seed=3)
    for seed in range(3):
        step(straight, seed)
    state = State(step=3, batches=3, extra={"best": 0.5})
    (path,) = save(3, model=straight, batches=3, extra={"best": 0.5})
    assert sorted(file.name for file in path.iterdir()) == ["state.json", TRAINING, WEIGHTS]
    assert set(arrays(path)) == {"embedding/embeddings", "softmax/kernel", "softmax/bias"}
    # Adam: iterations, learning rate, two slots a weight; one seed, that of dropout.
    training = checkpoints.read_arrays(path / TRAINING)
    assert len(training) == 2 + 2 * 3 + 1 and "seed/0000" in training
    expected = [step(straight, seed) for seed in range(3, 6)]
    resumed = make_model(seed=99)  # other weights, other dropout: all must come from the files
    assert checkpoints.restore(resumed, path) == state
    assert [step(resumed, seed) for seed in range(3, 6)] == expected
    for file, values in checkpoints.snapshot(straight).items():
        assert_same(values, checkpoints.snapshot(resumed)[file])


def test_a_checkpoint_with_the_feed_forward_layers_earlier_names_is_read(tmp_path):
    layer = FeedForward(5, name="feed_forward")
    layer.build((None, 3, 4))
    of = {f"encoder/{weight.path}": np.array(weight) for weight in layer.weights}
    new = {"intermediate_dense": "conv1", "output_dense": "conv2"}
    renamed = {re.sub("|".join(new), lambda m: new[m[0]], name): of[name] for name in of}
    assert "encoder/feed_forward/conv1/kernel" in renamed
    path = checkpoints.write(tmp_path, {WEIGHTS: renamed}, State(step=1))
    assert_same(of, path)


def test_what_does_not_fit_is_listed(make_model, save):
    (path,) = save(1)
    with pytest.raises(UserError) as caught:
        checkpoints.load_weights(make_model(vocab_size=13), path)
    text = str(caught.value)
    assert all(f"{each}" in text for each in ("(11, 12)", "(13, 12)", "softmax/bias", "(13,)"))
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="other")])
    with pytest.raises(UserError, match="other/kernel"):
        checkpoints.load_weights(other, path)


def test_bfloat16_weights_come_back(save):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype="bfloat16")])
    before = arrays(model)
    (path,) = save(1, model=model)
    for weight in model.weights:
        weight.assign(weight * 0)
    checkpoints.load_weights(model, path)
    assert_same(before, model)


def test_steps_go_on_while_the_weights_of_before_are_written(tmp_path, make_model, monkeypatch):
    go, write = threading.Event(), checkpoints.write
    monkeypatch.setattr(checkpoints, "write", lambda *of: go.wait(20) and write(*of))
    model, saver = make_model(), Saver(tmp_path)
    before = arrays(model)
    saver.save(model, State(step=1))
    model.softmax.kernel.assign(model.softmax.kernel + 1)
    assert names(tmp_path) == []
    go.set()
    saver.wait()
    assert_same(tmp_path / "ckpt-1", before)


@pytest.mark.parametrize("ask", [Saver.wait, Saver.check])
def test_a_full_disk_is_an_error_once_and_leaves_the_earlier_ones(
    tmp_path, make_model, monkeypatch, ask
):
    model, saver = make_model(), Saver(tmp_path, keep_max=1)
    saver.save(model, State(step=1))
    saver.wait()
    with monkeypatch.context() as patched:
        fill_the_disk(patched)
        saver.save(model, State(step=2))
        with pytest.raises(OSError) as raised:
            while True:
                ask(saver)
    assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]
    checkpoints.verify(tmp_path / "ckpt-1")
    saver.save(model, State(step=3))
    saver.wait()
    assert names(tmp_path) == ["ckpt-3"]


def test_the_oldest_go_but_the_permanent_stay(tmp_path, save):
    for step in range(1, 8):
        save(step, extra={PERMANENT: True} if step in (2, 6) else {})
    (tmp_path / "ckpt-3" / "state.json").write_text("torn")
    checkpoints.prune(tmp_path, 0, 7)
    assert len(names(tmp_path)) == 7
    checkpoints.prune(tmp_path, 2, 6)  # 7 is damaged, say: it does not count
    assert names(tmp_path) == ["ckpt-2", "ckpt-4", "ckpt-5", "ckpt-6", "ckpt-7"]
    checkpoints.prune(tmp_path, 1, 7)
    assert names(tmp_path) == ["ckpt-2", "ckpt-6", "ckpt-7"]


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path, make_model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saver = Saver(None)
    saver.save(make_model(), State(step=1))
    saver.close()
    assert list(tmp_path.iterdir()) == []


def test_average_is_the_mean_in_float64_and_keeps_type_and_step(tmp_path, make_model, save):
    model, paths, history = make_model(), [], []
    for number in (10, 20, 30, 40):
        step(model, number)
        paths += save(number, model=model)
        os.utime(paths[-1] / WEIGHTS, (1e9 + number, 1e9 + number))
        history.append(arrays(model)["softmax/kernel"].astype("float64"))
    path = checkpoints.average(paths[-3:], tmp_path / "avg")
    found = arrays(path)["softmax/kernel"]
    assert path.name == "ckpt-40" and found.dtype == np.float32
    np.testing.assert_array_equal(found, np.mean(history[-3:], axis=0).astype("float32"))
    assert checkpoints.verify(path).averaged == (20, 30, 40)
    rolling = tmp_path / "rolling"
    written = list(checkpoints.rolling_average(checkpoints.members(paths), rolling, 2))
    assert [p.name for p in written] == ["ckpt-20", "ckpt-30", "ckpt-40"]
    assert [p.stat().st_mtime - 1e9 for p in written] == [20, 30, 40]  # the last one's
    middle = arrays(written[1])["softmax/kernel"]
    np.testing.assert_array_equal(middle, np.mean(history[1:3], axis=0).astype("float32"))
    others = checkpoints.members(paths[:3:2])
    (again,) = checkpoints.rolling_average(others, rolling, 2)
    assert again == written[1] and again.stat().st_mtime > 1e9 + 1000  # others are newer
    checkpoints.load_weights(model, path)
    with pytest.raises(UserError, match="20"):
        checkpoints.restore(model, path)
    (other,) = save(50, model=make_model(vocab_size=13))
    with pytest.raises(UserError, match="50"):
        checkpoints.average([paths[0], other], tmp_path / "avg")

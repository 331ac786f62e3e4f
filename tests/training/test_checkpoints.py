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
from t2t_repro.training.checkpoints import PERMANENT, Saver, State


def step(model, seed):
    inputs = np.random.default_rng(seed).integers(2, 11, (3, 5)).astype("int32")
    return model.train_on_batch({"inputs": inputs, "targets": inputs}, return_dict=True)["loss"]


def values(model):
    return {n: a for file in checkpoints.snapshot(model).values() for n, a in file.items()}


def names(folder):
    return [path.name for path in checkpoints.list_checkpoints(folder)]


def fill_the_disk(monkeypatch):
    def full(file, **arrays):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)


def flip_a_byte(file, at=0.5):
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    file.write_bytes(data)


def test_steps_are_ordered_as_numbers(tmp_path, make_model):
    model = make_model()
    for number in (8, 9, 10, 100):
        checkpoints.save(tmp_path, model, State(step=number))
    names = [path.name for path in checkpoints.list_checkpoints(tmp_path)]
    assert names == ["ckpt-8", "ckpt-9", "ckpt-10", "ckpt-100"]
    assert checkpoints.latest(tmp_path).name == "ckpt-100"


def test_a_ranking_goes_before_the_newest(tmp_path, make_model):
    model = make_model()
    for number in (3, 5, 7):
        checkpoints.save(tmp_path, model, State(step=number))
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
    path = checkpoints.save(tmp_path / "run", model, State(step=9, batches=4))
    copy = checkpoints.copy_weights(path, tmp_path / "best")
    checkpoints.delete(path)
    assert checkpoints.verify(copy) == State(step=9, batches=4)
    assert sorted(file.name for file in copy.iterdir()) == ["state.json", "weights.npz"]
    other = make_model(seed=6)
    checkpoints.load_weights(other, copy)
    np.testing.assert_array_equal(
        np.asarray(other.softmax.kernel), np.asarray(model.softmax.kernel)
    )


@pytest.mark.parametrize("file", ["weights.npz", "training.npz", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "flipped"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    tmp_path, make_model, capsys, file, damage
):
    model = make_model()
    checkpoints.save(tmp_path, model, State(step=1))
    victim = checkpoints.save(tmp_path, model, State(step=2)) / file
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
    assert f"ckpt-2/{file}" in warnings[0]
    assert checkpoints.find(tmp_path).name == "ckpt-1"
    out, err = capsys.readouterr()  # stdout may be the translations
    assert out == "" and file in err


def test_every_flipped_byte_of_an_archive_is_found(tmp_path, make_model):
    path = checkpoints.save(tmp_path, make_model(), State(step=1))
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


def test_leftovers_of_a_killed_writer_are_removed_and_a_step_can_be_saved_again(
    tmp_path, make_model
):
    (tmp_path / ".incomplete-4").mkdir()
    model = make_model()
    checkpoints.save(tmp_path, model, State(step=5))
    checkpoints.save(tmp_path, model, State(step=5, batches=6))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-5"]
    assert checkpoints.verify(tmp_path / "ckpt-5").batches == 6


def test_no_checkpoint_says_what_to_give(tmp_path):
    with pytest.raises(UserError):
        checkpoints.find(tmp_path)
    with pytest.raises(UserError):
        checkpoints.find(tmp_path / "ckpt-8")
    (tmp_path / "model.ckpt-8.index").touch()
    for path in (tmp_path, tmp_path / "model.ckpt-8"):
        with pytest.raises(UserError, match=f"t2t-checkpoint import --checkpoint={path}"):
            checkpoints.find(path)


def test_restored_training_goes_on_bit_for_bit(tmp_path, make_model):
    straight = make_model(seed=3)
    for seed in range(3):
        step(straight, seed)
    path = checkpoints.save(tmp_path, straight, State(step=3, batches=3, extra={"best": 0.5}))
    expected = [step(straight, seed) for seed in range(3, 6)]
    resumed = make_model(seed=99)  # other weights, other dropout: all must come from the files
    state = checkpoints.restore(resumed, path)
    assert state == State(step=3, batches=3, extra={"best": 0.5})
    assert [step(resumed, seed) for seed in range(3, 6)] == expected
    for name, value in values(straight).items():
        np.testing.assert_array_equal(value, values(resumed)[name], name)


def test_the_checkpoint_holds_weights_slots_and_seeds(tmp_path, make_model):
    path = checkpoints.save(tmp_path, make_model(), State(step=7))
    assert sorted(p.name for p in path.iterdir()) == ["state.json", "training.npz", "weights.npz"]
    weights = checkpoints.read_arrays(path / "weights.npz")
    assert set(weights) == {"embedding/embeddings", "softmax/kernel", "softmax/bias"}
    training = checkpoints.read_arrays(path / "training.npz")
    # Adam: iterations, learning rate, two slots a weight; one seed, that of dropout.
    assert len(training) == 2 + 2 * 3 + 1 and "seed/0000" in training


def test_a_checkpoint_with_the_feed_forward_layers_earlier_names_is_read(tmp_path):
    def made():
        x = keras.Input((3, 4))
        return keras.Model(x, FeedForward(5, name="feed_forward")(x))

    model, again = made(), made()
    new = {"intermediate_dense": "conv1", "output_dense": "conv2"}
    arrays = {
        f"encoder/{re.sub('|'.join(new), lambda found: new[found[0]], name)}": np.asarray(variable)
        for name, variable in checkpoints.weights(model).items()
    }
    assert "encoder/feed_forward/conv1/kernel" in arrays
    path = checkpoints.write(tmp_path, {checkpoints.WEIGHTS: arrays}, State(step=1))
    read = checkpoints.read_arrays(path / checkpoints.WEIGHTS)
    for name, variable in checkpoints.weights(again).items():
        variable.assign(read[f"encoder/{name}"])
    x = np.ones((2, 3, 4), "float32")
    np.testing.assert_array_equal(again(x), model(x))


def test_a_run_directory_is_understood(tmp_path, make_model):
    assert checkpoints.list_checkpoints(tmp_path / "nothing") == []
    assert checkpoints.latest(tmp_path) is None
    model = make_model(seed=1)
    checkpoints.save(tmp_path / "checkpoints", model, State(step=5))
    other = make_model(seed=2)
    for path in (tmp_path, tmp_path / "checkpoints", tmp_path / "checkpoints" / "ckpt-5"):
        assert checkpoints.load_weights(other, path).step == 5
    weights_of_other = checkpoints.weights(other)
    for name, variable in checkpoints.weights(model).items():
        np.testing.assert_array_equal(np.asarray(variable), np.asarray(weights_of_other[name]))


def test_what_does_not_fit_is_listed(tmp_path, make_model):
    path = checkpoints.save(tmp_path, make_model(vocab_size=11), State(step=1))
    with pytest.raises(UserError) as caught:
        checkpoints.load_weights(make_model(vocab_size=13), path)
    text = str(caught.value)
    assert all(f"{each}" in text for each in ("(11, 12)", "(13, 12)", "softmax/bias", "(13,)"))
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="other")])
    with pytest.raises(UserError, match="other/kernel"):
        checkpoints.load_weights(other, path)


def test_bfloat16_weights_come_back(tmp_path):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype="bfloat16")])
    before = [np.asarray(weight).astype("float32") for weight in model.weights]
    path = checkpoints.save(tmp_path, model, State(step=1))
    for weight in model.weights:
        weight.assign(weight * 0)
    checkpoints.load_weights(model, path)
    for old, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(old, np.asarray(weight).astype("float32"))


def test_two_weights_of_one_path_are_refused():
    layers = [keras.layers.Dense(2, name="same"), keras.layers.Dense(2, name="same")]
    for layer in layers:
        layer.build((None, 2))

    class Twice(keras.Model):
        def __init__(self):
            super().__init__(name="twice")
            self.one, self.two = layers

    with pytest.raises(ValueError):
        checkpoints.weights(Twice())


def slow(monkeypatch):
    """Makes writing wait for the event that it returns."""
    go, write = threading.Event(), checkpoints.write

    def wait(*arguments):
        assert go.wait(20)
        return write(*arguments)

    monkeypatch.setattr(checkpoints, "write", wait)
    return go


def test_steps_go_on_while_the_weights_of_before_are_written(tmp_path, make_model, monkeypatch):
    go = slow(monkeypatch)
    model, saver = make_model(), Saver(tmp_path)
    before = np.array(model.softmax.kernel)
    saver.save(model, State(step=1))
    model.softmax.kernel.assign(before + 1)
    assert names(tmp_path) == []
    go.set()
    saver.wait()
    saved = checkpoints.read_arrays(tmp_path / "ckpt-1" / "weights.npz")["softmax/kernel"]
    np.testing.assert_array_equal(saved, before)


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


def test_the_oldest_go_but_the_permanent_stay(tmp_path, make_model):
    model = make_model()
    for step in range(1, 8):
        permanent = {PERMANENT: True} if step in (2, 6) else {}
        checkpoints.save(tmp_path, model, State(step=step, extra=permanent))
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

import errno
import json
import os
import re

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.training import checkpoints, named_variables
from t2t_repro.training.checkpoints import State


def step(model, seed):
    inputs = np.random.default_rng(seed).integers(2, 11, (3, 5)).astype("int32")
    return model.train_on_batch({"inputs": inputs, "targets": inputs}, return_dict=True)["loss"]


def values(model):
    everything = named_variables.weights(model) | named_variables.of_training(model)
    return {name: array(variable) for name, variable in everything.items()}


def array(variable):
    return np.asarray(variable)


def flip_a_byte(file, at=0.5):
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    file.write_bytes(data)


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
        for name, variable in named_variables.weights(model).items()
    }
    assert "encoder/feed_forward/conv1/kernel" in arrays
    path = checkpoints.write(tmp_path, {checkpoints.WEIGHTS: arrays}, State(step=1))
    read = checkpoints.read_arrays(path / checkpoints.WEIGHTS)
    for name, variable in named_variables.weights(again).items():
        variable.assign(read[f"encoder/{name}"])
    x = np.ones((2, 3, 4), "float32")
    np.testing.assert_array_equal(again(x), model(x))


def test_steps_are_ordered_as_numbers(tmp_path, make_model):
    model = make_model()
    for number in (8, 9, 10, 100):
        checkpoints.save(tmp_path, model, State(step=number))
    names = [path.name for path in checkpoints.list_checkpoints(tmp_path)]
    assert names == ["ckpt-8", "ckpt-9", "ckpt-10", "ckpt-100"]
    assert checkpoints.latest(tmp_path).name == "ckpt-100"


def test_a_snapshot_is_not_changed_by_the_next_step(make_model):
    model = make_model()
    taken = checkpoints.snapshot(model)
    copies = {file: {n: a.copy() for n, a in arrays.items()} for file, arrays in taken.items()}
    step(model, 1)
    for file, arrays in taken.items():
        for name, value in arrays.items():
            np.testing.assert_array_equal(value, copies[file][name], name)
    assert any(
        not np.array_equal(value, taken["weights.npz"][name])
        for name, value in checkpoints.snapshot(model)["weights.npz"].items()
    )


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
    np.testing.assert_array_equal(array(other.softmax.kernel), array(model.softmax.kernel))


def test_a_run_directory_is_understood(tmp_path, make_model):
    assert checkpoints.list_checkpoints(tmp_path / "nothing") == []
    assert checkpoints.latest(tmp_path) is None
    model = make_model(seed=1)
    checkpoints.save(tmp_path / "checkpoints", model, State(step=5))
    other = make_model(seed=2)
    for path in (tmp_path, tmp_path / "checkpoints", tmp_path / "checkpoints" / "ckpt-5"):
        assert checkpoints.load_weights(other, path).step == 5
    weights_of_other = named_variables.weights(other)
    for name, variable in named_variables.weights(model).items():
        np.testing.assert_array_equal(array(variable), array(weights_of_other[name]))


@pytest.mark.parametrize("file", ["weights.npz", "training.npz", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "flipped"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    tmp_path, make_model, file, damage
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
    assert re.search("Skipping a checkpoint that is not whole.*ckpt-2", warnings[0])
    assert file in warnings[0]


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


def test_errors_of_reading_name_the_file(tmp_path, make_model):
    path = checkpoints.save(tmp_path, make_model(), State(step=1))
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps({**state, "format": 99}))
    with pytest.raises(
        checkpoints.CorruptCheckpoint, match="Expected format in .*state.json to be 1. Received: 99"
    ):
        checkpoints.verify(path)
    (path / "state.json").write_text(json.dumps(state))
    flip_a_byte(path / "weights.npz")
    with pytest.raises(checkpoints.CorruptCheckpoint, match="weights.npz as it was written"):
        checkpoints.verify(path)
    with pytest.raises(checkpoints.CorruptCheckpoint, match="weights.npz as it was written"):
        checkpoints.load_weights(make_model(), path)
    (path / "weights.npz").write_bytes(b"")
    with pytest.raises(checkpoints.CorruptCheckpoint, match="Expected [0-9]+ bytes in .*: 0."):
        checkpoints.verify(path)
    with pytest.raises(checkpoints.CorruptCheckpoint, match="weights.npz as it was written"):
        checkpoints.read_arrays(path / "weights.npz")
    (path / "weights.npz").unlink()
    with pytest.raises(checkpoints.CorruptCheckpoint, match="Received: no such file"):
        checkpoints.verify(path)


def test_a_failed_write_leaves_the_earlier_ones_and_no_rubbish(tmp_path, make_model, monkeypatch):
    model = make_model()
    checkpoints.save(tmp_path, model, State(step=1))

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(tmp_path, model, State(step=2))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]


def test_leftovers_of_a_killed_writer_are_removed_and_a_step_can_be_saved_again(
    tmp_path, make_model
):
    (tmp_path / ".incomplete-4").mkdir()
    model = make_model()
    checkpoints.save(tmp_path, model, State(step=5))
    checkpoints.save(tmp_path, model, State(step=5, batches=6))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-5"]
    assert checkpoints.verify(tmp_path / "ckpt-5").batches == 6


def test_what_does_not_fit_is_listed(tmp_path, make_model):
    path = checkpoints.save(tmp_path, make_model(vocab_size=11), State(step=1))
    with pytest.raises(UserError) as caught:
        checkpoints.load_weights(make_model(vocab_size=13), path)
    text = str(caught.value)
    assert "embedding/embeddings is (11, 12), expected (13, 12)" in text
    assert "softmax/bias is (11,), expected (13,)" in text and "vocabulary" in text
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="other")])
    with pytest.raises(UserError, match=r"missing other/kernel \(2, 3\).*unknown softmax/bias"):
        checkpoints.load_weights(other, path)
    layers = [keras.layers.Dense(2, name=f"layer_{i}") for i in range(12)]
    with pytest.raises(UserError, match="and 7 more"):
        checkpoints.load_weights(keras.Sequential([keras.Input((2,)), *layers]), path)


def test_no_checkpoint_says_what_to_give(tmp_path):
    with pytest.raises(UserError, match="Expected a checkpoint in .*: a folder without a whole"):
        checkpoints.find(tmp_path)
    with pytest.raises(UserError, match="Expected a checkpoint in .*: no such folder"):
        checkpoints.find(tmp_path / "ckpt-8")
    with pytest.raises(UserError, match="named ckpt-STEP. Received: 'model.ckpt-8'"):
        checkpoints.step_of(checkpoints.pathlib.Path("model.ckpt-8"))


def test_bfloat16_weights_come_back(tmp_path):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype="bfloat16")])
    before = [array(weight).astype("float32") for weight in model.weights]
    path = checkpoints.save(tmp_path, model, State(step=1))
    for weight in model.weights:
        weight.assign(weight * 0)
    checkpoints.load_weights(model, path)
    for old, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(old, array(weight).astype("float32"))


def test_a_full_disk_leaves_no_half_of_a_checkpoint(make_model, tmp_path, monkeypatch):
    model = make_model()
    checkpoints.save(tmp_path, model, checkpoints.State(step=1))

    def fail(*args, **values):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        checkpoints.save(tmp_path, model, checkpoints.State(step=2))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]

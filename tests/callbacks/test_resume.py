"""A fit that is stopped anywhere and begun again ends as one that never was: bit by bit."""

import itertools
import json
import os
import sys
import zlib

import keras
import numpy as np
import pytest

import t2t_repro
from t2t_repro.callbacks import ExactResume
from t2t_repro.data import text_dataset
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import checkpoints, optimizers
from tests import forks
from tests.training.conftest import Cipher

EAGER = True  # to compile takes longer
CIPHER = 2 + np.random.default_rng(7).permutation(9)


class Stop(Exception):
    pass


def stop_at(count):
    """Returns a callback that ends `fit` as a kill would before its batch of this number."""
    numbers = itertools.count(1)

    def begin(batch, logs=None):
        if next(numbers) == count:
            raise Stop

    return keras.callbacks.LambdaCallback(on_train_batch_begin=begin)


def build(**optimizer):
    keras.utils.set_random_seed(0)
    model = Cipher()
    model({"inputs": np.ones((1, 1), "int32"), "targets": np.ones((1, 1), "int32")})
    optimizer = keras.optimizers.Adam(0.05, **optimizer)
    model.compile(optimizer=optimizer, metrics=["accuracy"], run_eagerly=EAGER)
    return model


def rows(count):
    draw = np.random.default_rng(3)
    for _ in range(count):
        inputs = draw.integers(2, 11, (3, 5)).astype("int32")
        yield {"inputs": inputs, "targets": CIPHER[inputs - 2].astype("int32")}


def shuffled():
    """Seven batches, in another order at each pass."""
    import tensorflow as tf

    sides = {name: np.concatenate([r[name] for r in rows(7)]) for name in ("inputs", "targets")}
    return tf.data.Dataset.from_tensor_slices(sides).shuffle(21, seed=4).batch(3)


def endless(start=0):
    passes = itertools.chain.from_iterable(rows(30) for _ in itertools.count())
    return ((batch,) for batch in itertools.islice(passes, start, None))


def own():
    """A model that is none of this package's."""
    keras.utils.clear_session()  # as in a process of its own: layers are numbered from 0
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Embedding(11, 11), keras.layers.Dropout(0.3)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse", metrics=["accuracy"], run_eagerly=EAGER)
    model.build((None, 5))
    return model


def pairs():
    import tensorflow as tf

    return shuffled().map(lambda batch: (batch["inputs"], tf.one_hot(batch["targets"], 11)))


FORMS = {
    "shuffled": (build, shuffled, {}),
    "stream": (build, lambda: shuffled().repeat(), {"steps_per_epoch": 5}),
    "generator": (build, endless, {"steps_per_epoch": 5}),
    "function": (build, lambda: endless, {"steps_per_epoch": 5}),
    "own": (own, pairs, {}),
}


def others():
    return [
        keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10, factor=0.5),
        keras.callbacks.EarlyStopping(
            "accuracy", mode="min", patience=2, restore_best_weights=True
        ),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
    ]


def fit(model, folder, form, stop=None, ours_first=False):
    """Returns the last epoch's logs of a fit, which ends before its batch number `stop`."""
    _, make, given = FORMS[form]
    resume = ExactResume(folder)
    callbacks = [*[*others(), resume][:: -1 if ours_first else 1], stop_at(stop)]
    given = {"x": make(), "epochs": 3, "verbose": 0, "callbacks": callbacks} | given
    history = model.fit(**(resume.prepare(**given) if form == "own" else given))
    return {name: values[-1] for name, values in history.history.items()}


def state(model):
    held = (*model.variables, *model.optimizer.variables)
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in held]


def assert_same(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@pytest.mark.parametrize(
    "form, ours_first",
    [
        ("shuffled", True),
        ("stream", False),
        ("generator", True),
        ("function", False),
        ("own", True),
    ],
)
def test_it_ends_as_one_that_was_not_stopped(tmp_path, form, ours_first):
    make, *_ = FORMS[form]
    straight = make()
    expected = fit(straight, tmp_path / "straight", form, ours_first=ours_first)
    for epochs in (1, 2, 3):  # which are done when it is stopped within the next
        stopped = make()
        if epochs > 1:
            stopped.set_weights([np.ones_like(weight) for weight in stopped.get_weights()])
        if epochs == 3:
            assert fit(stopped, tmp_path / "b", form, ours_first=ours_first) == expected
        else:
            with pytest.raises(Stop):
                fit(stopped, tmp_path / "b", form, stop=9, ours_first=ours_first)
            assert len(checkpoints.list_checkpoints(tmp_path / "b")) == epochs
    assert_same(state(straight), state(stopped))


def test_a_fit_that_a_callback_ended_trains_nothing(tmp_path):
    model, again = build(), build()
    stop = keras.callbacks.EarlyStopping("accuracy", mode="min", patience=1)
    for each, epochs in ((model, [0, 1]), (again, [])):
        how = {"epochs": 5, "steps_per_epoch": 2, "verbose": 0}
        found = each.fit(endless, callbacks=[ExactResume(tmp_path), stop], **how)
        assert found.epoch == epochs
    assert_same(state(model), state(again))


@pytest.mark.parametrize(
    "ours_first, average", [(True, {}), (False, {}), (True, {"use_ema": True, "ema_momentum": 0.5})]
)
def test_a_longer_fit_goes_on_from_the_last_weights(tmp_path, ours_first, average):
    """Not from the best, nor from the averages, which are what a fit ends with."""

    def fit(model, folder, epochs):
        best = keras.callbacks.EarlyStopping("loss", mode="max", restore_best_weights=True)
        best.patience, last = 9, []
        given = [best, ExactResume(tmp_path / folder)][:: -1 if ours_first else 1]
        note = keras.callbacks.LambdaCallback(on_epoch_end=lambda *of: last.append(state(model)))
        how = {"epochs": epochs, "steps_per_epoch": 2, "verbose": 0}
        model.fit(endless, callbacks=[*given, note], **how)
        return last

    straight, again, ended = (build(**average) for _ in range(3))
    whole = fit(straight, "straight", 3)
    fit(again, "again", 2)
    assert_same(whole[-1], fit(again, "again", 3)[-1])
    assert np.abs(whole[-1][0] - straight.variables[0].numpy()).max() > 1e-3
    assert fit(ended, "again", 3) == []
    assert_same(state(straight), state(ended))
    kept = checkpoints.list_checkpoints(tmp_path / "again")
    assert [path.name for path in kept] == ["ckpt-4", "ckpt-6"]


def test_data_whose_place_is_not_known_again_are_refused(tmp_path):
    ids = np.ones((3, 5), "int32")
    for data in ((ids, ids), (endless,)):  # in no known order; of no known end
        with pytest.raises(UserError):
            build().fit(*data, callbacks=[ExactResume(tmp_path)])


def main(folder, kill):
    """Trains a Transformer, killed at its batch of that number; prints a digest of its state."""
    keras.utils.set_random_seed(3)
    hparams = t2t_repro.get_hparams("transformer_test", "batch_size=120,num_hidden_layers=1")
    words = "dog runs field green over a the small house tree".split()
    data = text_dataset(words, words[::-1], ByteTextEncoder(), hparams)
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=258, targets_vocab_size=258)
    model.compile(optimizers.from_hparams(hparams), metrics=["accuracy"])
    counted = itertools.count(1)

    def die(batch, logs=None):
        if next(counted) == kill:
            os.kill(os.getpid(), 9)

    callbacks = [ExactResume(folder), keras.callbacks.LambdaCallback(on_train_batch_end=die)]
    found = model.fit(data, epochs=3, steps_per_epoch=5, verbose=0, callbacks=callbacks).history
    crc = zlib.crc32(b"".join(array.tobytes() for array in state(model)))
    print(json.dumps([crc, found["loss"][-1], found["accuracy"][-1]]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_transformer_that_is_killed(tmp_path, backend):
    found, module = [], "tests.callbacks.test_resume"
    for folder, kill in (("straight", 0), ("killed", 7), ("killed", 0)):
        done = forks.run("-m", module, tmp_path / folder, str(kill), KERAS_BACKEND=backend)
        assert done.returncode == (-9 if kill else 0), done.stderr[-3000:]
        found += [] if kill else [json.loads(done.stdout.splitlines()[-1])]
    assert found[0] == found[1]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

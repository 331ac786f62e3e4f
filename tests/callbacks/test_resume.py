"""A fit that is stopped anywhere and begun again ends as one that never was: bit by bit."""

import itertools
import json
import os
import subprocess
import sys
import zlib

import keras
import numpy as np
import pytest
from keras import ops

import t2t_repro
from t2t_repro.callbacks import ExactResume
from t2t_repro.errors import UserError
from t2t_repro.training import checkpoints
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

    def end(batch, logs=None):
        """Keras calls the others in threads unless one has this."""

    return keras.callbacks.LambdaCallback(on_train_batch_begin=begin, on_train_batch_end=end)


def build(seed=0, **optimizer):
    keras.utils.set_random_seed(seed)
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

    sides = {name: np.concatenate([r[name][:, :4] for r in rows(7)]) for name in ("inputs",)}
    sides["targets"] = CIPHER[sides["inputs"] - 2].astype("int32")
    return tf.data.Dataset.from_tensor_slices(sides).shuffle(21, seed=4).batch(3)


def endless(start=0):
    passes = itertools.chain.from_iterable(rows(30) for _ in itertools.count())
    return ((batch,) for batch in itertools.islice(passes, start, None))


FORMS = {
    "shuffled": (shuffled, {}),
    "stream": (lambda: shuffled().repeat(), {"steps_per_epoch": 5}),
    "generator": (endless, {"steps_per_epoch": 5}),
    "function": (lambda: endless, {"steps_per_epoch": 5}),
}


def others():
    return [
        keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10, factor=0.5),
        keras.callbacks.EarlyStopping(
            "accuracy", mode="min", patience=2, restore_best_weights=True
        ),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
    ]


def fit(model, folder, form, stop=None, save_freq=3, ours_first=False):
    """Returns the last epoch's logs of a fit, which ends before its batch number `stop`."""
    make, keywords = FORMS[form]
    resume = ExactResume(folder, save_freq)
    callbacks = [resume, *others()] if ours_first else [*others(), resume]
    callbacks += [stop_at(stop)] if stop else []
    history = model.fit(make(), epochs=3, verbose=0, callbacks=callbacks, **keywords)
    return {name: values[-1] for name, values in history.history.items()}


def state(model):
    held = (*model.variables, *model.optimizer.variables)
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in held]


def assert_same(one, other):
    for left, right in zip(state(one), state(other), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@pytest.mark.parametrize(
    "form, save_freq, ours_first",
    [
        ("shuffled", 3, True),
        ("shuffled", "epoch", False),
        ("stream", 3, False),
        ("generator", 2, True),
        ("function", "epoch", True),
    ],
)
def test_it_ends_as_one_that_was_not_stopped(tmp_path, form, save_freq, ours_first):
    how = {"form": form, "save_freq": save_freq, "ours_first": ours_first}
    straight, stopped = build(), build()
    expected = fit(straight, tmp_path / "straight", **how)
    for stop in (9, 5) if ours_first else (14,):  # inside of the last epoch
        with pytest.raises(Stop):
            fit(stopped, tmp_path / "stopped", stop=stop, **how)
        stopped = build()
        stopped.embedding.embeddings.assign(ops.ones((11, 12)))
    assert fit(stopped, tmp_path / "stopped", **how) == expected
    assert_same(straight, stopped)


def test_an_ended_fit_trains_nothing_and_a_longer_one_goes_on(tmp_path):
    model, stop = build(), keras.callbacks.EarlyStopping("accuracy", mode="min", patience=1)
    how = {"steps_per_epoch": 2, "verbose": 0}
    model.fit(endless, epochs=5, callbacks=[ExactResume(tmp_path), stop], **how)
    assert int(model.optimizer.iterations) == 4
    again = build()
    history = again.fit(endless, epochs=5, callbacks=[ExactResume(tmp_path), stop], **how)
    assert history.epoch == []
    assert_same(model, again)
    for epochs, trained in ((1, [0]), (3, [1, 2])):
        resume = ExactResume(tmp_path / "b")
        assert model.fit(endless, epochs=epochs, callbacks=[resume], **how).epoch == trained
    kept = [path.name for path in checkpoints.list_checkpoints(tmp_path / "b")]
    assert kept == ["ckpt-8", "ckpt-10"]


def test_a_transformer_that_is_not_built_yet_goes_on(tmp_path):
    hparams = t2t_repro.get_hparams("transformer_test", "num_hidden_layers=1")
    for epochs in (1, 2):
        model = t2t_repro.Transformer(hparams, inputs_vocab_size=11, targets_vocab_size=11)
        model.compile("adam", run_eagerly=keras.backend.backend() == "tensorflow")
        model.fit(shuffled(), epochs=epochs, verbose=0, callbacks=[ExactResume(tmp_path)])
        assert np.asarray(model.optimizer.iterations) == 7 * epochs


def test_an_ended_fit_with_averages_goes_on_from_the_trained_weights(tmp_path):
    average = {"use_ema": True, "ema_momentum": 0.5}
    straight, again = build(**average), build(**average)
    for model, name, ends in ((straight, "straight", (3,)), (again, "again", (1, 3))):
        for epochs in ends:
            how = {"epochs": epochs, "steps_per_epoch": 2, "verbose": 0}
            model.fit(endless, callbacks=[ExactResume(tmp_path / name)], **how)
    assert_same(straight, again)


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_longer_fit_goes_on_from_the_last_weights_and_not_the_best(tmp_path, ours_first):
    def fit(model, folder, epochs):
        best = keras.callbacks.EarlyStopping("loss", mode="max", restore_best_weights=True)
        best.patience, last = 9, []
        given = [best, ExactResume(tmp_path / folder)][:: -1 if ours_first else 1]
        note = keras.callbacks.LambdaCallback(on_epoch_end=lambda *of: last.append(state(model)))
        how = {"epochs": epochs, "steps_per_epoch": 2, "verbose": 0}
        model.fit(endless, callbacks=[*given, note], **how)
        return last

    straight, again, ended = build(), build(), build()
    whole = fit(straight, "straight", 3)
    fit(again, "again", 2)
    for left, right in zip(whole[-1], fit(again, "again", 3)[-1], strict=True):
        np.testing.assert_array_equal(left, right)
    assert np.abs(whole[-1][0] - straight.variables[0].numpy()).max() > 1e-3  # the best are others
    assert fit(ended, "again", 3) == []
    assert_same(straight, ended)


def test_data_whose_place_is_not_known_again_are_refused(tmp_path):
    ids = np.ones((3, 5), "int32")
    for data in ((ids, ids), (endless,)):  # in no known order; of no known end
        with pytest.raises(UserError):
            build().fit(*data, callbacks=[ExactResume(tmp_path)])


def own_model():
    """Returns a functional model of this package's layers, and its data without end."""
    import tensorflow as tf

    from t2t_repro.layers import EncoderLayer, SinusoidalPositions

    keras.utils.clear_session()  # as in a process of its own: layers are numbered from 0
    keras.utils.set_random_seed(0)
    ids = keras.Input((None,), dtype="int32")
    x = SinusoidalPositions()(keras.layers.Embedding(11, 8, mask_zero=True)(ids))
    x = EncoderLayer(num_heads=2, filter_size=12, dropout=0.3)(x)
    outputs = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x))
    model = keras.Model(ids, outputs)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    draw = np.random.default_rng(1)
    data = draw.integers(1, 11, (30, 6)).astype("int32"), draw.integers(0, 2, 30)
    return model, tf.data.Dataset.from_tensor_slices(data).shuffle(30, seed=2).batch(4)


@pytest.mark.slow
def test_a_model_of_ones_own(tmp_path):
    states = []
    for name, stops in {"straight": [None], "stopped": [13, None]}.items():
        for stop in stops:
            model, x = own_model()
            resume = ExactResume(tmp_path / name, save_freq=5)
            callbacks = [resume, stop_at(stop)] if stop else [resume]
            arguments = resume.prepare(x=x, epochs=3, verbose=0, callbacks=callbacks)
            try:
                model.fit(**arguments)
            except Stop:
                assert stop
        states.append(state(model))
    for left, right in zip(*states, strict=True):
        np.testing.assert_array_equal(left, right)


def main(folder, kill):
    """Trains a Transformer, killed at its batch of that number; prints a digest of its state."""
    from t2t_repro.data import text_dataset
    from t2t_repro.text.encoders import ByteTextEncoder
    from t2t_repro.training import optimizers

    keras.utils.set_random_seed(3)
    hparams = t2t_repro.get_hparams("transformer_test", "batch_size=120,num_hidden_layers=1")
    words = ["dog", "runs", "field", "green", "over", "a", "the", "small", "house", "tree"]
    data = text_dataset(words, words[::-1], ByteTextEncoder(), hparams)
    model = t2t_repro.Transformer.from_hparams(
        hparams, inputs_vocab_size=258, targets_vocab_size=258
    )
    model.compile(optimizers.from_hparams(hparams), metrics=["accuracy"])
    counted = itertools.count(1)

    def die(batch, logs=None):
        if next(counted) == kill:
            os.kill(os.getpid(), 9)

    killing = keras.callbacks.LambdaCallback(on_train_batch_end=die)
    history = model.fit(
        data,
        epochs=3,
        steps_per_epoch=5,
        verbose=0,
        callbacks=[ExactResume(folder, save_freq=2), killing],
    )
    crc = zlib.crc32(b"".join(array.tobytes() for array in state(model)))
    print(json.dumps([crc, history.history["loss"][-1], history.history["accuracy"][-1]]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_transformer_that_is_killed_twice(tmp_path, backend):
    root = os.path.dirname(os.path.dirname(t2t_repro.__file__))
    environment = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    found = []
    for folder, kill in (("straight", 0), ("killed", 4), ("killed", 8), ("killed", 0)):
        done = subprocess.run(
            [sys.executable, "-m", "tests.callbacks.test_resume", tmp_path / folder, str(kill)],
            env=os.environ | environment | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == (-9 if kill else 0), done.stderr[-3000:]
        found += [] if kill else [json.loads(done.stdout.splitlines()[-1])]
    assert found[0] == found[1]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

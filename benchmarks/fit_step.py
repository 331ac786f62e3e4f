"""Compares the steps of `Model.fit` with those of t2t-trainer: their losses and their time.

  python benchmarks/fit_step.py --backend=tensorflow

Two models that begin alike take turns on the same batches, of four shapes: after each batch of
`fit` a callback makes the trainer's step on it. Both are timed by the processor time of the
process, so that other programs do not count, and in pairs. Prints one line of JSON: the largest
relative difference of two losses, the medians in ms, and the median of the ratios of the pairs.
"""

import json
import os
import statistics
import time

import measuring
from absl import flags

from t2t_repro import cli, registry

SHAPES = ((16, 12), (12, 16), (20, 14), (14, 20))  # tokens of a source, and of a target


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    hparams = "hidden_size=128,filter_size=256,num_heads=4,num_hidden_layers=4"
    flags.DEFINE_string("hparams_set", "transformer_base", "The configuration.", flag_values=f)
    flags.DEFINE_string("hparams", hparams, "Changes to it.", flag_values=f)
    flags.DEFINE_enum(
        "backend", "tensorflow", ["tensorflow", "jax"], "What computes.", flag_values=f
    )
    for name, value, text in (
        ("batch", 64, "Sentences of a batch."),
        ("vocab_size", 4000, "Symbols of the vocabulary."),
        ("steps", 50, "Steps to compare."),
        ("warmup", 8, "Of them the first, which are not timed."),
    ):
        flags.DEFINE_integer(name, value, text, lower_bound=1, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    lines = measuring.own_stdout()
    os.environ["KERAS_BACKEND"] = args.backend
    import keras
    import numpy as np

    import t2t_repro
    from t2t_repro.training import distribution, optimizers

    hparams = registry.get_hparams(args.hparams_set, args.hparams)
    draw = np.random.default_rng(1)

    def ids(length: int) -> np.ndarray:
        return draw.integers(2, args.vocab_size, (args.batch, length)).astype("int32")

    batches = [{"inputs": ids(source), "targets": ids(target)} for source, target in SHAPES]
    data = [batches[number % len(batches)] for number in range(args.steps)]

    def make():
        keras.utils.set_random_seed(3)
        size = args.vocab_size
        model = t2t_repro.Transformer.from_hparams(
            hparams, inputs_vocab_size=size, targets_vocab_size=size
        )
        model.compile(optimizers.from_hparams(hparams))
        return model

    train = distribution.step_function(make())

    class InTurn(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.losses, self.times = [], []
            self.trainer = distribution.batches(_dataset(data))

        def on_train_begin(self, logs=None):
            self.began = time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            loss = float(logs["loss"])  # which waits for the step
            ended = time.process_time()
            expected = train(next(self.trainer))
            done = time.process_time()
            self.losses.append((loss, expected))
            self.times.append((ended - self.began, done - ended))
            self.model.reset_metrics()  # so that the next loss is that of its step
            self.began = time.process_time()

    turns = InTurn()
    keras_data = _dataset(data) if args.backend == "tensorflow" else ((each,) for each in data)
    make().fit(keras_data, verbose=0, callbacks=[turns])
    timed = turns.times[args.warmup :]
    found = {
        "backend": args.backend,
        "steps": len(turns.losses),
        "loss_difference": max(abs(a - b) / abs(b) for a, b in turns.losses),
        "losses": [turns.losses[0][0], turns.losses[-1][0]],
        "fit_cpu_ms": round(1000 * statistics.median(fit for fit, _ in timed), 1),
        "trainer_cpu_ms": round(1000 * statistics.median(own for _, own in timed), 1),
        "fit_by_trainer": round(statistics.median(fit / own for fit, own in timed), 4),
    }
    lines.write(json.dumps(found) + "\n")


def _dataset(batches: list):
    """Returns the batches as a tf.data.Dataset; under JAX as they are."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return batches
    import tensorflow as tf

    spec = dict.fromkeys(("inputs", "targets"), tf.TensorSpec([None, None], tf.int32))
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)


if __name__ == "__main__":
    cli.run("fit_step", __doc__, define_flags, main)

"""Compares `Model.fit`, with the callbacks that a user gives it, with t2t-trainer's own loop.

  python benchmarks/fit_step.py --backend=tensorflow

Two models that begin alike train on the same batches, of four shapes: one by fit with ExactResume,
Summaries, StopOnNonFinite and CSVLogger, the other by the Trainer with its log, its events and its
checkpoints, both reporting every 10 steps. They take turns, a step and what belongs to it each.
Prints one line of JSON: the largest relative difference of two losses; of each the median turn, of
the clock and of the processor (which does not count other programs), in ms; and by how much fit's
turns take longer than the trainer's: the medians of the pairs' ratios, and that of the sums.
"""

import json
import os
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import measuring
from absl import flags

from t2t_repro import cli, registry

EVERY = 10  # steps from report to report
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
        ("warmup", 12, "Of them the first, which are not timed."),
    ):
        flags.DEFINE_integer(name, value, text, lower_bound=1, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    lines = measuring.own_stdout()
    os.environ["KERAS_BACKEND"] = args.backend
    import keras
    import numpy as np

    import t2t_repro
    from t2t_repro import callbacks
    from t2t_repro.run_directory import RunDirectory
    from t2t_repro.training import events, optimizers
    from t2t_repro.training.log import TrainingLog
    from t2t_repro.training.request import Plan
    from t2t_repro.training.summaries import Summaries
    from t2t_repro.training.trainer import Trainer

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

    turns = Turns()

    class FitsTurn(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            turns.end("fit", float(logs["loss"]))
            self.model.reset_metrics()  # so that the next loss is that of its step

    class TrainersTurn(TrainingLog):
        def step(self, step, loss, *arguments, **keywords):
            super().step(step, loss, *arguments, **keywords)
            turns.end("trainer", loss)

    def fit(folder: pathlib.Path) -> None:
        keras_data = _dataset(data) if args.backend == "tensorflow" else ((x,) for x in data)
        folder.mkdir()
        beside = [
            callbacks.ExactResume(folder),
            callbacks.Summaries(folder, every=EVERY),
            callbacks.StopOnNonFinite(),
            keras.callbacks.CSVLogger(folder / "log.csv"),
            FitsTurn(),
        ]
        models[0].fit(
            keras_data, steps_per_epoch=args.steps, shuffle=False, verbose=0, callbacks=beside
        )

    def train(folder: pathlib.Path) -> None:
        folder.mkdir()
        run, last = RunDirectory(folder), args.steps
        plan = Plan(train_steps=last, local_eval_frequency=last, log_step_count_steps=EVERY)
        writer = events.make_writer(run)
        summaries = Summaries(models[1], EVERY, last, writer=writer)
        log = TrainersTurn(run, last, EVERY, events=writer and writer.scalars)
        Trainer(
            models[1], lambda start: _dataset(data), run, plan, log=log, summaries=summaries
        ).train()

    models = make(), make()
    with tempfile.TemporaryDirectory() as folder:
        # The Trainer hears signals, which only the main thread can.
        of_fit = threading.Thread(
            target=turns.take, args=("fit", fit, pathlib.Path(folder, "fit")), daemon=True
        )
        of_fit.start()
        turns.take("trainer", train, pathlib.Path(folder, "trainer"))
        of_fit.join()
    pairs = list(zip(turns.made["fit"], turns.made["trainer"], strict=True))
    assert len(pairs) == args.steps
    timed = pairs[args.warmup :]
    found: dict[str, Any] = {
        "backend": args.backend,
        "steps": len(pairs),
        "loss_difference": max(abs(f["loss"] - t["loss"]) / abs(t["loss"]) for f, t in pairs),
        "losses": [pairs[0][1]["loss"], pairs[-1][1]["loss"]],
    }
    for name in ("clock", "processor"):
        fits, trainers = ([turn[name] for turn in of] for of in zip(*timed, strict=True))
        ratios = [fit / trainer for fit, trainer in zip(fits, trainers, strict=True)]
        found[name] = {
            "fit_ms": round(1000 * statistics.median(fits), 1),
            "trainer_ms": round(1000 * statistics.median(trainers), 1),
            "fit_by_trainer": round(statistics.median(ratios), 4),
            "fit_by_trainer_in_all": round(sum(fits) / sum(trainers), 4),
        }
    lines.write(json.dumps(found) + "\n")


class Turns:
    """Lets two loops of one process, each in a thread, take turns, and times them."""

    def __init__(self) -> None:
        self.made: dict[str, list[dict[str, float]]] = {"fit": [], "trainer": []}
        self._may = {"fit": threading.Semaphore(1), "trainer": threading.Semaphore(0)}
        self._left = False

    def take(self, name: str, work: Callable[..., None], *arguments: Any) -> None:
        """Does work that ends each of its turns by `end`; "fit" has the first."""
        self._begin(name)
        try:
            work(*arguments)
        finally:
            self._left = True
            self._may[_other(name)].release()

    def end(self, name: str, loss: float) -> None:
        """Notes a turn, and waits for the next."""
        turn = {"clock": time.perf_counter(), "processor": time.process_time()}
        self.made[name].append({"loss": loss} | {k: turn[k] - self._began[k] for k in turn})
        self._may[_other(name)].release()
        self._begin(name)

    def _begin(self, name: str) -> None:
        if not self._left:
            self._may[name].acquire()
        self._began = {"clock": time.perf_counter(), "processor": time.process_time()}


def _other(name: str) -> str:
    return "trainer" if name == "fit" else "fit"


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

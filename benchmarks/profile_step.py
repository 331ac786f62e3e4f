"""Says where the time of a training step goes: by phase, and by kind of operation.

  python benchmarks/profile_step.py --hparams_set=transformer_base_v1 --json=profile.json

Phases are timed in turn, each compiled apart: forward with the loss, with the gradients, and the
whole step. Kinds come from TensorFlow's profiler: the shortest time of each operation over the
steps, so that what else the machine does stays out; operations that run side by side count twice.
Takes the flags of benchmarks/train_step.py.
"""

import collections
import functools
import glob
import json
import pathlib
import statistics
import tempfile
import time

import measuring
import train_step
from absl import flags

from t2t_repro import cli, registry


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    train_step.define_flags(f)
    flags.DEFINE_string("json", None, "Write the numbers to this file too.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    hparams = registry.get_hparams(args.hparams_set, train_step.overrides(args))
    measuring.set_threads(args)
    model, batch = train_step.make_model(args, hparams)
    from t2t_repro.training import distribution

    step = distribution.step_function(model)
    step(batch)
    functions = dict(partial_steps(model)) | {"optimizer": step}
    totals = in_turn({n: functools.partial(f, batch) for n, f in functions.items()}, args.steps)
    below = [0.0, *totals.values()][:-1]  # each holds what the one before it holds
    phases = {n: total - less for (n, total), less in zip(totals.items(), below, strict=True)}
    kinds = by_kind(lambda: step(batch), args.steps)
    for title, rows in (("phase", phases), ("kind of operation", kinds)):
        print(f"{title:32s} {'ms':>8s}")
        for name, milliseconds in rows.items():
            if milliseconds >= 0.1:
                print(f"{name:32s} {milliseconds:8.1f}")
    if args.json:
        result = {"phases_ms": phases, "step_ms": totals["optimizer"], "kinds_ms": kinds}
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def partial_steps(model):
    """Yields ("forward and loss", f) and ("backward", f), f of a batch doing all up to there."""
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def forward(batch):
        return model.train_loss(batch)

    @tf.function(reduce_retracing=True)
    def backward(batch):
        with tf.GradientTape() as tape:
            loss = model.train_loss(batch)
        weights = [variable.value for variable in model.trainable_weights]
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
        return tf.add_n([tf.reshape(gradient, [-1])[0] for gradient in gradients])

    yield "forward and loss", lambda batch: float(forward(batch))
    yield "backward", lambda batch: float(backward(batch))


def in_turn(functions: dict, steps: int) -> dict[str, float]:
    """Returns each function's median milliseconds over `steps` calls; they take turns."""
    times = collections.defaultdict(list)
    for turn in range(steps + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn:  # the first traces
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(durations) for name, durations in times.items()}


def by_kind(function, steps: int) -> dict[str, float]:
    """Returns for each kind of operation its milliseconds in one call, the largest first."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            for _ in range(steps):
                function()
        (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace.FromString(pathlib.Path(file).read_bytes())
    times = collections.defaultdict(list)
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            name = plane.event_metadata[event.metadata_id].name
            if ":" in name and "::" not in name and not name.startswith("Eager"):
                times[name].append(event.duration_ps / 1e9)
    kinds: collections.Counter = collections.Counter()
    for name, durations in times.items():
        in_one_step = max(1, round(len(durations) / steps))
        kinds[name.rsplit(":", 1)[1]] += sum(sorted(durations)[:in_one_step])
    return dict(kinds.most_common())


if __name__ == "__main__":
    cli.run("profile_step", __doc__, define_flags, main)

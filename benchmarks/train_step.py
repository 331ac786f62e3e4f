"""Measures one training step of a hparam set on made-up tokens: time, tokens/s, share of the limit.

  python benchmarks/train_step.py --hparams_set=transformer_base_v1 --batch=32 --src=32 --tgt=32

The step is what t2t-trainer runs: forward, loss, backward, optimizer. Its floating-point operations
are counted from its matrix products (t2t_repro/models/parameters.py); the machine's own rate is
that of products of 4096 x 4096 matrices, taken in turn with the steps. Prints one line of JSON.
--devices shares a batch that many times as large among GPUs; gpu.py measures all there is of them.
--lockstep: see measuring.py.
"""

import dataclasses
import json
import os

import measuring
from absl import flags

from t2t_repro import cli, registry
from t2t_repro.fields import flag


@dataclasses.dataclass
class Training:
    """What is trained, and how."""

    hparams_set: str = flag("transformer_base_v1", "The configuration.")
    hparams: str = flag("", 'Changes to it: "name=value,name=value".')
    batch: int = flag(32, "Sentences of a batch.", least=1)
    src: int = flag(32, "Source tokens of a sentence.", least=1)
    tgt: int = flag(32, "Target tokens of a sentence.", least=1)
    vocab_size: int = flag(32768, "Symbols of the vocabulary.", least=1)
    devices: int = flag(1, "GPUs (or parts of a CPU) that each train on a batch.", least=1)
    backend: str = flag("tensorflow", "What computes.", choices=("tensorflow", "jax"))
    xla_compile: bool = flag(False, "Let XLA compile TensorFlow's step.")
    precision: str = flag(
        "",
        "activation_dtype; empty: the set's.",
        choices=("", "float32", "bfloat16", "float16"),
    )


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    lines = measuring.own_stdout()
    os.environ["KERAS_BACKEND"] = args.backend
    hparams = registry.get_hparams(args.hparams_set, overrides(args))
    if args.backend == "tensorflow":
        measuring.set_threads(args)
    from t2t_repro.models import parameters
    from t2t_repro.training import devices, distribution

    where = devices.choose(args.devices)
    with where.scope():
        model, batch = make_model(args, hparams)
    shape = args.vocab_size, args.batch, args.src, args.tgt
    ready = {
        "name": "t2t_repro",
        "tokens": args.devices * args.batch * args.tgt,
        "flops": args.devices * parameters.train_step_flop(hparams, *shape),
        "activation_dtype": hparams.activation_dtype,
        "backend": args.backend,
        "kind": where.kind,
        "machine": devices.described(),
    }
    train = distribution.step_function(model, where)
    gemm = measuring.make_gemm(args.backend, size=args.gemm)
    result = measuring.measure(lambda: train(batch).loss, ready, args, lines, gemm)
    result["device_memory_mb"] = measuring.device_memory_peak() >> 20
    lines.write(json.dumps(result) + "\n")


def overrides(args: flags.FlagValues) -> str:
    """Returns what --hparams and --precision change."""
    precision = args.precision and f"activation_dtype={args.precision}"
    return ",".join(filter(None, [args.hparams, precision]))


def make_model(args: flags.FlagValues, hparams):
    """Returns a compiled model, and a batch of random tokens without padding."""
    import numpy as np

    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import optimizers

    size = args.vocab_size
    model = Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
    model.compile(
        optimizer=optimizers.from_hparams(hparams),
        jit_compile=args.backend == "jax" or args.xla_compile,
    )
    rng = np.random.default_rng(0)
    batch = {
        name: rng.integers(1, size, (args.devices * args.batch, length)).astype("int32")
        for name, length in (("inputs", args.src), ("targets", args.tgt))
    }
    if args.backend == "tensorflow":
        import tensorflow as tf

        batch = {name: tf.constant(ids) for name, ids in batch.items()}
    return model, batch


cli.program(__name__, "train_step", __doc__, [Training, measuring.Measured], main)

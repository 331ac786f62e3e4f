"""Measures one training step of a hparam set on made-up tokens: time, tokens/s, share of the limit.

  python benchmarks/train_step.py --hparams_set=transformer_base_v1 --batch=32 --src=32 --tgt=32

The step is what t2t-trainer runs: forward, loss, backward, optimizer. Its floating-point operations
are counted from its matrix products (t2t_repro/reports/flops.py); the machine's own rate is that of
products of 4096 x 4096 matrices, taken in turn with the steps. Prints one line of JSON.

With --lockstep it steps only when told to, so that another program can make several take turns: it
prints 'READY {...}' when warm, makes a step and prints 'T MS CPU_MS LOSS' for each line 's' that it
reads, and prints the JSON at any other line.
"""

import json
import os
import resource
import statistics
import sys
import time

from absl import flags

from t2t_repro import cli, registry

GEMM = 4096  # rows and columns of the matrices that the limit is measured with


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    flags.DEFINE_string("hparams_set", "transformer_base_v1", "The configuration.", flag_values=f)
    flags.DEFINE_string("hparams", "", 'Changes to it: "name=value,name=value".', flag_values=f)
    for name, value, text in (
        ("batch", 32, "Sentences of a batch."),
        ("src", 32, "Source tokens of a sentence."),
        ("tgt", 32, "Target tokens of a sentence."),
        ("vocab_size", 32768, "Symbols of the vocabulary."),
        ("threads", 0, "Threads of one operation; 0: as many as there are cores."),
        ("inter_op_threads", 0, "Operations that run at once; 0: as many as there are cores."),
        ("steps", 10, "Steps to time."),
        ("warmup", 3, "Steps before them."),
    ):
        flags.DEFINE_integer(name, value, text, lower_bound=0, flag_values=f)
    backends = ["tensorflow", "jax"]
    flags.DEFINE_enum("backend", "tensorflow", backends, "What computes.", flag_values=f)
    precisions = ["", "float32", "bfloat16", "float16"]
    flags.DEFINE_enum(
        "precision", "", precisions, "activation_dtype; empty: the set's.", flag_values=f
    )
    flags.DEFINE_boolean("lockstep", False, "Step when told to on stdin.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    lines = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)  # what libraries print goes to stderr
    os.environ["KERAS_BACKEND"] = args.backend
    started = time.perf_counter()
    hparams = registry.get_hparams(args.hparams_set, overrides(args))
    model, batch = make_model(args, hparams)
    from t2t_repro.training import distribution

    train = distribution.step_function(model)
    gemm = make_gemm(args)
    floating = count_flop(args, hparams)
    tokens = args.batch * args.tgt
    ready = {"name": "t2t_repro", "tokens": tokens, "flops": floating}
    train(batch)
    ready["first_step_s"] = round(time.perf_counter() - started, 2)
    for _ in range(args.warmup):
        train(batch)
    milliseconds: list[float] = []
    rates = [gemm()]

    def timed() -> str:
        processor, start = time.process_time(), time.perf_counter()
        loss = train(batch)
        milliseconds.append((time.perf_counter() - start) * 1e3)
        return f"T {milliseconds[-1]:.3f} {(time.process_time() - processor) * 1e3:.1f} {loss:.5f}"

    if args.lockstep:
        lines.write(f"READY {json.dumps(ready)}\n")
        for line in sys.stdin:
            if line.strip() != "s":
                break
            lines.write(timed() + "\n")
    else:
        for _ in range(args.steps):
            timed()
            rates.append(gemm())
    median = statistics.median(milliseconds)
    rate = floating / median / 1e6
    result = ready | {
        "step_ms": round(median, 1),
        "min_ms": round(min(milliseconds), 1),
        "tokens_per_s": round(tokens / median * 1e3, 1),
        "gflop_per_step": round(floating / 1e9, 1),
        "gflops": round(rate, 1),
        "gemm_gflops": round(statistics.median(rates), 1),
        "share_of_gemm": round(rate / statistics.median(rates), 3),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "activation_dtype": hparams.activation_dtype,
        "backend": args.backend,
    }
    lines.write(json.dumps(result) + "\n")


def overrides(args: flags.FlagValues) -> str:
    """Returns what --hparams and --precision change."""
    precision = args.precision and f"activation_dtype={args.precision}"
    return ",".join(filter(None, [args.hparams, precision]))


def make_model(args: flags.FlagValues, hparams):
    """Returns a compiled model, and a batch of random tokens without padding."""
    import numpy as np

    if args.backend == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(args.threads)
        tf.config.threading.set_inter_op_parallelism_threads(args.inter_op_threads)
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import optimizers

    size = args.vocab_size
    model = Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
    model.compile(
        optimizer=optimizers.from_hparams(hparams),
        jit_compile=args.backend == "jax",
    )
    rng = np.random.default_rng(0)
    batch = {
        name: rng.integers(1, size, (args.batch, length)).astype("int32")
        for name, length in (("inputs", args.src), ("targets", args.tgt))
    }
    if args.backend == "tensorflow":
        batch = {name: tf.constant(ids) for name, ids in batch.items()}
    return model, batch


def make_gemm(args: flags.FlagValues):
    """Returns a function that measures the rate of one large float32 product, in GFLOP/s."""
    from keras import ops

    matrix = ops.ones((GEMM, GEMM), "float32")
    if args.backend == "tensorflow":
        import tensorflow as tf

        product = tf.function(tf.matmul)
    else:
        import jax

        product = jax.jit(jax.numpy.matmul)
    product(matrix, matrix)

    def measure() -> float:
        start = time.perf_counter()
        float(product(matrix, matrix)[0, 0])
        return 2 * GEMM**3 / (time.perf_counter() - start) / 1e9

    return measure


def count_flop(args: flags.FlagValues, hparams) -> float:
    """Returns the floating-point operations of one step."""
    from t2t_repro.reports import flops

    shape = flops.BatchShape(args.batch, args.src, args.tgt)
    return flops.train_step_flop(hparams, shape, args.vocab_size)


if __name__ == "__main__":
    cli.run("train_step", __doc__, define_flags, main)

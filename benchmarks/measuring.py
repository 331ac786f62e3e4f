"""What the benchmarks share: steps in turn with other programs, and the machine's own rate.

With --lockstep a program steps only when told to, so that another can make several take turns: it
prints 'READY {...}' when warm, makes a step and prints 'T MS CPU_MS VALUE' for each line 's' that
it reads, and prints its result at any other line.
"""

import dataclasses
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from absl import flags

from t2t_repro.fields import flag

GEMM = 4096


@dataclasses.dataclass
class Measured:
    """The flags that say how to measure."""

    threads: int = flag(0, "Threads of one operation; 0: as many as there are cores.")
    inter_op_threads: int = flag(0, "Operations that run at once; 0: as many as there are cores.")
    steps: int = flag(10, "Steps to time.")
    warmup: int = flag(3, "Steps before them.")
    gemm: int = flag(GEMM, "Rows and columns of the matrices that the limit is measured with.")
    lockstep: bool = flag(False, "Step when told to on stdin.")


def own_stdout() -> TextIO:
    """Returns stdout for our own lines; what libraries print goes to stderr from now on."""
    lines = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)
    return lines


def measure(
    step: Callable[[], float],
    ready: dict[str, Any],
    args: flags.FlagValues,
    lines: TextIO,
    gemm: Callable[[], float],
) -> dict[str, Any]:
    """Times a step.

    Args:
        step: does the work and returns a number that others may check.
        ready: "name", "tokens" of a step, "flops" of a step; more is passed on.
        args: of `Measured`.
        lines: what `own_stdout` returned.
        gemm: what `make_gemm` returned, called in turn with the steps unless others take turns.

    Returns:
        `ready` and step_ms (the median), min_ms, tokens_per_s, gflop_per_step, gflops,
        gemm_gflops, share_of_gemm, peak_rss_mb.
    """
    started = time.perf_counter()
    step()
    ready = ready | {"first_step_s": round(time.perf_counter() - started, 2)}
    for _ in range(args.warmup):
        step()
    milliseconds: list[float] = []
    rates = [gemm()]

    def timed() -> str:
        processor, start = time.process_time(), time.perf_counter()
        value = step()
        milliseconds.append((time.perf_counter() - start) * 1e3)
        return f"T {milliseconds[-1]:.3f} {(time.process_time() - processor) * 1e3:.1f} {value:.5f}"

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
    rate = ready["flops"] / median / 1e6
    return ready | {
        "step_ms": round(median, 1),
        "min_ms": round(min(milliseconds), 1),
        "tokens_per_s": round(ready["tokens"] / median * 1e3, 1),
        "gflop_per_step": round(ready["flops"] / 1e9, 1),
        "gflops": round(rate, 1),
        "gemm_gflops": round(statistics.median(rates), 1),
        "share_of_gemm": round(rate / statistics.median(rates), 3),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def set_threads(args: flags.FlagValues) -> None:
    """Tells TensorFlow how many threads to use."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(args.inter_op_threads)


def make_gemm(
    backend: str = "tensorflow", at_once: int = 1, size: int = GEMM
) -> Callable[[], float]:
    """Returns a function that measures the rate of large float32 products, in GFLOP/s.

    `at_once` of them, of matrices (size, size), run side by side.
    """
    from keras import ops

    matrix = ops.ones((size, size), "float32")
    if backend == "tensorflow":
        import tensorflow as tf

        product = tf.function(tf.matmul)
    else:
        import jax

        product = jax.jit(jax.numpy.matmul)
    product(matrix, matrix)

    def rate() -> float:
        start = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: float(product(matrix, matrix)[0, 0]), range(at_once)))
        return at_once * 2 * size**3 / (time.perf_counter() - start) / 1e9

    return rate


def device_memory_peak() -> int:
    """Returns the most that this process has had of a GPU's memory at once; 0: it has none."""
    import keras

    if keras.backend.backend() != "tensorflow":
        import jax

        values = jax.local_devices()[0].memory_stats() or {}
        return int(values.get("peak_bytes_in_use", 0))
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return 0
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])

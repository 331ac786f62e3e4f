"""Table 1, measured: the time of one layer of each kind over sequence length and width."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from t2t_repro.layers.attention import SelfAttention

KERNEL = 3  # k of the convolution
NEIGHBOURS = 32  # r of the restricted self-attention
HEADS = 8
BATCH = 8
LENGTHS = (256, 512, 1024)  # at WIDTH
WIDTHS = (128, 256, 512)  # at LENGTH
LENGTH, WIDTH = 512, 256


@dataclass(frozen=True)
class LayerCost:
    """What was measured of one kind of layer."""

    name: str
    milliseconds: dict[tuple[int, int], float]  # by (n, d)
    exponents: tuple[float, float]  # of n and of d
    flop: float  # at (LENGTH, WIDTH)

    @property
    def gflops(self) -> float:
        """GFLOP/s reached at (LENGTH, WIDTH)."""
        return self.flop / self.milliseconds[LENGTH, WIDTH] / 1e6


class DotProducts(keras.layers.Layer):
    """Softmax of x x^T, times x: what the complexity of self-attention counts, in one head.

    Args:
        neighbours: r, in blocks of which each position attends; 0: to all.
    """

    def __init__(self, neighbours: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.neighbours = neighbours

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        shape = (-1, *x.shape[1:])
        if self.neighbours:
            # (B, T, D) -> (B * T / r, r, D)
            x = ops.reshape(x, (-1, self.neighbours, shape[-1]))
        scores = ops.matmul(x, ops.transpose(x, (0, 2, 1))) * shape[-1] ** -0.5
        return ops.reshape(ops.matmul(ops.softmax(scores), x), shape)


class WholeAttention(keras.layers.Layer):
    """The model's self-attention sublayer: its projections too."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.attention = SelfAttention(HEADS, width, width)

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        return self.attention(x)[0]


# Each kind: how to make the layer of width d, and the operations of its matrix products on n
# positions.
Kind = tuple[Callable[[int], keras.layers.Layer], Callable[[int, int], float]]
KINDS: dict[str, Kind] = {
    "Self-Attention": (lambda d: DotProducts(), lambda n, d: 4 * n * n * d),
    "Recurrent": (
        lambda d: keras.layers.LSTM(d, return_sequences=True),
        lambda n, d: 16 * n * d * d,
    ),
    "Convolutional": (
        lambda d: keras.layers.Conv1D(d, KERNEL, padding="same"),
        lambda n, d: 2 * KERNEL * n * d * d,
    ),
    "Self-Attention (restricted)": (
        lambda d: DotProducts(NEIGHBOURS),
        lambda n, d: 4 * NEIGHBOURS * n * d,
    ),
    "Self-Attention with projections": (WholeAttention, lambda n, d: 4 * n * n * d + 8 * n * d * d),
}


def measure_all(progress: Callable[[str], object] = lambda text: None) -> list[LayerCost]:
    """Measures every kind at LENGTHS and WIDTHS, about half a minute on two cores."""
    points = sorted({(n, WIDTH) for n in LENGTHS} | {(LENGTH, d) for d in WIDTHS})
    costs = []
    for name, (make, flop) in KINDS.items():
        measured = {}
        for n, d in points:
            progress(f"{name}, n {n}, d {d}")
            measured[n, d] = milliseconds(make(d), n, d)
        of_n = exponent(LENGTHS, [measured[n, WIDTH] for n in LENGTHS])
        of_d = exponent(WIDTHS, [measured[LENGTH, d] for d in WIDTHS])
        costs.append(LayerCost(name, measured, (of_n, of_d), BATCH * flop(LENGTH, WIDTH)))
    return costs


def milliseconds(layer: keras.layers.Layer, n: int, d: int, repetitions: int = 15) -> float:
    """Returns the time of one forward pass over BATCH sequences, compiled by the backend.

    The fastest of some passes: whatever else runs on the machine only adds to a pass.
    """
    inputs = keras.Input((n, d), batch_size=BATCH)
    # The mean alone leaves the device: a copy of the outputs is not the layer's work.
    model = keras.Model(inputs, ops.mean(layer(inputs), axis=(1, 2)))
    x = np.random.default_rng(0).standard_normal((BATCH, n, d), "float32")
    seconds = []
    for _ in range(repetitions + 2):
        start = time.perf_counter()
        model.predict_on_batch(x)
        seconds.append(time.perf_counter() - start)
    return 1e3 * min(seconds)


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Returns the least-squares slope of log time over log size."""
    x, y = [math.log(size) for size in sizes], [math.log(t) for t in times]
    middle = statistics.fmean(x)
    rise = sum((a - middle) * b for a, b in zip(x, y, strict=True))
    return rise / sum((a - middle) ** 2 for a in x)

"""Table 1, measured: the time of one layer of each kind over sequence length and width.

Beside its kinds stand the convolutions of section 4's text: dilated, separable, and separable with
k = n, whose operations are those of self-attention and a point-wise layer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from t2t_repro import progress
from t2t_repro.layers.attention import SelfAttention
from t2t_repro.studies.power_law import exponent
from t2t_repro.training import devices

KERNEL = 3  # k of the convolution
NEIGHBOURS = 32  # r of the restricted self-attention
HEADS = 8
BATCH = 8


@dataclass(frozen=True)
class Sizes:
    """The points (n, d) that are measured: some lengths at one width, some widths at one length."""

    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    length: int
    width: int
    repetitions: int  # of which the fastest counts

    @property
    def points(self) -> list[tuple[int, int]]:
        """All (n, d)."""
        along = {(n, self.width) for n in self.lengths} | {(self.length, d) for d in self.widths}
        return sorted(along)


SIZES = Sizes((256, 512, 1024), (128, 256, 512), length=512, width=256, repetitions=17)


@dataclass(frozen=True)
class LayerCost:
    """What was measured of one kind of layer."""

    name: str
    milliseconds: dict[tuple[int, int], float]  # by (n, d)
    exponents: tuple[float, float]  # of n and of d
    operations: tuple[float, float]  # the same of the operations counted
    gflops: float  # GFLOP/s reached where both lines of sizes meet


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

    def __init__(self, width: int, heads: int = HEADS, **kwargs):
        super().__init__(**kwargs)
        self.attention = SelfAttention(heads, width, width)

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        return self.attention(x)[0]


class SeparableOfAll(keras.layers.Layer):
    """A separable convolution with k = n."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def build(self, input_shape):
        self.convolution = keras.layers.SeparableConv1D(self.width, input_shape[1], padding="same")
        self.convolution.build(input_shape)

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        return self.convolution(x)


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
    "Convolutional (dilated)": (
        lambda d: keras.layers.Conv1D(d, KERNEL, padding="same", dilation_rate=KERNEL),
        lambda n, d: 2 * KERNEL * n * d * d,
    ),
    "Convolutional (separable)": (
        lambda d: keras.layers.SeparableConv1D(d, KERNEL, padding="same"),
        lambda n, d: 2 * KERNEL * n * d + 2 * n * d * d,
    ),
    "Convolutional (separable, k = n)": (
        SeparableOfAll,
        lambda n, d: 2 * n * n * d + 2 * n * d * d,
    ),
    "Self-Attention with projections": (WholeAttention, lambda n, d: 4 * n * n * d + 8 * n * d * d),
}


def measure(kinds: Mapping[str, Kind], sizes: Sizes, doing: str) -> list[LayerCost]:
    """Measures kinds of layers; SIZES take less than a minute on two cores.

    Args:
        kinds: by name.
        sizes: where.
        doing: what the progress is called.
    """
    costs = []
    with progress.report(doing, len(kinds) * len(sizes.points), "measurements") as advance:
        for name, (make, flop) in kinds.items():
            ms = {}
            for n, d in sizes.points:
                advance(1, f"{name}, n {n}, d {d}")
                ms[n, d] = milliseconds(make(d), n, d, sizes.repetitions)
            counted = {point: flop(*point) for point in sizes.points}
            middle = sizes.length, sizes.width
            gflops = BATCH * counted[middle] / ms[middle] / 1e6
            powers = _exponents(ms, sizes), _exponents(counted, sizes)
            costs.append(LayerCost(name, ms, *powers, gflops))
    return costs


def _exponents(values: Mapping[tuple[int, int], float], sizes: Sizes) -> tuple[float, float]:
    """Returns the powers of n and of d with which values by (n, d) grow."""
    of_n = exponent(sizes.lengths, [values[n, sizes.width] for n in sizes.lengths])
    of_d = exponent(sizes.widths, [values[sizes.length, d] for d in sizes.widths])
    return of_n, of_d


def milliseconds(layer: keras.layers.Layer, n: int, d: int, repetitions: int) -> float:
    """Returns the time of one forward pass over BATCH sequences: the fastest of some."""
    return 1e3 * devices.fastest(forward(layer, n, d), repetitions)


def forward(
    layer: keras.layers.Layer, n: int, d: int, batch: int = BATCH, outputs: bool = False
) -> Callable[[], np.ndarray]:
    """Returns a function that runs one forward pass over (B, n, d), compiled by the backend.

    It returns the mean of each sequence alone, as a copy of the outputs is not the layer's work;
    or the outputs, where they are asked for.
    """
    inputs = keras.Input((n, d), batch_size=batch)
    made = layer(inputs)
    model = keras.Model(inputs, made if outputs else ops.mean(made, axis=(1, 2)))
    x = np.random.default_rng(0).standard_normal((batch, n, d), "float32")
    return lambda: model.predict_on_batch(x)

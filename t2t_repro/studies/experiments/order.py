"""Experiment: without positions a layer of attention does not know the order (paper, 3.5).

"Since our model contains no recurrence and no convolution, in order for the model to make use of
the order of the sequence, we must inject some information about the relative or absolute position
of the tokens in the sequence." A layer f that knows no order is equivariant: f of the words in
another order is f of the words, in that order. What is measured is how far that is from true:

    | f(P x) - P f(x) | / | f(x) - mean of f(x) over positions |

as root mean squares, over random words x and random orders P; 0 is equivariance. The layers are the
model's own, as they are drawn before training.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_repro import progress
from t2t_repro.layers.attention import SelfAttention
from t2t_repro.layers.blocks import EncoderLayer
from t2t_repro.layers.dilated_convolution import DilatedConvolution
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.lstm import LSTM
from t2t_repro.layers.mask import CAUSAL
from t2t_repro.layers.position import SinusoidalPositions
from t2t_repro.layers.relative_attention import RelativeSelfAttention
from t2t_repro.studies.experiments.result import Result
from t2t_repro.views import pictures

WIDTH, HEADS, FILTERS = 64, 4, 128
SENTENCES, LENGTH = 8, 32
DRAWS = 5  # of words, orders and weights
EQUIVARIANT = 1e-5  # the greatest departure that float32's rounding explains
KNOWS = 1e-2  # the least that is more than that

Layer = Callable[[Any], Any]


class Row(NamedTuple):
    """A row of the CSV: one layer, one draw. `departure` is the quotient above."""

    layer: str
    draw: int
    departure: float


def _self_attention(**arguments) -> Layer:
    layer = SelfAttention(HEADS, WIDTH, WIDTH)
    return lambda x: layer(x, **arguments)[0]


def _encoder_layer() -> Layer:
    return EncoderLayer(num_heads=HEADS, filter_size=FILTERS)


def _with_positions() -> Layer:
    layer, positions = _encoder_layer(), SinusoidalPositions()
    return lambda x: layer(positions(x))


def _relative() -> Layer:
    layer = RelativeSelfAttention(8, HEADS, WIDTH, WIDTH)
    return lambda x: layer(x)[0]


def _lstm() -> Layer:
    layer = LSTM(WIDTH)

    def read(x):
        real = np.ones(x.shape[:2], bool)
        # (B, T, D) -> (B, T, 1, D): one beam
        return ops.reshape(layer(x, real)[0], x.shape)

    return read


# Each makes a layer. The first three are what the paper says knows no order.
WITHOUT: dict[str, Callable[[], Layer]] = {
    "self-attention": _self_attention,
    "feed-forward": lambda: FeedForward(FILTERS),
    "encoder layer": _encoder_layer,
}
WITH: dict[str, Callable[[], Layer]] = {
    "encoder layer, sinusoids added": _with_positions,
    "relative self-attention": _relative,
    "masked self-attention": lambda: _self_attention(attention_mask=CAUSAL),
    "convolution": lambda: DilatedConvolution(WIDTH),
    "LSTM": _lstm,
}


def run() -> Result:
    """Measures every layer; takes some seconds."""
    kinds = progress.track(WITHOUT | WITH, "order", len(WITHOUT) + len(WITH), "layers")
    rows = [Row(name, draw, departure(name, draw)) for name in kinds for draw in range(DRAWS)]
    return Result(rows, picture(rows), sentences(rows))


def departure(name: str, seed: int) -> float:
    """Returns how far a layer, drawn by a seed, is from equivariance."""
    keras.utils.set_random_seed(seed)
    layer, draw = (WITHOUT | WITH)[name](), np.random.default_rng(seed)
    x = draw.standard_normal((SENTENCES, LENGTH, WIDTH), "float32")
    order = draw.permutation(LENGTH)
    plain = ops.convert_to_numpy(layer(x))
    moved = ops.convert_to_numpy(layer(x[:, order]))
    varies = plain - plain.mean(axis=1, keepdims=True)
    return float(np.sqrt(np.mean((moved - plain[:, order]) ** 2) / np.mean(varies**2)))


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The claim is supported where every layer of WITHOUT departs by at most EQUIVARIANT, and every
    one of WITH by at least KNOWS, in each draw.
    """
    worst = {name: max(row.departure for row in rows if row.layer == name) for name in WITHOUT}
    least = {name: min(row.departure for row in rows if row.layer == name) for name in WITH}
    blind = all(value <= EQUIVARIANT for value in worst.values())
    first = "As section 3.5 says: without positions " if blind else "Not as section 3.5 says: "
    told = ", ".join(f"{value:.0g} for {name}" for name, value in worst.items())
    first += f"the outputs of words in another order are the outputs in that order, up to {told} "
    first += f"of their size (the greatest of {DRAWS} draws)."
    knowing = [name for name, value in least.items() if value >= KNOWS]
    told = ", ".join(f"{value:.2f} for {name}" for name, value in least.items())
    second = "The order is known" if len(knowing) == len(WITH) else "The order is not always known"
    second += f" with what adds it, and to those that have it: {told} (the least)."
    return first, second


def picture(rows: Sequence[Row]):
    """Draws the departures, a mark a draw, on a logarithmic axis."""
    title = f"f(P x) against P f(x), {LENGTH} words of width {WIDTH}"
    figure, axes = pictures.figure(title=title, width=7.5, height=3.6)
    names = [*WITHOUT, *WITH]
    for i, name in enumerate(names):
        values = [max(row.departure, 1e-9) for row in rows if row.layer == name]
        color = pictures.COLORS[0 if name in WITHOUT else 1]
        axes.plot(values, [len(names) - i] * len(values), "o", color=color, markersize=5)
    axes.axvline(EQUIVARIANT, color="#888888", linestyle=":", linewidth=1)
    axes.set_yticks(range(len(names), 0, -1), names)
    axes.set(xscale="log", xlabel="departure from equivariance; dotted: float32's rounding")
    axes.set_ylim(0.5, len(names) + 0.5)
    return figure

"""Without positions, a layer of attention does not know the order of its words.

The paper, section 3.5: "Since our model contains no recurrence and no convolution, in order for the
model to make use of the order of the sequence, we must inject some information about the relative
or absolute position of the tokens in the sequence."

A layer f that knows no order gives the words in another order P the same outputs in that order:
f(P x) = P f(x). Each layer, as initialised, reads 32 random words of width 64 in two orders.
Measured is the root mean square of f(P x) - P f(x), divided by how much f(x) varies from word to
word: 0 means that the layer cannot tell the orders apart.

Time: 7 seconds of processor time. You should see at most 3e-07, float32's rounding, for
self-attention, feed-forward and encoder layer. With sinusoids added you should see at least 0.5,
and so with relative positions, the decoder's mask, a convolution and an LSTM: each of these tells
the order.

    python examples/paper/order.py
"""

import drawing
import keras
import numpy as np

from t2t_repro.layers import (
    EncoderLayer,
    FeedForward,
    RelativeSelfAttention,
    SelfAttention,
    SinusoidalPositions,
)
from t2t_repro.layers.attention import CAUSAL

WIDTH, HEADS, FILTERS = 64, 4, 128
FLOOR = 1e-9  # what an exact 0 is drawn at


def self_attention(**options):
    """Returns the function of a new self-attention."""
    layer = SelfAttention(HEADS, WIDTH, WIDTH)
    return lambda x: layer(x, **options)[0]


def with_positions():
    """Returns the function of a new encoder layer behind sinusoids."""
    layer, positions = EncoderLayer(num_heads=HEADS, filter_size=FILTERS), SinusoidalPositions()
    return lambda x: layer(positions(x))


def relative():
    """Returns the function of a new self-attention with relative positions up to 8 words."""
    layer = RelativeSelfAttention(8, HEADS, WIDTH, WIDTH)
    return lambda x: layer(x)[0]


# Each makes a layer, a function of words (B, T, D). The first three know no order.
LAYERS = {
    "self-attention": self_attention,
    "feed-forward": lambda: FeedForward(FILTERS),
    "encoder layer": lambda: EncoderLayer(num_heads=HEADS, filter_size=FILTERS),
    "encoder layer behind sinusoids": with_positions,
    "self-attention, relative positions": relative,
    "self-attention, decoder's mask": lambda: self_attention(attention_mask=CAUSAL),
    "convolution": lambda: keras.layers.Conv1D(WIDTH, 3, padding="same"),
    "LSTM": lambda: keras.layers.LSTM(WIDTH, return_sequences=True),
}


def departure(make, seed, words):
    """Returns how far a layer drawn by a seed is from f(P x) = P f(x)."""
    keras.utils.set_random_seed(seed)
    layer, random = make(), np.random.default_rng(seed)
    x = random.standard_normal((8, words, WIDTH), "float32")
    order = random.permutation(words)
    plain, moved = (keras.ops.convert_to_numpy(layer(each)) for each in (x, x[:, order]))
    varies = plain - plain.mean(axis=1, keepdims=True)
    return float(np.sqrt(np.mean((moved - plain[:, order]) ** 2) / np.mean(varies**2)))


def main():
    args = drawing.arguments(__doc__, words=32, draws=5)
    rows = []
    made, (axes,) = drawing.figure("Two orders of the same words: f(P x) against P f(x)")
    for name, make in LAYERS.items():
        values = [departure(make, seed, args.words) for seed in range(args.draws)]
        print(f"{name:36} {min(values):8.1e} to {max(values):8.1e}")
        rows += [{"layer": name, "draw": i, "departure": v} for i, v in enumerate(values)]
        axes.plot(np.maximum(values, FLOOR), [name] * args.draws, "o", ms=5)
    made.set_figwidth(8)
    axes.axvline(1e-5, color="gray", ls=":", label="below: float32's rounding")
    axes.set(xscale="log", xlabel="difference, as a share of the outputs' variation")
    axes.set_ylabel(f"layer, {args.draws} draws each")
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    drawing.save(made, {"rows": rows}, args.output_dir / "order")


if __name__ == "__main__":
    main()

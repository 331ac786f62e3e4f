"""What lies far apart is learned where the path is short; and what each layer costs (table 1).

The paper, section 4: "One key factor affecting the ability to learn such dependencies is the length
of the paths forward and backward signals have to traverse in the network." And: "self-attention
layers are faster than recurrent layers when the sequence length n is smaller than the
representation dimensionality d". Table 1 has the powers of n and d.

Each kind of layer, of width 32, reads n words and says at the end which was the first, which has a
mark: nothing is to be found, only to be carried. The paths are 1 layer of self-attention, n steps
of an LSTM, n / 2 convolutions of width 3 or log3(n + 1) dilated ones. Measured is the accuracy on
512 other sentences after 300 steps. Then layers read 8 sequences of length n and width d. Measured
is the fastest of seven forward passes, over lengths at d = 256 and widths at n = 256.

Time: 5 minutes of processor time. You should see, 80 words back, 1.00 with self-attention, 0.11
with the LSTM, 0.10 with 40 convolutions, and 1.00 and 0.10, two seeds, with 4 dilated ones;
guessing has 0.10. The greatest n at which both seeds have 0.9 is 80, 8, 2 and 26. Times grow as
n^1.6 d^0.9 with self-attention (printed: n^2 d), n^1.0 d^1.6 with the LSTM (n d^2), n^0.9 d^1.7
with a convolution (n d^2) and n^0.9 d^0.7 with self-attention in blocks of 32 (n d), on quiet
cores; softmax and memory traffic are not in the formulas. With its projections, self-attention is
faster than the LSTM at both points with n < d, and at four of the five others.

    python examples/paper/path_length.py
"""

import math
import time

import drawing
import keras
import numpy as np
from keras import layers, ops

from t2t_repro.layers import SelfAttention

WORDS, WIDTH, SENTENCES = 10, 32, 32  # different words; a step has so many sentences


class Attention(layers.Layer):
    """Self-attention with projections, without its weights."""

    def __init__(self, width):
        super().__init__()
        self.attention = SelfAttention(8, width, width)

    def call(self, x):
        return self.attention(x)[0]


def convolution(dilation=1):
    """Returns a layer that sees a word, and two before it, `dilation` apart."""
    return layers.Conv1D(WIDTH, 3, padding="causal", dilation_rate=dilation, activation="relu")


# Each makes as many layers as connect the first of n words with the end.
KINDS = {
    "self-attention": lambda n: [Attention(WIDTH)],
    "LSTM": lambda n: [layers.LSTM(WIDTH, return_sequences=True)],
    "convolutions": lambda n: [convolution() for _ in range(math.ceil(n / 2))],
    "dilated convolutions": lambda n: [convolution(3**i) for i in range(round(math.log(n + 1, 3)))],
}


def model_of(kind, n):
    """Returns a new model: words and marks, (B, n + 1) each, to logits (B, 1, WORDS)."""
    tried = KINDS[kind](n)
    words, marks = (keras.Input((n + 1,), dtype="int32") for _ in range(2))
    x = layers.Embedding(WORDS + 1, WIDTH)(words)
    x = x + layers.Embedding(2, WIDTH)(marks)
    for layer in tried:
        x = x + layer(layers.LayerNormalization()(x))
    x = x[:, -1]  # the end of the sentence
    hidden = layers.Dense(4 * WIDTH, "relu")(layers.LayerNormalization()(x))
    x = layers.LayerNormalization()(x + layers.Dense(WIDTH)(hidden))
    return keras.Model([words, marks], layers.Reshape((1, WORDS))(layers.Dense(WORDS)(x)))


def sentences(random, count, n):
    """Returns [words, marks] with the end at id 0, and the first words."""
    words = random.integers(1, WORDS + 1, (count, n + 1), "int32")
    words[:, -1] = 0
    marks = np.eye(1, n + 1, dtype="int32").repeat(count, axis=0)
    return [words, marks], words[:, :1] - 1


def accuracy(kind, n, seed, steps):
    """Returns the accuracy of a new model after its training."""
    keras.utils.set_random_seed(seed)
    model = model_of(kind, n)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, jit_compile=False)
    inputs, labels = sentences(np.random.default_rng(seed), steps * SENTENCES, n)
    model.fit(inputs, labels, batch_size=SENTENCES, shuffle=False, verbose=0)
    inputs, labels = sentences(np.random.default_rng(2**32), 512, n)
    return float(np.mean(np.argmax(model.predict_on_batch(inputs), axis=-1) == labels))


def dot_products(x):
    """Returns softmax(x x^T) x: what the complexity of self-attention counts."""
    scores = ops.matmul(x, ops.transpose(x, (0, 2, 1))) * x.shape[-1] ** -0.5
    return ops.matmul(ops.softmax(scores), x)


def in_blocks(x):
    """Returns the same within blocks of 32 positions."""
    blocks = ops.reshape(x, (-1, 32, x.shape[2]))
    return ops.reshape(dot_products(blocks), (-1, *x.shape[1:]))


# Table 1's kinds, and the model's own sublayer, by the width.
LAYERS = {
    "self-attention": lambda d: dot_products,
    "LSTM": lambda d: layers.LSTM(d, return_sequences=True),
    "convolution": lambda d: layers.Conv1D(d, 3, padding="same"),
    "self-attention in blocks": lambda d: in_blocks,
    "self-attention with projections": Attention,
}


def milliseconds(name, n, d):
    """Returns the time of a forward pass over 8 sequences: the fastest of seven."""
    inputs = keras.Input((n, d), batch_size=8)
    model = keras.Model(inputs, ops.mean(LAYERS[name](d)(inputs), axis=(1, 2)))
    x = np.random.default_rng(0).standard_normal((8, n, d), "float32")
    seconds = []
    for _ in range(8):  # the first compiles
        start = time.perf_counter()
        model.predict_on_batch(x)
        seconds.append(time.perf_counter() - start)
    return 1e3 * min(seconds[1:])


def main():
    sizes = dict(lengths=(256, 512, 1024, 2048), widths=(128, 256, 512, 1024), middle=256)
    args = drawing.arguments(__doc__, steps=300, seeds=2, distances=(2, 8, 26, 80), **sizes)
    made, (left, middle, right) = drawing.figure("Paths and costs of layers", 3)
    rows, times = [], []
    for i, kind in enumerate(KINDS):
        of_distances = []
        for n in args.distances:
            values = [accuracy(kind, n, seed, args.steps) for seed in range(args.seeds)]
            rows += [dict(layer=kind, words=n, seed=s, accuracy=v) for s, v in enumerate(values)]
            print(f"{kind:21} {n:3} words:", *(f"{v:.2f}" for v in values), flush=True)
            of_distances.append(values)
        drawing.line(left, args.distances, of_distances, kind, "os^D"[i], 11 - 2 * i)
    for name in LAYERS:
        of = {
            middle: {n: milliseconds(name, n, args.middle) for n in args.lengths},
            right: {d: milliseconds(name, args.middle, d) for d in args.widths},
        }
        powers = []
        for axes, values in of.items():
            powers.append(np.polyfit(np.log([*values]), np.log([*values.values()]), 1)[0])
            label = f"{name}: {'n' if axes is middle else 'd'}^{powers[-1]:.1f}"
            axes.plot(values.keys(), values.values(), "o-", label=label)
        print(f"{name:32} n^{powers[0]:.1f} d^{powers[1]:.1f}", flush=True)
        points = [(n, args.middle, ms) for n, ms in of[middle].items()]
        points += [(args.middle, d, ms) for d, ms in of[right].items()]
        times += [dict(layer=name, length=n, width=d, milliseconds=ms) for n, d, ms in points]
    left.set(title="telling the first word", xlabel="distance n, words", ylabel="share right")
    middle.set(title=f"a forward pass, width {args.middle}", xlabel="length n, words")
    right.set(title=f"a forward pass, length {args.middle}", xlabel="width d")
    for axes in (middle, right):
        axes.set(yscale="log", ylabel="ms for 8 sequences")
    for axes, at in ((left, args.distances), (middle, args.lengths), (right, args.widths)):
        axes.set_xscale("log")
        axes.set_xticks(at, map(str, at))
        axes.minorticks_off()
        axes.legend(fontsize=7)
    drawing.save(made, {"rows": rows, "times": times}, args.output_dir / "path_length")


if __name__ == "__main__":
    main()

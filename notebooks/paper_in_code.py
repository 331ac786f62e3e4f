# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The paper in code
#
# "Attention Is All You Need" (<https://arxiv.org/abs/1706.03762>), section by section, from 3.1 to
# 5.4. Each formula is computed twice: in NumPy as the paper prints it, and by the layer of
# `t2t_repro` that does it. Where tensor2tensor, and so this package, differs from the paper's
# words, it is said. At the end a small model learns to translate, gets a BLEU, and shows what it
# looks at. Three exercises follow.
#
# It needs a minute on two cores, no GPU and no download.

# %%
# %matplotlib inline
from t2t_repro import imports

imports.quiet_tensorflow()  # no lines about oneDNN and CUDA

# %%
import pathlib

import keras
import number_words
import numpy as np

import t2t_repro
from t2t_repro.data import text_dataset
from t2t_repro.layers import (
    EncoderLayer,
    FeedForward,
    LayerNorm,
    PrePostProcess,
    SelfAttention,
    SinusoidalPositions,
    SymbolEmbedding,
)
from t2t_repro.layers.attention import CAUSAL, ScaledDotProduct
from t2t_repro.layers.layer import Dropout
from t2t_repro.layers.stacks import Sublayer
from t2t_repro.models import parameters
from t2t_repro.scoring import bleu
from t2t_repro.text.encoders import TokenTextEncoder
from t2t_repro.training import learning_rate, losses, optimizers
from t2t_repro.views import attention as attention_of
from t2t_repro.views import pictures

keras.utils.set_random_seed(1)
random = np.random.default_rng(1)
folder = pathlib.Path("t2t_runs/lessons/paper_in_code")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# `beside` runs a line of code, prints it beside the paper's formula and both numbers (the last of
# many), and keeps the row for the table at the end. Where no NumPy can be written down, such as for
# hours on GPUs, it is the paper's own number.

# %%
rows = []
ARROW = {"arrowstyle": "->", "color": "#555555"}


def beside(section, formula, code, expected, tolerance=1e-5):
    """Runs `code`; it must give `expected` of NumPy (tolerance=None: the paper's, another one)."""
    ours, expected = (np.asarray(x, "float64") for x in (eval(code), expected))
    difference = np.max(np.abs(ours - expected))
    if tolerance is not None:
        assert ours.shape == expected.shape and difference <= tolerance, (section, difference)
    whose = "paper" if tolerance is None else "NumPy"
    numbers = [f"{whose} {expected.flat[-1]:.7g}", f"{ours.flat[-1]:.7g}"]
    rows.append((section, formula, code, *numbers))
    of_many = f" of shape {ours.shape}, largest difference {difference:.1g}" if ours.shape else ""
    print(f"{section:6} {formula}\n       {code}")
    print(f"       {numbers[0]}, here {numbers[1]}{of_many}")


# %% [markdown]
# ## 3.1 Encoder and decoder stacks
#
# $$\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))$$
#
# around every sublayer. Here that is a string of letters: `"dan"` is dropout, *a*dd x, *n*ormalise
# ("post-norm"; `"n"` before and `"da"` behind is the pre-norm of later models). Dropout is off but
# in training.
#
# Figure 1 in blocks: each is a line of `EncoderLayer` or `DecoderLayer`, from the bottom up.

# %%
BLOCKS = {  # from the bottom up
    "encoder": ["embedding, positions", "self-attention", "feed-forward"],
    "decoder": [
        "embedding, positions",
        "masked self-attention",
        "encoder-decoder attention",
        "feed-forward",
        "linear, softmax",
    ],
}
drawn, axes = pictures.figure(title="The model", width=5.6, height=4.2, grid=False)
for column, (side, blocks) in enumerate(BLOCKS.items()):
    layer = range(1, 3 if side == "encoder" else 4)  # the blocks of which there are N
    axes.fill_between([column - 0.4, column + 0.4], 0.65, layer.stop - 0.6, color="#eeeeee")
    axes.text(column + 0.38, layer.stop - 0.8, "N times", ha="right", fontsize=8)
    axes.text(column, -0.6, {"encoder": "inputs", "decoder": "outputs so far"}[side], ha="center")
    for row, block in enumerate(blocks):
        label = f"{block}\nadd, normalise" if row in layer else block
        style = {"boxstyle": "round", "fc": pictures.COLORS[5] if row in layer else "white"}
        axes.text(column, row, label, ha="center", va="center", fontsize=8, bbox=style)
        if row:
            axes.annotate("", (column, row - 0.24), (column, row - 0.76), arrowprops=ARROW)
axes.annotate("", (0.68, 2), (0.2, 2), arrowprops=ARROW)
axes.text(0.5, 2.1, "memory", ha="center", fontsize=8)
axes.set(xlim=(-0.5, 1.5), ylim=(-0.8, 4.4))
axes.axis("off")
pictures.save(drawn, folder / "model.png")
drawn

# %% [markdown]
# A sublayer of it, in NumPy and here:

# %%
x = random.normal(size=(2, 7, 512)).astype("float32")  # 2 sentences, 7 tokens, width 512
attention = SelfAttention(num_heads=8, key_channels=512, value_channels=512)
sublayer = Sublayer(attention, PrePostProcess("none"), PrePostProcess("dan", dropout=0.1))
sublayer.build(x.shape)


def layer_norm(x, epsilon=1e-6):
    """Mean 0 and variance 1 over the last axis; the learned scale and bias begin at 1 and 0."""
    x = np.asarray(x)
    variance = x.var(axis=-1, keepdims=True)
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance + epsilon)


beside("3.1", "LayerNorm(x + Sublayer(x))", "sublayer(x)[0]", layer_norm(x + attention(x)[0]))
beside("3.1", "LayerNorm(x)", "LayerNorm()(x)", layer_norm(x))

# %% [markdown]
# ### 3.2.1 Scaled dot-product attention
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V$$
#
# The package scales the queries before the product, which is the same.

# %%
queries, keys, values = random.normal(size=(3, 2, 8, 7, 64)).astype("float32")
score, everywhere = ScaledDotProduct(), np.ones((1, 1, 1, 1), "bool")


def softmax(x):
    """Over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


logits = queries @ keys.swapaxes(-1, -2)
weights = softmax(logits / np.sqrt(64))
beside("3.2.1", "Q K^T / sqrt(d_k)", "score(score.queries(queries), keys)", logits / 8)
line = "attention.apply_weights(attention.softmax(logits / 8, everywhere), values)"
beside("3.2.1", "softmax(Q K^T / sqrt(d_k)) V", line, weights @ values)
print(f"\nFootnote 4: the variance of q k is about d_k = 64: {logits.var():.1f}.")

# %% [markdown]
# ### 3.2.2 Multi-head attention
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, ..., \mathrm{head}_h)W^O,\quad
# \mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$$
#
# with $h = 8$ and $d_k = d_v = d_{model}/h = 64$. The kernels of queries, keys and values of all
# heads are one fused kernel here.

# %%
kernel = keras.ops.convert_to_numpy(attention.query_key_value)  # (512, 3 * 512)
output_kernel = keras.ops.convert_to_numpy(attention.output_transform)
heads = []
for i in range(8):
    w_q, w_k, w_v = (part[:, 64 * i : 64 * (i + 1)] for part in np.split(kernel, 3, axis=1))
    weights = softmax((x @ w_q) @ (x @ w_k).swapaxes(-1, -2) / np.sqrt(64))
    heads.append(weights @ (x @ w_v))
multi_head = np.concatenate(heads, axis=-1) @ output_kernel
beside("3.2.2", "Concat(head_1, ..., head_8) W^O", "attention(x)[0]", multi_head)
beside("3.2.2", "4 d_model^2 weights", "attention.count_params()", 4 * 512**2)

# %% [markdown]
# ### 3.2.3 Applications of attention
#
# In the decoder no position may look at later ones. Every attention returns its weights too: each
# row sums to 1, and those ahead of the diagonal are 0.

# %%
beside("3.2.3", "masked: 0 ahead", "np.triu(attention(x, CAUSAL)[1], 1).max()", 0.0)
line = "np.sum(attention(x, CAUSAL)[1], axis=-1)"
beside("3.2.3", "sum of a row", line, np.ones((2, 8, 7)))

drawn, axes = pictures.figure(3, title="One head, 7 tokens", width=2.3, height=3.1, grid=False)
whole, masked = (np.asarray(attention(x, *mask)[1])[0, 0] for mask in ((), (CAUSAL,)))
of_titles = {"without a mask": whole, "the mask": np.tri(7), "masked": masked}
for each, (title, weights) in zip(axes, of_titles.items(), strict=True):
    each.imshow(weights, cmap=pictures.HEAT, vmin=0, vmax=1)
    each.set(title=title, xlabel="is looked at", ylabel="looks", xticks=range(7), yticks=range(7))
pictures.save(drawn, folder / "mask.png")
drawn

# %% [markdown]
# ## 3.3 Position-wise feed-forward networks
#
# $$\mathrm{FFN}(x) = \max(0, xW_1 + b_1)W_2 + b_2$$

# %%
ffn = FeedForward(2048)
ffn.build(x.shape)
w_1, b_1, w_2, b_2 = (keras.ops.convert_to_numpy(weight) for weight in ffn.weights)
beside("3.3", "max(0, x W1 + b1) W2 + b2", "ffn(x)", np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2)

encoder_layer = EncoderLayer(
    num_heads=8, filter_size=2048, preprocess="none", postprocess="dan", dropout=0.1
)
encoder_layer(x)
of_ffn, of_norms = 2 * 512 * 2048 + 2048 + 512, 2 * 2 * 512
beside("3.3", "an encoder layer", "encoder_layer.count_params()", 4 * 512**2 + of_ffn + of_norms)

# %% [markdown]
# ## 3.4 Embeddings and softmax
#
# One matrix embeds the tokens, multiplied by $\sqrt{d_{model}}$, and makes the logits. Id 0 is
# padding and embeds to zeros.

# %%
embedding = SymbolEmbedding(vocab_size=1000, hidden_size=512, scale=512**0.5)
embedding.build()
table = keras.ops.convert_to_numpy(embedding.embeddings)
ids = np.array([[0, 5, 17, 1]])
looked_up = table[ids] * 512**0.5 * (ids != 0)[..., None]
beside("3.4", "E[ids] sqrt(d_model)", "embedding(ids)", looked_up)
beside("3.4", "x E^T", "embedding.logits(x)", x @ table.T, tolerance=1e-4)

# %% [markdown]
# ## 3.5 Positional encoding
#
# $$PE_{(pos,2i)} = \sin(pos/10000^{2i/d_{model}}),\quad
# PE_{(pos,2i+1)} = \cos(pos/10000^{2i/d_{model}})$$
#
# tensor2tensor, with which the paper's models were trained, puts all sines first and then all
# cosines, and its exponents run from 0 to 1, ends included: $i/(d_{model}/2 - 1)$. A learned layer
# follows, to which the order of channels means nothing. So it is here.

# %%
position, channel = np.arange(50)[:, None], np.arange(256)
angle = position / 10000 ** (channel / 255)
signal = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)[None]
nothing = np.zeros((1, 50, 512), "float32")
beside("3.5", "[sin | cos](pos / 10000^(i / 255))", "SinusoidalPositions()(nothing)", signal)

printed = position / 10000 ** (2 * channel / 512)
printed = np.concatenate([np.sin(printed), np.cos(printed)], axis=-1)[None]
print(f"\nThe paper's own exponents: largest difference {np.abs(printed - signal).max():.2f}.")

drawn, (left, right) = pictures.figure(2, title="Positions", width=3.6, height=3.0, grid=False)
left.imshow(signal[0], cmap=pictures.SIGNED, vmin=-1, vmax=1, aspect="auto")
left.set(title="the signal", xlabel="channel: sines, cosines", ylabel="position")
right.imshow(signal[0] @ signal[0].T / 256, cmap=pictures.SIGNED, vmin=-1, vmax=1)
right.set(title="cosine of two positions", xlabel="position", ylabel="position")
pictures.save(drawn, folder / "positions.png")
drawn

# %% [markdown]
# "For any fixed offset $k$, $PE_{pos+k}$ can be represented as a linear function of $PE_{pos}$":
# each pair of sine and cosine is turned by the angle that $k$ positions make, whatever `pos` is.

# %%
turn = 3 / 10000 ** (channel / 255)  # k = 3
sine, cosine = signal[0, :-3, :256], signal[0, :-3, 256:]
turned = np.concatenate(
    [sine * np.cos(turn) + cosine * np.sin(turn), cosine * np.cos(turn) - sine * np.sin(turn)], -1
)
beside("3.5", "PE(pos + 3) = R(3) PE(pos)", "SinusoidalPositions()(nothing)[0, 3:]", turned)

# %% [markdown]
# ## 4 Why self-attention
#
# Operations of one layer (table 1) for $n$ tokens of width $d$. Self-attention costs less than a
# recurrent layer as long as $n < d$, and takes one step where that takes $n$.

# %%
d, k, r = 512, 3, 10
print(f"{'layer, operations':30} {'n = 30':>15} {'n = 512':>15} {'n = 2,000':>15}   steps")
for name, operations, steps in (
    ("self-attention, n^2 d", lambda n: n * n * d, "1"),
    ("recurrent, n d^2", lambda n: n * d * d, "n"),
    ("convolutional, k n d^2, k = 3", lambda n: k * n * d * d, "1"),
    ("restricted, r n d, r = 10", lambda n: r * n * d, "1"),
):
    print(f"{name:30}", *(f"{operations(n):15,}" for n in (30, 512, 2000)), f"  {steps}")

# %% [markdown]
# ## 5.1 Training data and batching
#
# The paper translates WMT14; this lesson, to be done in a minute, numbers in words. A batch has
# sentences "of approximate sequence length", and as many of them as make `batch_size` tokens,
# padding included.

# %%
corpus = number_words.pairs(12_200)
english, german = (list(side) for side in zip(*corpus, strict=True))
for source, target in corpus[:3]:
    print(f"{source}  ->  {target}")

hparams = t2t_repro.get_hparams(
    "transformer_base_v1",
    hidden_size=64,
    num_heads=4,
    filter_size=128,
    num_hidden_layers=2,
    layer_prepostprocess_dropout=0.0,
    label_smoothing=0.0,
    learning_rate=0.02,
    learning_rate_warmup_steps=250,
    batch_size=2048,
    max_length=64,
    symbol_modality_num_shards=1,
)
words = sorted({word for line in (*english, *german) for word in line.split()})
encoder = TokenTextEncoder(None, vocab_list=words)
data = text_dataset(english[:12_000], german[:12_000], encoder, hparams)
dev = text_dataset(english[12_000:], german[12_000:], encoder, hparams, training=False)

counts = [(np.size(y), np.count_nonzero(y)) for y in (b["targets"] for b in data)]
size, real = np.mean(counts, axis=0)
print(f"\n{len(words)} words, {len(counts)} batches of {size:,.0f} target places, of which are")
print(f"{real:,.0f} tokens ({real / size:.0%}); the paper's batches had about 25,000.")

# %% [markdown]
# ## 5.2 Hardware and schedule
#
# The base model has 65 million parameters (table 3), and was trained for 100,000 steps, which the
# paper estimates at 3.3e18 floating-point operations: hours times the speed of eight P100s. Here
# both are counted, without making the model. The first is not quite the paper's, and `t2t-paper`
# says why; the second counts matrix products alone, while a GPU at work does more, and waits.

# %%
base = t2t_repro.get_hparams("transformer_base_v1")
vocabulary = 37_000
batch = 25_000 / 30, 30, 30  # sentences, and tokens of each
line = "parameters.count(base, vocabulary, vocabulary).total"
beside("5.2", "65e6 parameters", line, 65e6, tolerance=None)
line = "100_000 * parameters.train_step_flop(base, vocabulary, *batch)"
beside("5.2", "12 h x 8 x 9.5e12 FLOP/s", line, 12 * 3600 * 8 * 9.5e12, tolerance=None)

# %% [markdown]
# ## 5.3 Optimizer
#
# $$lrate = d_{model}^{-0.5} \cdot \min(n^{-0.5},\ n \cdot warmup^{-1.5})$$
#
# and Adam with $\beta_1 = 0.9$, $\beta_2 = 0.98$, $\epsilon = 10^{-9}$. The package counts steps
# from 0, so $n$ is `step + 1`.

# %%
schedule = learning_rate.Schedule(base)
for step in (0, 3_999, 99_999):
    n = step + 1
    rate = 512**-0.5 * min(n**-0.5, n * 4000**-1.5)
    beside("5.3", f"lrate at n = {n}", f"schedule({step})", rate, tolerance=1e-8)

weight, gradient = keras.Variable([0.0, 0.0]), np.array([0.5, -2.0], "float32")
adam = optimizers.from_hparams(base)
adam.build([weight])
adam.apply([keras.ops.convert_to_tensor(gradient)])
first, second = 0.1 * gradient / (1 - 0.9), 0.02 * gradient**2 / (1 - 0.98)  # bias corrected
updated = -(512**-0.5) * 4000**-1.5 * first / (np.sqrt(second) + 1e-9)
beside("5.3", "0 - lrate m / (sqrt(v) + eps)", "weight", updated, tolerance=1e-12)

# %% [markdown]
# ## 5.4 Regularization
#
# Residual dropout of 0.1, and label smoothing of 0.1: the right word is to have 0.9, all others
# share the rest. tensor2tensor subtracts the entropy of that target, which changes no gradient, so
# that a perfect prediction has a loss of 0.

# %%
dropped = np.asarray(Dropout(0.1)(np.ones((100, 1000), "float32"), training=True))
beside("5.4", "P_drop = 0.1", "np.mean(dropped == 0)", 0.1, tolerance=0.01)
beside("5.4", "1 / 0.9 for the others", "dropped.max()", 1 / 0.9, tolerance=1e-2)

logits, labels = random.normal(size=(1, 3, 10)).astype("float32"), np.array([[4, 7, 1]])
smoothed = np.full((1, 3, 10), 0.1 / 9)
np.put_along_axis(smoothed, labels[..., None], 0.9, axis=-1)
cross_entropy = -(smoothed * np.log(softmax(logits))).sum()
entropy = -(smoothed * np.log(smoothed)).sum()
line = "losses.padded_cross_entropy(logits, labels, label_smoothing=0.1)[0]"
beside("5.4", "-sum q' log p - H(q')", line, cross_entropy - entropy)

# %% [markdown]
# ## A small model learns
#
# Two layers of width 64, and otherwise the paper's base model: post-norm, shared embeddings, Adam
# and the schedule, with 250 steps of warm-up and a fifth of the rate. Dropout and label
# smoothing are left out: numbers are not ambiguous.

# %%
size = encoder.vocab_size
model = t2t_repro.Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
model.compile(optimizers.from_hparams(hparams))
history = model.fit(data, validation_data=dev, epochs=5, shuffle=False, verbose=2).history

# %%
drawn, axes = pictures.figure(title="A small model learns to translate numbers")
epochs = range(1, len(history["loss"]) + 1)
axes.plot(epochs, history["loss"], marker="o", label="training, mean of the epoch")
axes.plot(epochs, history["val_loss"], marker="o", label="200 held-out numbers")
axes.set(xlabel="epoch", xticks=epochs, ylabel="loss (nats per token)", ylim=(0, None))
axes.legend(fontsize=8)
pictures.save(drawn, folder / "learning.png")
drawn

# %% [markdown]
# ## 6.1 It translates
#
# "We used beam search with a beam size of 4 and length penalty $\alpha = 0.6$": a translation's
# score is its log-probability divided by $((5 + length) / 6)^\alpha$.

# %%
inputs = [[*encoder.encode(line), 1] for line in english[12_000:]]
longest = max(map(len, inputs))
inputs = np.array([ids + [0] * (longest - len(ids)) for ids in inputs], "int32")
ids, scores = t2t_repro.decode(model, inputs, beam_size=4, alpha=0.6)
ids, scores = (keras.ops.convert_to_numpy(x)[:, 0] for x in (ids, scores))
translations = [encoder.decode(row[row > 1]) for row in ids]
for i in range(3):
    print(f"{english[12_000 + i]}\n  {translations[i]}\n  {german[12_000 + i]} (reference)")

probabilities = softmax(np.asarray(model({"inputs": inputs[:1], "targets": ids[:1]})))[0]
length = np.count_nonzero(ids[0])
of_words = np.log(probabilities[np.arange(length), ids[0, :length]])
score = of_words.sum() / ((5 + length) / 6) ** 0.6
beside("6.1", "log P(y|x) / ((5 + |y|) / 6)^0.6", "scores[0]", score)

# %%
scored = bleu.score(translations, german[12_000:])
print(f"BLEU {scored.sacrebleu.score:.2f} on {scored.sentences} held-out numbers")
print(f"signature {scored.sacrebleu.signature}")
assert scored.sacrebleu.score > 80

# %% [markdown]
# ## What it looks at
#
# The decoder's last layer, as it writes a number. German says units before tens: where it writes
# `ein` it looks at `one`, and for `zwanzig` back at `twenty`.

# %%
sentence = "four hundred twenty one thousand three"
encoders = {"inputs": encoder, "targets": encoder}
of_kinds = attention_of.maps(
    model, encoders, *attention_of.sentence_ids(model, encoders, sentence, None)
)
both = next(each for each in of_kinds if each.kind == "encoder-decoder")
drawn, axes = pictures.figure(4, title=both.title, width=2.3, height=2.9, grid=False)
for head, each in enumerate(axes):
    each.imshow(both.weights[-1, head], cmap=pictures.HEAT, vmin=0, vmax=1, aspect="auto")
    each.set_title(f"head {head}")
    each.set_xticks(range(len(both.keys)), both.keys, rotation=90)
    each.set_yticks(range(len(both.queries)), both.queries if head == 0 else [])
pictures.save(drawn, folder / "attention.png")
drawn

# %% [markdown]
# The same of all heads and layers, to explore in a browser:

# %%
t2t_repro.write_attention_page(model, folder / "attention.html", sentence, encoder)

# %% [markdown]
# ## Exercises
#
# 1. Write the decoder's encoder-decoder attention in NumPy, from `queries` of one sentence and keys
#    and values of another, and set it beside `t2t_repro.layers.CrossAttention`. Which of the two
#    lengths is the number of rows of its weights?
# 2. Train the small model once more with `pos="none"`, then with `"emb"`. Which numbers does it
#    get wrong without positions, and why does it get others right? Longer numbers than those it
#    has seen: what do learned positions do there?
# 3. Divide by nothing in place of $\sqrt{d_k}$ (`attention_score="dot_product"`), and draw the
#    heads again. What has become of the weights, and of the loss after the first epoch?
#
# `t2t_repro.get_hparams("transformer_base_v1", pos="none", ...)` is how to begin.

# %% [markdown]
# ## The whole on one page

# %%
rows.insert(0, ("", "formula", "code", "expected", "here"))
widths = [max(len(row[i]) for row in rows) for i in range(5)]
for row in rows:
    print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))

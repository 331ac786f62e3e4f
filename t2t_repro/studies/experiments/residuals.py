"""Experiment: residuals carry the positions to all layers.

The paper's authors say so in their lecture at Stanford (CS224n, 2019), with three pictures of a
trained model's attention: with residuals, without them, and without them but with the positions
added anew at each layer. Here the same three learn to copy, under post-norm:

    residuals               layer_postprocess_sequence "dan", the paper's
    none                    "dn": what a sublayer returns replaces what it received
    none, positions again   the same, and the sinusoids are added before every layer

Before the first step and after the last, of every layer: how many of the encoder's outputs a linear
map tells the position of, and the symbol; and how much of its weight the decoder's attention to
them has where the copied symbol stands.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_repro import progress
from t2t_repro.config import HParams
from t2t_repro.layers.layer import build_all
from t2t_repro.layers.mask import of_padding
from t2t_repro.layers.position import SinusoidalPositions
from t2t_repro.layers.stacks import Stack
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments.result import Result
from t2t_repro.views import pictures

LAYERS = 4  # of the encoder, and of the decoder
LENGTH = 12  # of every sentence, without its end mark
SYMBOLS = 10
SEEDS = 2
STEPS = 400
SENTENCES = 64  # to a step
RATE, WARMUP = 1e-3, 100
TRIED = 256  # sentences whose outputs are looked at; the linear maps are fitted on the first half
RIDGE = 1e-3  # of the linear maps' squares, for outputs whose mean square is 1
MAKES_UP = 0.9  # the share of the accuracy with residuals from which something makes up for them

RESIDUALS, NONE, AGAIN = "residuals", "none", "none, positions again"


class Row(NamedTuple):
    """A row of the CSV: one layer of one model, after some steps.

    layer: counted from 0, as the variables are named.
    position, symbol: the share of the encoder layer's outputs, in sentences that the fit has not
        seen, of which a linear map tells it. Guessing gives 1 / LENGTH and 1 / SYMBOLS.
    diagonal: the weight of the decoder layer's attention at the symbol to copy, over all heads.
        Without a preference it is 1 / (LENGTH + 1).
    accuracy: of the whole model, the share of tokens that it writes, the end mark included, each
        given those before it.
    """

    model: str
    seed: int
    steps: int
    layer: int
    position: float
    symbol: float
    diagonal: float
    accuracy: float


class PositionsBefore(keras.layers.Layer):
    """A layer of the encoder or decoder, and the sinusoids added to what it receives."""

    def __init__(self, layer: keras.layers.Layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer
        self.positions = SinusoidalPositions()

    def build(self, input_shape):
        build_all((self.layer, self.positions), input_shape)

    def call(self, x, training=False, **arguments):
        """As the layer within."""
        return self.layer(self.positions(x), training=training, **arguments)


def with_residuals(hparams: HParams):
    """Returns a new model that is not built."""
    return copying.transformer(hparams, SYMBOLS)


def without_residuals(hparams: HParams):
    """The same without the letter that adds the residual."""
    kept = hparams.layer_postprocess_sequence.replace("a", "")
    return with_residuals(dataclasses.replace(hparams, layer_postprocess_sequence=kept))


def positions_again(hparams: HParams):
    """That with the positions added before every layer; the first has them from the model."""
    model = without_residuals(hparams)
    for name in ("encoder", "decoder"):
        stack = getattr(model, name)
        first, *others = stack.layers
        layers = [first, *map(PositionsBefore, others)]
        setattr(model, name, Stack(layers, stack.preprocess, name=name))
    return model


MODELS: dict[str, Callable] = {
    RESIDUALS: with_residuals,
    NONE: without_residuals,
    AGAIN: positions_again,
}


def small(layers: int = LAYERS) -> HParams:
    """Returns the configuration of MODELS."""
    return copying.small(layers, layer_preprocess_sequence="none", layer_postprocess_sequence="dan")


def run() -> Result:
    """Trains each model with each seed; three minutes of processor time."""
    tried = copying.draw_batch(np.random.default_rng(2**32), TRIED, (LENGTH, LENGTH), SYMBOLS)
    rows, maps = [], {}
    with progress.report("residuals", len(MODELS) * SEEDS * STEPS, "steps") as advance:
        for name, make in MODELS.items():
            learner = copying.Learner(functools.partial(make, small()))
            for seed in range(SEEDS):
                advance(0, f"{name}, seed {seed}")
                learner.begin(seed)
                draw = np.random.default_rng(seed)
                rows += measure(learner, tried, name, seed, 0)
                batches = (
                    copying.draw_batch(draw, SENTENCES, (LENGTH, LENGTH), SYMBOLS)
                    for _ in range(STEPS)
                )
                copying.train(learner, batches, RATE, WARMUP, advance)
                rows += measure(learner, tried, name, seed, STEPS)
            maps[name] = decoder_attention(learner.model, tried)
    return Result(rows, picture(rows, maps), sentences(rows))


def measure(
    learner: copying.Learner, tried: copying.Batch, name: str, seed: int, steps: int
) -> list[Row]:
    """Returns the row of each layer."""
    accuracy = learner.evaluate(tried)["accuracy"]
    places = np.broadcast_to(np.arange(LENGTH), (len(tried["inputs"]), LENGTH))
    symbols = tried["inputs"][:, :LENGTH]
    weights = decoder_attention(learner.model, tried)
    rows = []
    for i, outputs in enumerate(encoder_outputs(learner.model, tried["inputs"])):
        position, symbol = (decodable(outputs[:, :LENGTH], ids) for ids in (places, symbols))
        diagonal = float(np.mean(np.diagonal(weights[i])[:LENGTH]))
        rows.append(Row(name, seed, steps, i, position, symbol, diagonal, accuracy))
    return rows


def encoder_outputs(model: Any, inputs: np.ndarray) -> list[np.ndarray]:
    """Returns what each layer of the encoder makes of int32 (B, S): (B, S, D)."""
    real = ops.convert_to_tensor(inputs) != 0
    x = model.inputs_position(model.target_space(model.inputs_embedding(inputs)))
    outputs = []
    for layer in model.encoder.layers:
        x, _ = layer(x, real=real, attention_mask=of_padding(real))
        outputs.append(np.asarray(x))
    return outputs


def decoder_attention(model: Any, batch: copying.Batch) -> np.ndarray:
    """Returns each decoder layer's attention to the encoder, a mean of sentences and heads.

    float32 (layers, T, S).
    """
    weights = model.attention_weights(batch)
    names = [f"decoder/layer_{i}/encdec_attention" for i in range(len(model.decoder.layers))]
    return np.stack([np.mean(np.asarray(weights[name]), axis=(0, 1)) for name in names])


def decodable(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of labels that a linear map of the outputs tells.

    It is fitted on the first half of the sentences by least squares with a ridge, as a map to the
    one-hot vectors of the labels, and tried on the others.

    Args:
        outputs: (B, T, D).
        labels: whole numbers (B, T).
    """
    half = len(outputs) // 2
    mean = outputs[:half].mean(axis=(0, 1), dtype="float64")
    centred = outputs.astype("float64") - mean
    centred /= max(np.sqrt(np.mean(centred[:half] ** 2)), 1e-12)
    x = np.concatenate([centred, np.ones((*centred.shape[:2], 1))], axis=-1)
    fitted, tried = (part.reshape(-1, x.shape[-1]) for part in (x[:half], x[half:]))
    wanted = np.eye(labels.max() + 1)[labels[:half].ravel()]
    square = fitted.T @ fitted + RIDGE * len(fitted) * np.eye(x.shape[-1])
    told = np.argmax(tried @ np.linalg.solve(square, fitted.T @ wanted), axis=-1)
    return float(np.mean(told == labels[half:].ravel()))


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows of the trained models show.

    Residuals carry something to the last layer of the encoder where it tells it of more outputs
    than without them, the worst seed with them against the best without. Positions added again make
    up for them where with every seed the accuracy is at least MAKES_UP of the mean with residuals;
    in part, where the worst seed is better than the best with neither.
    """
    trained = [row for row in rows if row.steps]

    def at_the_end(column: str) -> dict[str, list[float]]:
        """The value of each seed: of the last layer, or the greatest of all layers'."""
        seeds = sorted({row.seed for row in trained})
        of_models: dict[str, list[float]] = {}
        for name in MODELS:
            for seed in seeds:
                of = [r for r in trained if (r.model, r.seed) == (name, seed)]
                values = [getattr(row, column) for row in sorted(of, key=lambda row: row.layer)]
                value = max(values) if column == "diagonal" else values[-1]
                of_models.setdefault(name, []).append(value)
        return of_models

    def said(values: dict[str, list[float]]) -> str:
        return (
            f"{copying.spread(values[RESIDUALS])} with residuals, {copying.spread(values[NONE])} "
            f"without, and {copying.spread(values[AGAIN])} without but with positions again"
        )

    position, symbol = at_the_end("position"), at_the_end("symbol")
    carried = [
        what
        for what, values in (("position", position), ("symbol", symbol))
        if min(values[RESIDUALS]) > max(values[NONE])
    ]
    first = "As the lecture says: " if "position" in carried else "Not as the lecture says: "
    first += (
        f"after {STEPS} steps a linear map of what the encoder's last layer (of {LAYERS}) hands on "
        f"tells the position of {said(position)}, and the symbol of {said(symbol)} (shares, mean "
        f"of {SEEDS} seeds, least and greatest; guessing gives {1 / LENGTH:.2f} and "
        f"{1 / SYMBOLS:.2f}), so the residuals carry {' and '.join(carried) or 'neither'}."
    )
    accuracy, diagonal = at_the_end("accuracy"), at_the_end("diagonal")
    if min(accuracy[AGAIN]) >= MAKES_UP * np.mean(accuracy[RESIDUALS]):
        second = "Positions added again make up for the residuals here"
    elif min(accuracy[AGAIN]) > max(accuracy[NONE]):
        second = "Positions added again make up for the residuals only in part here"
    else:
        second = "Positions added again do not make up for the residuals here"
    second += (
        f": the accuracy is {said(accuracy)}, and the weight of attention at the symbol to copy, "
        f"in the decoder's layer where it is greatest, is {said(diagonal)} ({1 / (LENGTH + 1):.2f} "
        "without a preference)."
    )
    return first, second


def picture(rows: Sequence[Row], maps: dict[str, np.ndarray]):
    """Draws the trained decoders' attention, a row of layers for each model, and the rows below."""
    title = f"What the residuals carry: decoders' attention to the encoder after {STEPS} steps"
    figure, axes = pictures.figure(LAYERS, len(MODELS) + 1, title=title, width=2.6, height=2.3)
    darkest = max(float(weights.max()) for weights in maps.values())
    for i, (name, of_layers) in enumerate(maps.items()):
        for layer, weights in enumerate(of_layers):
            each = axes[i * LAYERS + layer]
            each.grid(False)
            each.imshow(weights, cmap=pictures.HEAT, vmin=0, vmax=darkest)
            each.set_title(f"{name}, layer {layer}", fontsize=8)
            each.set(xticks=[], yticks=[])
            if not layer:
                each.set(ylabel="symbol to write", xlabel="symbol read")
    below = axes[len(MODELS) * LAYERS :]
    titles = {
        "position": "position told (dotted: step 0)",
        "symbol": "symbol told",
        "diagonal": "attention at the symbol",
    }
    layers = range(LAYERS)
    for each, (column, title) in zip(below, titles.items(), strict=False):
        for name, color in zip(MODELS, pictures.COLORS, strict=False):
            for steps, style in ((0, ":"), (STEPS, "o-")):
                of = [row for row in rows if (row.model, row.steps) == (name, steps)]
                means = [np.mean([getattr(r, column) for r in of if r.layer == i]) for i in layers]
                label = name if steps else None
                each.plot(layers, means, style, color=color, label=label, markersize=3)
        each.set_title(title, fontsize=8)
        each.set(xlabel="layer of the encoder", ylim=(-0.02, 1.02), xticks=layers)
    below[0].set_ylabel("share")
    below[0].legend(fontsize=6)
    if len(below) > len(titles):
        below[2].set_xlabel("layer of the decoder")
        trained = [row for row in rows if row.steps and row.layer == LAYERS - 1]
        for i, name in enumerate(MODELS):
            values = [row.accuracy for row in trained if row.model == name]
            below[3].bar(i, np.mean(values), color=pictures.COLORS[i])
            below[3].plot([i] * len(values), values, "k.", markersize=4)
        below[3].set_title(f"accuracy after {STEPS} steps", fontsize=8)
        below[3].set(ylim=(0, 1.02), xticks=[])
    return figure

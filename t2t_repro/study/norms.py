"""Gradient norms and activation scales of a model, layer by layer and sublayer by sublayer.

They are what tells post-norm from pre-norm before the first step (Xiong et al. 2020, "On Layer
Normalization in the Transformer Architecture"): under post-norm the gradients of the last layers
are large whatever the depth; under pre-norm they fall with the root of the depth, while the
activations between the layers grow.

A place is named as in the model: "decoder/layer_5/ffn", or "embedding" for what is in no layer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.layers.attention import CAUSAL, of_padding
from t2t_repro.training import checkpoints, distribution
from t2t_repro.training.log import SUBLAYER

EMBEDDING = "embedding"


class GradientNorms:
    """The gradients that a model's training step makes: the loss of training, dropout included.

    Only the matrices count (kernels and embeddings): they are the same for every sequence of pre-
    and postprocessing, and norms' scales and biases are not.

    Args:
        model: built; it is compiled anew, and never changed by what is measured.
    """

    def __init__(self, model: keras.Model):
        # A few steps: TensorFlow would trace a deep model for longer than they take.
        jax = keras.backend.backend() == "jax"
        nothing = keras.optimizers.SGD(learning_rate=0.0)
        model.compile(optimizer=nothing, run_eagerly=not jax, jit_compile=jax)
        self._step = distribution.step_function(model)
        names = {id(v): name for name, v in checkpoints.weights(model).items()}
        self._places = [
            place_of(names[id(variable)]) if len(variable.shape) > 1 else None
            for variable in model.trainable_variables
        ]

    def measure(self, batches: Sequence[dict[str, Any]]) -> tuple[float, dict[str, float]]:
        """Returns the mean loss of the batches, and the mean norm of the gradient at each place.

        Raises:
            FloatingPointError: if the loss or a gradient is not finite.
        """
        losses, norms = [], dict.fromkeys(filter(None, self._places), 0.0)
        for batch in batches:
            made = self._step(batch, True)
            if not made.finite:
                raise FloatingPointError(made.fault())
            losses.append(made.loss)
            squares = dict.fromkeys(norms, 0.0)
            for place, square in zip(self._places, np.asarray(made.squares), strict=True):
                if place is not None:
                    squares[place] += float(square)
            for place, square in squares.items():
                norms[place] += square**0.5 / len(batches)
        return float(np.mean(losses)), norms


def place_of(name: str) -> str:
    """Returns the place of a weight by its name: "decoder/layer_5/ffn", else EMBEDDING."""
    sublayer = SUBLAYER.match(name)
    return sublayer[1] if sublayer else EMBEDDING


def activation_scales(model: keras.Model, batch: Mapping[str, Any]) -> dict[str, float]:
    """Returns the root mean square of what runs from sublayer to sublayer, without dropout.

    The values at "encoder/layer_0/ffn" are those behind that sublayer, its residual and its
    postprocessing: what the next sublayer receives. Padding is left out.

    Args:
        model: a `Transformer`.
        batch: {"inputs": int32 (B, S), "targets": int32 (B, T)}, not packed.
    """
    return walk(model, batch)[0]


def walk(model: keras.Model, batch: Mapping[str, Any]) -> tuple[dict[str, float], Any]:
    """Walks as `Transformer.call`; returns the scales, and the decoder's output (B, T, D)."""
    inputs, targets = (ops.convert_to_tensor(batch[side]) for side in ("inputs", "targets"))
    real = inputs != 0
    mask = of_padding(real)
    scales: dict[str, float] = {}

    def through(name: str, x, ids, sublayers: Mapping[str, dict[str, Any]]):
        """Returns what a stack makes of x; `sublayers` are those of a layer, with arguments."""
        stack = getattr(model, name)
        for i, layer in enumerate(stack.layers):
            for sublayer, arguments in sublayers.items():
                x, _ = getattr(layer, sublayer)(x, **arguments)
                values = np.asarray(ops.cast(x, "float32"))[np.asarray(ids) != 0]
                square = np.mean(np.square(values, dtype=np.float64))
                scales[f"{name}/layer_{i}/{sublayer}"] = float(np.sqrt(square))
        return stack.preprocess(x)

    causal = {"attention_mask": CAUSAL}
    own = causal if model.hparams.unidirectional_encoder else {"attention_mask": mask}
    x = model.inputs_position(model.target_space(model.inputs_embedding(inputs)))
    memory = through("encoder", x, inputs, {"self_attention": own, "ffn": {"real": real}})
    shifted = ops.pad(targets, [[0, 0], [1, 0]])[:, :-1]
    x = model.targets_position(model.targets_embedding(shifted))
    cross = {"memory": memory, "attention_mask": mask}
    sublayers = {"self_attention": causal, "encdec_attention": cross, "ffn": {}}
    return scales, through("decoder", x, targets, sublayers)

"""A trained Transformer as arrays, in the order in which other libraries compute it.

B batch, S source and T target tokens, D model size, F filter size, V vocabulary, P positions.
"""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.config import DOT_PRODUCTS
from t2t_repro.errors import UserError
from t2t_repro.layers.embedding import (
    LearnedPositions,
    NoPositions,
    TargetSpaceEmbedding,
    timing_signal,
)
from t2t_repro.models.transformer import Transformer

POSITIONS = 2048  # rows of the written position table, where the model computes its positions
Pair = tuple[np.ndarray, np.ndarray]  # (kernel, bias), or a norm's (scale, bias), each (D,)
_PRE_NORM = {("none", "dan"): False, ("n", "da"): True}  # (pre, post) sequence: is it pre-norm


@dataclasses.dataclass(frozen=True)
class Attention:
    """Kernels (D, D) of the queries, keys, values and outputs, which have no biases.

    Attributes:
        relative: the tables (2 * most + 1, D / heads) of keys and values by distance, if any.
    """

    kernels: tuple[np.ndarray, ...]
    norm: Pair
    relative: Pair | None = None


@dataclasses.dataclass(frozen=True)
class FeedForward:
    """(kernel, bias) of the inner layer, (D, F) and (F,), and of the outer one."""

    inner: Pair
    outer: Pair
    norm: Pair


@dataclasses.dataclass(frozen=True)
class Stack:
    """The encoder or the decoder.

    Attributes:
        table: (V, D), the rows of the ids; row 0 is 0.
        positions: (P, D), what is added; the encoder's has the target space's vector too. None: the
            model has no positions there.
        layers: the sublayers of each layer: attention to itself, to the encoder, feed-forward.
        norm: of the outputs, where it is pre-norm.
    """

    table: np.ndarray
    positions: np.ndarray | None
    layers: list[list[Attention | FeedForward]]
    norm: Pair | None


@dataclasses.dataclass(frozen=True)
class Plain:
    """A model.

    Attributes:
        scale: what the rows of the tables are multiplied by.
        query_scale: what queries are multiplied by.
        softmax: (V, D), the rows whose products with the decoder's outputs are the logits.
    """

    heads: int
    pre_norm: bool
    epsilon: float
    scale: float
    query_scale: float
    encoder: Stack
    decoder: Stack
    softmax: np.ndarray

    @property
    def longest(self) -> int:
        """How many tokens a text may have."""
        tables = (self.encoder.positions, self.decoder.positions)
        return min([len(table) for table in tables if table is not None], default=10**6)


def read(model: keras.Model, program: str, relative: bool = False) -> Plain:
    """Returns a model as arrays, float32.

    Args:
        model: a trained `Transformer`.
        program: the program that computes it, for the error.
        relative: whether that supports relative positions.

    Raises:
        UserError: naming the hparams that make it another model.
    """
    _check(model, program, relative)
    hp = model.hparams
    per_head = hp.hidden_size // hp.num_heads
    unscaled = hp.attention_variables_3d or hp.attention_score == "dot_product"
    scale = float(np.float32(model.inputs_embedding.scale))
    source, positions = _table(model.inputs_embedding), _positions(model.inputs_position, hp)
    if isinstance(model.target_space, TargetSpaceEmbedding):
        space = _array(model.target_space.embeddings)[model.target_space.target_space_id]
        if positions is None:  # there is nothing to add the vector to but the rows themselves
            source = source + space / np.float32(scale)
        else:
            positions = positions + space
    return Plain(
        heads=hp.num_heads,
        pre_norm=_PRE_NORM[hp.layer_preprocess_sequence, hp.layer_postprocess_sequence],
        epsilon=hp.norm_epsilon,
        scale=scale,
        query_scale=1.0 if unscaled else per_head**-0.5,
        encoder=_stack(model.encoder, source, positions),
        decoder=_stack(
            model.decoder, _table(model.targets_embedding), _positions(model.targets_position, hp)
        ),
        softmax=_array(model.softmax.embeddings),
    )


def _check(model: keras.Model, program: str, relative: bool) -> None:
    if type(model) is not Transformer:  # what another computes is not known
        raise UserError(
            f"Expected a Transformer that {program} can compute. Received: a "
            f"{type(model).__name__}. Use --format=saved_model."
        )
    hp = model.hparams
    kind, width = hp.self_attention_type, hp.hidden_size
    sequences = hp.layer_preprocess_sequence, hp.layer_postprocess_sequence
    refused = {
        "layer_preprocess_sequence, layer_postprocess_sequence": sequences not in _PRE_NORM,
        "norm_type": hp.norm_type != "layer",
        "attention_key_channels": (hp.attention_key_channels or width) != width,
        "attention_value_channels": (hp.attention_value_channels or width) != width,
        "unidirectional_encoder": hp.unidirectional_encoder,
        "self_attention_type": kind not in ("dot_product", "dot_product_relative")[: 1 + relative],
        "attention_score": hp.attention_score not in DOT_PRODUCTS,
        "pos": hp.pos not in ("timing", "emb", "none", None),
        "self_attention_type, pos": kind == "dot_product_relative" and hp.pos in ("timing", "emb"),
    }
    names = [name for name, wrong in refused.items() if wrong]
    if names:
        values = ", ".join(f"{n}={getattr(hp, n)}" for name in names for n in name.split(", "))
        raise UserError(
            f"Expected a model that {program} can compute. Received: {values}. "
            "Use --format=saved_model."
        )


def _stack(stack: Any, table: np.ndarray, positions: np.ndarray | None) -> Stack:
    layers = [
        [_attention(layer.self_attention)]
        + ([_attention(layer.encdec_attention)] if hasattr(layer, "encdec_attention") else [])
        + [_feed_forward(layer.ffn)]
        for layer in stack.layers
    ]
    (*_, norm) = [None, *map(_norm, stack.preprocess.norms)]
    return Stack(table, positions, layers, norm)


def _positions(layer: keras.layers.Layer, hp: Any) -> np.ndarray | None:
    if isinstance(layer, LearnedPositions):
        return _array(layer.embeddings)
    if isinstance(layer, NoPositions):
        return None
    positions = np.arange(POSITIONS, dtype="float32")
    return ops.convert_to_numpy(timing_signal(positions, hp.hidden_size))


def _attention(sublayer: Any) -> Attention:
    layer = sublayer.layer
    if hasattr(layer, "query_key_value"):
        kernels = np.split(_array(layer.query_key_value), 3, axis=1)
    else:
        kernels = [_array(layer.query), *np.split(_array(layer.key_value), 2, axis=1)]
    relative = None
    if hasattr(layer, "relative_positions_keys"):
        relative = _array(layer.relative_positions_keys), _array(layer.relative_positions_values)
    output = _array(layer.output_transform)
    return Attention((*kernels, output), _norm_of(sublayer), relative)


def _feed_forward(sublayer: Any) -> FeedForward:
    denses = sublayer.layer.intermediate_dense, sublayer.layer.output_dense
    inner, outer = [(_array(dense.kernel), _array(dense.bias)) for dense in denses]
    return FeedForward(inner, outer, _norm_of(sublayer))


def _norm_of(sublayer: Any) -> Pair:
    return _norm([*sublayer.preprocess.norms, *sublayer.postprocess.norms][0])


def _norm(layer: Any) -> Pair:
    return _array(layer.scale), _array(layer.bias)


def _table(layer: Any) -> np.ndarray:
    table = _array(layer.embeddings).copy()
    table[0] = 0  # padding embeds to the zero vector, also where a translation contains it
    return table


def _array(variable: keras.Variable) -> np.ndarray:
    return ops.convert_to_numpy(variable.value).astype("float32")

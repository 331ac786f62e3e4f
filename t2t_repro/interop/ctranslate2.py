"""A trained model as a CTranslate2 model; ctranslate2_engine.py decodes with it.

CTranslate2's own sinusoids start at position 1 and interleave sine and cosine, so the position
table is written out; the vector of the target space, which is the same at every position of the
source, is added to it.
"""

import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.config import DOT_PRODUCTS
from t2t_repro.errors import UserError
from t2t_repro.files import naming, writing_folder
from t2t_repro.layers.embedding import TargetSpaceEmbedding
from t2t_repro.layers.position import LearnedPositions, NoPositions, timing_signal
from t2t_repro.models.transformer import Transformer
from t2t_repro.text.encoders import EOS, PAD
from t2t_repro.text.token_names import tokens_of

POSITIONS = 2048  # rows of the written position table, where the model computes its positions
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int16")
DETAILS = "t2t_repro.json"  # what CTranslate2 does not keep
_NORMS = {("none", "dan"): False, ("n", "da"): True}  # (pre, post) sequence: is it pre-norm


def export(
    model: keras.Model,
    encoders: dict[str, Any],
    path: str | os.PathLike,
    quantization: str = "float32",
    vocabularies: Iterable[str | os.PathLike] = (),
    accept: Callable[[pathlib.Path], None] = lambda folder: None,
) -> pathlib.Path:
    """Writes a CTranslate2 model; its folder appears when all of it is there.

    Args:
        model: a trained `Transformer`.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        path: the folder, new or empty.
        quantization: how the weights are stored, one of QUANTIZATIONS.
        vocabularies: files that are copied into the folder.
        accept: is called with the folder before it gets its name; what it raises refuses it.

    Returns:
        The folder.

    Raises:
        UserError: if CTranslate2 is not installed, or cannot compute this model.
    """
    ctranslate2 = library()
    check_quantization(quantization)
    spec = _specification(ctranslate2, model, encoders)
    details = {"positions": _positions_of(spec)}
    path = pathlib.Path(path).expanduser()
    with writing_folder(path) as unfinished, naming(path):
        spec.validate()
        spec.optimize(quantization=None if quantization == "float32" else quantization)
        spec.save(os.fspath(unfinished))
        for file in vocabularies:
            shutil.copy(file, unfinished)
        (unfinished / "hparams.json").write_text(model.hparams.to_json(), encoding="utf-8")
        (unfinished / DETAILS).write_text(json.dumps(details) + "\n", encoding="utf-8")
        accept(unfinished)
    return path


def library() -> Any:
    """Returns the module ctranslate2.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            "Expected the package ctranslate2. Received: none is installed. Install it by "
            "pip install 't2t_repro[ctranslate2]'."
        ) from error
    return ctranslate2


def check_quantization(name: str) -> None:
    """Refuses a name that is not in QUANTIZATIONS."""
    if name not in QUANTIZATIONS:
        raise UserError(
            f"Expected one of {', '.join(QUANTIZATIONS)} for CTranslate2. Received: {name!r}. "
            "Correct --quantize."
        )


def check(model: keras.Model) -> None:
    """Refuses a model that CTranslate2 cannot compute, with the reason.

    Raises:
        UserError: naming the hparams, or what they do not tell.
    """
    if type(model) is not Transformer:  # what another computes is not known
        raise UserError(
            "Expected a Transformer that CTranslate2 can compute, as it is. Received: a "
            f"{type(model).__name__}. Use --format=saved_model."
        )
    hp = model.hparams
    kind, width = hp.self_attention_type, hp.hidden_size
    sequences = hp.layer_preprocess_sequence, hp.layer_postprocess_sequence
    refused = {
        "layer_preprocess_sequence, layer_postprocess_sequence": sequences not in _NORMS,
        "norm_type": hp.norm_type != "layer",
        "attention_key_channels": (hp.attention_key_channels or width) != width,
        "attention_value_channels": (hp.attention_value_channels or width) != width,
        "unidirectional_encoder": hp.unidirectional_encoder,
        "self_attention_type": kind not in ("dot_product", "dot_product_relative"),
        "attention_score": hp.attention_score not in DOT_PRODUCTS,
        "pos": hp.pos not in ("timing", "emb", "none", None),
        "self_attention_type, pos": kind == "dot_product_relative" and hp.pos in ("timing", "emb"),
    }
    names = [name for name, wrong in refused.items() if wrong]
    if names:
        values = ", ".join(f"{n}={getattr(hp, n)}" for name in names for n in name.split(", "))
        raise UserError(
            "Expected a model that CTranslate2 can compute: post-norm (none, dan) or pre-norm "
            "(n, da) by layer normalization, heads that share hidden_size, dot products of all "
            f"pairs, and one kind of positions. Received: {values}. Use --format=saved_model."
        )


def _specification(ctranslate2: Any, model: keras.Model, encoders: dict[str, Any]) -> Any:
    check(model)
    hp = model.hparams
    arguments = {
        "pre_norm": _NORMS[hp.layer_preprocess_sequence, hp.layer_postprocess_sequence],
        "activation": ctranslate2.specs.Activation.RELU,
        "relative_position": hp.self_attention_type == "dot_product_relative",
    }
    specs = ctranslate2.specs
    encoder = specs.transformer_spec.TransformerEncoderSpec(
        hp.encoder_layers, hp.num_heads, **arguments
    )
    decoder = specs.transformer_spec.TransformerDecoderSpec(
        hp.decoder_layers, hp.num_heads, **arguments
    )
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = hp.norm_epsilon
    spec.config.bos_token = spec.config.unk_token = spec.config.decoder_start_token = PAD
    spec.config.eos_token = EOS
    decoder.start_from_zero_embedding = True
    scale = np.float32(model.inputs_embedding.scale)
    encoder.scale_embeddings = decoder.scale_embeddings = scale
    spec.register_source_vocabulary(
        tokens_of(encoders["inputs"], model.inputs_embedding.vocab_size)
    )
    spec.register_target_vocabulary(
        tokens_of(encoders["targets"], model.targets_embedding.vocab_size)
    )
    _Weights(model).fill(encoder, decoder)
    return spec


def _positions_of(spec: Any) -> int | None:
    """How many positions the model knows; None: as many as one likes."""
    table = getattr(spec.decoder, "position_encodings", None)
    return None if table is None else len(table.encodings)


class _Weights:
    """Puts a model's weights where CTranslate2 expects them: its matrices are (out, in)."""

    def __init__(self, model: keras.Model):
        self.model, self.hp = model, model.hparams

    def fill(self, encoder: Any, decoder: Any) -> None:
        model = self.model
        space, source = self._target_space(), _table(model.inputs_embedding)
        if isinstance(model.inputs_position, NoPositions) and space.any():
            # There is no position table to add the vector of the target space to.
            source = source + space / np.float32(model.inputs_embedding.scale)
        encoder.embeddings[0].weight = source
        decoder.embeddings.weight = _table(model.targets_embedding)
        decoder.projection.weight = _array(model.softmax.embeddings)
        relative = self.hp.self_attention_type == "dot_product_relative"
        if not relative:
            has_positions = not isinstance(model.inputs_position, NoPositions)
            encoder.position_encodings.encodings = (
                self._positions(model.inputs_position) + space * has_positions
            ).astype("float32")
            decoder.position_encodings.encodings = self._positions(model.targets_position)
        for stack, part in ((model.encoder, encoder), (model.decoder, decoder)):
            for layer, spec in zip(stack.layers, part.layer, strict=True):
                self._attention(layer.self_attention, spec.self_attention, relative)
                if hasattr(layer, "encdec_attention"):
                    self._attention(layer.encdec_attention, spec.attention)
                self._feed_forward(layer.ffn, spec.ffn)
            for norm in stack.preprocess.norms:
                _set_norm(part.layer_norm, norm)

    def _target_space(self) -> np.ndarray:
        space = self.model.target_space
        if not isinstance(space, TargetSpaceEmbedding):
            return np.zeros(self.hp.hidden_size, "float32")
        return _array(space.embeddings)[space.target_space_id]

    def _positions(self, layer: keras.layers.Layer) -> np.ndarray:
        if isinstance(layer, LearnedPositions):
            return _array(layer.embeddings)
        if isinstance(layer, NoPositions):
            return np.zeros((POSITIONS, self.hp.hidden_size), "float32")
        positions = np.arange(POSITIONS, dtype="float32")
        return ops.convert_to_numpy(timing_signal(positions, self.hp.hidden_size))

    def _attention(self, sublayer: Any, spec: Any, relative: bool = False) -> None:
        layer = sublayer.layer
        if hasattr(layer, "query_key_value"):
            kernels = [layer.query_key_value, layer.output_transform]
        else:
            kernels = [layer.query, layer.key_value, layer.output_transform]
        for linear, kernel in zip(spec.linear, kernels, strict=True):
            linear.weight = _array(kernel).T.copy()
        if self.hp.attention_variables_3d or self.hp.attention_score == "dot_product":
            spec.queries_scale = np.float32(1)
        if relative:
            spec.relative_position_keys = _array(layer.relative_positions_keys)
            spec.relative_position_values = _array(layer.relative_positions_values)
        self._norm(sublayer, spec)

    def _feed_forward(self, sublayer: Any, spec: Any) -> None:
        layer = sublayer.layer
        denses = (layer.intermediate_dense, layer.output_dense)
        for linear, dense in zip((spec.linear_0, spec.linear_1), denses, strict=True):
            linear.weight = _array(dense.kernel).T.copy()
            linear.bias = _array(dense.bias)
        self._norm(sublayer, spec)

    def _norm(self, sublayer: Any, spec: Any) -> None:
        norms = [*sublayer.preprocess.norms, *sublayer.postprocess.norms]
        _set_norm(spec.layer_norm, norms[0])


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.scale), _array(norm.bias)


def _table(layer: Any) -> np.ndarray:
    table = _array(layer.embeddings).copy()
    table[0] = 0  # padding embeds to the zero vector, also where a translation contains it
    return table


def _array(variable: keras.Variable) -> np.ndarray:
    return ops.convert_to_numpy(variable.value).astype("float32")

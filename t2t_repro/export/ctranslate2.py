"""A trained model as a CTranslate2 model; decoding/ctranslate2_engine.py decodes with it.

CTranslate2's own sinusoids start at position 1 and interleave sine and cosine, so the position
table is written out; the vector of the target space, which is the same at every position of the
source, is added to it.
"""

import importlib.resources
import json
import os
import pathlib
import string
from typing import Any

import keras
import numpy as np

from t2t_repro import provenance, registry
from t2t_repro.decoding.ctranslate2_engine import DETAILS, CTranslate2Engine, library
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.export import plain
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.text.encoders import EOS, PAD
from t2t_repro.text.transfer import tokens_of

USE = "Decode with it: t2t-decoder --engine=ctranslate2 --engine_dir={path}"
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int16")


def check(request: ExportRequest) -> None:
    """Refuses a machine without CTranslate2.

    Raises:
        UserError: naming it.
    """
    library()


def write(job: ExportJob) -> None:
    """Writes the CTranslate2 model, and README.md with a call of it.

    Raises:
        UserError: if CTranslate2 cannot compute it.
    """
    convert(job.model, job.run.encoders, job.folder, job.request.quantize)
    text = importlib.resources.files(__package__).joinpath("ctranslate2_readme.md").read_text()
    shared = (job.folder / "shared_vocabulary.json").exists()
    package = job.run.config.t2t_usr_dir
    load = f"from t2t_repro.interop.usr_dir import load\n\nload({package!r})\n"
    filled = string.Template(text).substitute(
        package=load if package else "",
        folder=job.request.export_dir,
        problem=job.run.config.problem,
        beams=job.settings.beam_size,
        alpha=job.settings.alpha if job.settings.beam_size > 1 else 0,
        longer=1 + job.settings.extra_length,  # the end counts
        names='"shared", "shared"' if shared else '"source", "target"',
    )
    (job.folder / "README.md").write_text(filled, encoding="utf-8")


def convert(
    model: keras.Model,
    encoders: dict[str, Any],
    folder: str | os.PathLike,
    quantization: str = "float32",
) -> None:
    """Writes a CTranslate2 model into a folder.

    Args:
        model: a trained `Transformer`.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        folder: where to.
        quantization: how the weights are stored, one of QUANTIZATIONS.

    Raises:
        UserError: if CTranslate2 is not installed, or cannot compute this model.
    """
    spec = _specification(library(), model, encoders)
    table = getattr(spec.decoder, "position_encodings", None)
    positions = None if table is None else len(table.encodings)  # None: as many as one likes
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    os.makedirs(folder, exist_ok=True)
    spec.save(os.fspath(folder))
    details = json.dumps({"positions": positions})
    pathlib.Path(folder, DETAILS).write_text(f"{details}\n", encoding="utf-8")


def translate(
    folder: pathlib.Path, problem: str, settings: DecodeHParams, texts: list[str]
) -> provenance.Translations:
    """Returns the best translation of each text by an export, which has its vocabulary."""
    encoders = registry.get_problem(problem).feature_encoders(os.fspath(folder))
    return provenance.translations(CTranslate2Engine(folder), encoders, settings, texts)


def _specification(ctranslate2: Any, model: keras.Model, encoders: dict[str, Any]) -> Any:
    found = plain.read(model, "CTranslate2", relative=True)
    hp = model.hparams
    relative = hp.self_attention_type == "dot_product_relative"
    arguments = {
        "pre_norm": found.pre_norm,
        "activation": ctranslate2.specs.Activation.RELU,
        "relative_position": relative,
    }
    specs = ctranslate2.specs.transformer_spec
    encoder = specs.TransformerEncoderSpec(hp.encoder_layers, hp.num_heads, **arguments)
    decoder = specs.TransformerDecoderSpec(hp.decoder_layers, hp.num_heads, **arguments)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = found.epsilon
    spec.config.bos_token = spec.config.unk_token = spec.config.decoder_start_token = PAD
    spec.config.eos_token, spec.config.add_source_eos = EOS, True
    decoder.start_from_zero_embedding = True
    encoder.scale_embeddings = decoder.scale_embeddings = np.float32(found.scale)
    spec.register_source_vocabulary(tokens_of(encoders["inputs"], len(found.encoder.table)))
    spec.register_target_vocabulary(tokens_of(encoders["targets"], len(found.decoder.table)))
    encoder.embeddings[0].weight = found.encoder.table
    decoder.embeddings.weight = found.decoder.table
    decoder.projection.weight = found.softmax
    for stack, part in ((found.encoder, encoder), (found.decoder, decoder)):
        if not relative:  # CTranslate2 wants a table there
            none = np.zeros((plain.POSITIONS, hp.hidden_size), "float32")
            positions = none if stack.positions is None else stack.positions
            part.position_encodings.encodings = positions.astype("float32")
        for layer, target in zip(stack.layers, part.layer, strict=True):
            for sublayer, name in zip(layer, _PARTS[len(layer)], strict=True):
                _fill(getattr(target, name), sublayer, found.query_scale == 1)
        if stack.norm:
            part.layer_norm.gamma, part.layer_norm.beta = stack.norm
    return spec


# What CTranslate2 calls the sublayers of a layer that has so many.
_PARTS = {2: ("self_attention", "ffn"), 3: ("self_attention", "attention", "ffn")}


def _fill(target: Any, sublayer: plain.Attention | plain.FeedForward, unscaled: bool) -> None:
    """Puts weights where CTranslate2 expects them: its matrices are (out, in)."""
    if isinstance(sublayer, plain.FeedForward):
        for linear, (kernel, bias) in zip(
            (target.linear_0, target.linear_1), (sublayer.inner, sublayer.outer), strict=True
        ):
            linear.weight, linear.bias = kernel.T.copy(), bias
    else:
        query, key, value, output = sublayer.kernels
        joined = [[query, key, value], [output]]
        if len(target.linear) == 3:  # queries come from elsewhere than keys and values
            joined = [[query], [key, value], [output]]
        for linear, kernels in zip(target.linear, joined, strict=True):
            linear.weight = np.concatenate(kernels, axis=1).T.copy()
        if unscaled:
            target.queries_scale = np.float32(1)
        if sublayer.relative:
            target.relative_position_keys, target.relative_position_values = sublayer.relative
    target.layer_norm.gamma, target.layer_norm.beta = sublayer.norm

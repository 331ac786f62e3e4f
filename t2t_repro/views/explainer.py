"""A trained Transformer as one page that computes: its weights, the forward pass and the search.

The page's parts lie in `explainer/` beside this file. Here they are joined with a run's weights and
get a Content-Security-Policy that lets its own script and style run, and nothing else at all.
"""

import base64
import html
import importlib.resources
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_repro.config import HParams
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.page_policy import page_policy
from t2t_repro.runs import is_transformer
from t2t_repro.text import SubwordTextEncoder

if TYPE_CHECKING:
    from t2t_repro.models.transformer import Transformer

MOST_PARAMETERS = 10_000_000
STEPS = 32767  # a weight is a whole number of so many steps of its row's largest

_SCRIPTS = ("tokenizer.js", "model.js", "search.js", "views.js")
_SETTINGS = (
    *("hidden_size", "num_heads", "filter_size", "encoder_layers", "decoder_layers"),
    *("layer_preprocess_sequence", "layer_postprocess_sequence"),
    *("norm_type", "norm_epsilon", "pos"),
)
_TABLE = re.compile(r"symbol_modality_\d+_\d+/(\w+)/weights_\d+")


def page(
    model: "Transformer",
    encoders: Mapping[str, Any],
    title: str,
    text: str,
    settings: DecodeHParams,
) -> str:
    """Returns the page.

    Args:
        model: a trained one.
        encoders: those of its "inputs" and "targets".
        title: above the page.
        text: the sentence that it begins with.
        settings: how it decodes at first.

    Raises:
        UserError: if the page cannot compute such a model, or it is too large.
    """
    from t2t_repro.layers.embedding import inverse_timescales

    check(model.hparams, model.count_params(), encoders)
    arrays, shared = _arrays(model)
    rows = {name: array.reshape(-1, array.shape[-1]) for name, array in arrays.items()}
    scales = {n: np.maximum(np.abs(a).max(1), 1e-30).astype("<f4") / STEPS for n, a in rows.items()}
    whole = [np.rint(array / scales[name][:, None]).astype("<i2") for name, array in rows.items()]
    hparams = model.hparams
    count = hparams.hidden_size // 2
    content = {
        "config": {name: getattr(hparams, name) for name in _SETTINGS}
        | {
            "embedding_scale": model.inputs_embedding.scale,
            "scaled": not hparams.attention_variables_3d,
            "timescales": [float(value) for value in inverse_timescales(count)],
        },
        "arrays": [[name, *array.shape] for name, array in rows.items()],
        "shared": shared,
        "scales": _encoded(np.concatenate(list(scales.values()))),
        "weights": _encoded(np.concatenate([array.ravel() for array in whole])),
        "subwords": list(encoders["inputs"].all_subtoken_strings),
        "parameters": model.count_params(),
        **{name: getattr(settings, name) for name in ("beam_size", "alpha", "extra_length")},
    }
    parts = importlib.resources.files(__package__).joinpath("explainer")
    names = ("page.html", "style.css", *_SCRIPTS)
    template, style, *scripts = (parts.joinpath(n).read_text(encoding="utf-8") for n in names)
    template = filled(template, {"STYLE": style, "SCRIPT": "\n".join(scripts)})
    name = html.escape(title)
    values = {"POLICY": page_policy(template), "TITLE": name, "NAME": name, "DATA": data(content)}
    return filled(template, values | {"TEXT": html.escape(text)})


def data(content: dict) -> str:
    """Returns JSON for a script element.

    Only "</script" and "<!--" mean something there: without "<" there is neither.
    """
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", r"\u003c")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns a page with each @NAME@ of `values` replaced, in one pass: a sentence stays one."""
    return re.sub("@(" + "|".join(values) + ")@", lambda match: values[match[1]], text)


def check(hparams: HParams, parameters: int, encoders: Mapping[str, Any]) -> None:
    """Refuses a model that the page cannot compute. It loads nothing heavy.

    Args:
        hparams: the model's.
        parameters: how many it has.
        encoders: those of its "inputs" and "targets".

    Raises:
        UserError: naming the reasons.
    """
    if not is_transformer(hparams.model):
        raise UserError(f"Expected a Transformer for --explain. Received: model={hparams.model}.")
    supported = {
        "norm_type": ("layer", "none"),
        "pos": ("timing", "none", None),
        "self_attention_type": ("dot_product",),
        "attention_score": ("scaled_dot_product",),
        "unidirectional_encoder": (False,),
        "attention_key_channels": (0, None, hparams.hidden_size),
        "attention_value_channels": (0, None, hparams.hidden_size),
    }
    has = {name: getattr(hparams, name) for name in supported}
    wrong = [f"{name}={value}" for name, value in has.items() if value not in supported[name]]
    if "z" in hparams.layer_preprocess_sequence + hparams.layer_postprocess_sequence:
        wrong.append("a z (gate) in layer_preprocess_sequence or layer_postprocess_sequence")
    if parameters > MOST_PARAMETERS:
        wrong.append(f"{parameters:,} parameters, more than {MOST_PARAMETERS:,}")
    inputs, targets = encoders["inputs"], encoders["targets"]
    same = getattr(inputs, "all_subtoken_strings", 0) == getattr(targets, "all_subtoken_strings", 1)
    if not isinstance(inputs, SubwordTextEncoder) or not same:
        wrong.append("no subword vocabulary that both languages share")
    if wrong:
        raise UserError(
            f"Expected a model that --explain can compute. Received: {'; '.join(wrong)}."
        )


def _arrays(model: "Transformer") -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Returns float32 arrays under the page's names, and {name: of which other it is the same}."""
    from t2t_repro.interop import tensor2tensor

    arrays: dict[str, np.ndarray] = {}
    shards: dict[str, list[np.ndarray]] = {}
    for name, array in tensor2tensor.export_variables(model).items():
        short = name.removeprefix("transformer/")
        if found := _TABLE.fullmatch(short):
            shards.setdefault(found[1], []).append(array)
        elif short == "body/target_space_embedding/kernel":
            arrays["target_space"] = array[model.target_space_id]
        else:
            arrays[short.removeprefix("body/")] = array
    tables = {name: np.concatenate(parts) for name, parts in shards.items()}
    both = tables.get("shared")
    inputs, targets = tables.get("input_emb", both), tables.get("target_emb", both)
    places = {"inputs_embedding": inputs, "targets_embedding": targets}
    places["softmax"] = tables.get("softmax", targets)
    shared: dict[str, str] = {}
    for name, table in places.items():
        if other := next((n for n in places if n in arrays and places[n] is table), None):
            shared[name] = other
        else:
            assert table is not None
            arrays[name] = table
    return arrays, shared


def _encoded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")

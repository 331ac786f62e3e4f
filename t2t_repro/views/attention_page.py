"""The attention of one pair of sentences as one HTML file that loads nothing.

The page itself is attention_page.html beside this file; here it gets its data and a
Content-Security-Policy that lets its own script and style run, and nothing else at all.
"""

import base64
import html
import importlib.resources
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_repro.files import write_text_atomic
from t2t_repro.models.transformer import Transformer
from t2t_repro.page_policy import page_policy
from t2t_repro.views.attention import LOOKS_AT, Head, Maps, heads, maps, sentence_ids
from t2t_repro.views.explainer import data, filled

STEPS = 65535  # weights are stored as 16-bit shares of 1


def page(maps: Sequence[Maps], heads: Sequence[Head], title: str) -> str:
    """Returns the page.

    Args:
        maps: those of attention.maps.
        heads: attention.heads of each.
        title: above the page.
    """
    template = importlib.resources.files(__package__).joinpath("attention_page.html")
    text = template.read_text(encoding="utf-8")
    content = {
        "maps": [_stored(each) for each in maps],
        "heads": [
            {k: round(v, 4) if isinstance(v, float) else v for k, v in vars(head).items()}
            for head in heads
        ],
    }
    words = {each.kind: each for each in maps}
    sides: dict[str, list[str]] = {"SOURCE": [], "TARGET": []}
    if "encoder-decoder" in words:
        both = words["encoder-decoder"]
        sides = {"SOURCE": list(both.keys), "TARGET": list(both.queries)}
    values = {
        "POLICY": page_policy(text),
        "TITLE": html.escape(title),
        "LOOKS_AT": f"{LOOKS_AT:g}",
        "DATA": data(content),
        **{name: html.escape(" ".join(tokens)) for name, tokens in sides.items()},
    }
    return filled(text, values)


def write_attention_page(
    model: Transformer,
    path: str | os.PathLike,
    source: str,
    encoder: Any,
    *,
    target: str | None = None,
    targets_encoder: Any = None,
) -> None:
    """Writes the page of what a model looks at as it translates a sentence.

    Args:
        model: a trained one.
        path: the HTML file.
        source: the sentence.
        encoder: `encode` makes ids of text, `decode` text of ids.
        target: its translation; None: the model's own.
        targets_encoder: that of the targets; None: the same.

    Raises:
        UserError: if there are no words, or too many, or the model never has whole weights.
    """
    encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
    found = maps(model, encoders, *sentence_ids(model, encoders, source, target))
    shares = [head for each in found for head in heads(each)]
    write_text_atomic(path, page(found, shares, f"What {model.name} attends to"))


def _stored(each: Maps) -> dict:
    layers, heads = each.weights.shape[:2]
    shares = np.rint(np.clip(each.weights, 0, 1) * STEPS).astype("<u2")
    return {
        "kind": each.kind,
        "title": each.title,
        "layers": layers,
        "heads": heads,
        "queries": list(each.queries),
        "keys": list(each.keys),
        "weights": base64.b64encode(shares.tobytes()).decode("ascii"),
    }

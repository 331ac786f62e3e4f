"""What the server answers, in OpenAPI 3.1 (https://spec.openapis.org), and as a page of it."""

import html
import json
import shlex
from collections.abc import Sequence
from typing import Any

from t2t_repro import __version__
from t2t_repro.decoding.settings import LARGEST_ALPHA
from t2t_repro.serving.guards import Guard
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.requests import Limits

_Object = dict[str, Any]
_TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_OTHERS = {"type": "array", "items": {"type": ["string", "array"]}}
_NUMBER, _STRING = {"type": "number"}, {"type": "string"}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { padding: .5rem; overflow: auto; border: 1px solid #8886; }
table { border-collapse: collapse; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
"""


def describe(models: Sequence[ServedModel], limits: Limits) -> _Object:
    """Returns the description of a server of these models and limits."""
    first = models[0]
    source, target = _example(first)
    name = _value("string", enum=[served.name for served in models], default=first.name)
    most = max(served.model.beam_size for served in models)
    sentence = {
        "input": _STRING,
        "translation": _STRING,
        "score": {"type": ["number", "null"]},
        "n_best": _array({"translation": _STRING, "score": {"type": ["number", "null"]}}),
        "flags": {"type": "array", "items": _value("string", enum=list(Guard))},
    }
    translate = {
        "inputs": _TEXTS,
        "n_best": _value("integer", minimum=1, maximum=most, default=1),
        "alpha": _value("number", minimum=0, maximum=LARGEST_ALPHA),
        "split": _value("boolean", default=True),
        "model": name,
    }
    weights = {"type": "array", "items": {"type": "array", "items": _NUMBER}}
    tokens = {"type": "array", "items": _STRING}
    looked = {"input": _STRING, "translation": _STRING, "weights": weights}
    looked |= {"source_tokens": tokens, "target_tokens": tokens}
    pair = {"inputs": _STRING, "targets": _STRING, "model": name}
    languages = {"code": _STRING, "name": _STRING, "targets": tokens}
    guess = {"language": _STRING, "confidence": _NUMBER}
    guesses = {"oneOf": [_object(guess, *guess), _array(guess)]}
    libre = {"translatedText": _TEXTS, "alternatives": _OTHERS, "detectedLanguage": guesses}
    paths = {
        "/translate": _post(
            f"Translates texts, each line of them sentence by sentence; {limits.max_sentences} "
            'sentences at most. With "q" the body is one of LibreTranslate\'s, JSON or a form.',
            {"anyOf": [_object(translate, "inputs"), _libre()]},
            {
                "anyOf": [
                    _object(
                        {"translations": _array({**sentence, "sentences": _array(sentence)})},
                        "translations",
                    ),
                    _object(libre, "translatedText"),
                ]
            },
            {"inputs": source},
        ),
        "/attention": _post(
            "What each token of a translation looks at: one weight for each source token, the mean "
            "over the heads of the last decoder layer.",
            _object(pair, "inputs", "targets"),
            _object(looked, *looked),
            {"inputs": source, "targets": target},
        ),
        "/detect": _post(
            "In which of the served languages a text is, the likeliest first, in percent; as "
            "LibreTranslate answers, JSON or a form. Of a text without letters: nothing.",
            _object({"q": _STRING}, "q"),
            _array(guess),
            {"q": source},
        ),
        "/languages": _get("What is translated into what, as LibreTranslate says it.", languages),
        "/healthz": _get(
            "Whether it works: 200, or 503 when it stops; the limits, and of each model the "
            "languages, hash, beams, problem and step.",
            None,
        ),
        "/metrics": _get("Metrics for Prometheus.", None, "text/plain"),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "t2t_repro",
            "version": __version__,
            "description": "A translation server. Models: "
            + ", ".join(served.name for served in models)
            + ".",
        },
        "paths": paths,
    }


def _example(served: ServedModel) -> tuple[str, str]:
    """Returns a sentence and its translation: one of the model's record, or any."""
    found = served.record and served.record.example
    return (found.source, found.translation) if found else ("A dog runs.", "Ein Hund rennt.")


def page(description: _Object, address: str) -> str:
    """Returns a description as HTML: a section for each path, with a call by curl.

    Args:
        description: as `describe` returns it.
        address: of the server, without a slash at its end.
    """
    info = description["info"]
    sections = [
        _section(path, method.upper(), operation, address)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<title>{html.escape(info["title"])}: paths</title><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><h1>Paths</h1>"
        f"<p>{html.escape(info['description'])} Errors are "
        '<code>{"error": "..."}</code>. <a href="openapi.json">openapi.json</a> says this to '
        f'programs; <a href="./">here</a> is a page to type text.</p>{"".join(sections)}'
        "</body></html>\n"
    )


def _section(path: str, method: str, operation: _Object, address: str) -> str:
    """Returns the HTML of one operation."""
    call, rows = f"curl {address}{path}", ""
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        call += " -d " + shlex.quote(json.dumps(content["example"], ensure_ascii=False))
        for schema in content["schema"].get("anyOf", [content["schema"]]):
            fields = "".join(
                f"<tr><td><code>{name}</code></td><td>{html.escape(_said(of))}"
                f"{', required' if name in schema['required'] else ''}</td></tr>"
                for name, of in schema["properties"].items()
            )
            rows += f"<table>{fields}</table>"
    return (
        f"<h2><code>{method} {path}</code></h2><p>{html.escape(operation['summary'])}</p>{rows}"
        f"<pre>{html.escape(call)}</pre>"
    )


def _said(schema: _Object) -> str:
    """Returns a field's type and bounds in words."""
    if "oneOf" in schema:
        return "string or list of strings"
    said = str(schema["type"])
    said += f", one of {', '.join(map(str, schema['enum']))}" if "enum" in schema else ""
    said += f", {schema['minimum']} to {schema['maximum']:g}" if "maximum" in schema else ""
    return said + (f"; default {json.dumps(schema['default'])}" if "default" in schema else "")


def _libre() -> _Object:
    """Returns the schema of LibreTranslate's /translate."""
    fields = {
        "q": _TEXTS,
        "source": _STRING,
        "target": _STRING,
        "alternatives": _value("integer", minimum=0, maximum=99, default=0),
        "format": _value("string", enum=["text"], default="text"),
    }
    return _object(fields, "q", "source", "target")


def _value(kind: str, **more: Any) -> _Object:
    return {"type": kind, **more}


def _object(properties: _Object, *required: str) -> _Object:
    return {"type": "object", "properties": properties, "required": list(required)}


def _array(properties: _Object) -> _Object:
    return {"type": "array", "items": _object(properties, *properties)}


def _answers(schema: _Object | None, media: str = "application/json") -> _Object:
    """Returns the answers of an operation: that of a schema, and errors."""
    error = _object({"error": _STRING}, "error")
    return {
        "200": {"description": "The answer.", "content": {media: {"schema": schema or {}}}},
        "default": {
            "description": "An error: what was expected, what was received, what to do.",
            "content": {"application/json": {"schema": error}},
        },
    }


def _get(summary: str, of: _Object | None, media: str = "application/json") -> _Object:
    """Returns a path that is read; `of` are the properties of the objects that it lists."""
    return {"get": {"summary": summary, "responses": _answers(of and _array(of), media)}}


def _post(summary: str, body: _Object, answer: _Object, example: _Object) -> _Object:
    """Returns a path that takes a JSON body."""
    content = {"application/json": {"schema": body, "example": example}}
    request = {"required": True, "content": content}
    return {"post": {"summary": summary, "requestBody": request, "responses": _answers(answer)}}

"""The README.md of a SavedModel: what it answers, with a call of each signature.

The text is saved_model_readme.md beside this file; here it gets its values.
"""

import base64
import importlib.resources
import json
import pathlib
import shlex
from typing import Any

import tensorflow as tf

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.text.encoders import EOS_ID

EXAMPLE = "A man is sleeping.", "Ein Mann schläft."  # where no sentence of the model's is known
_ATTENTION = """\
- `attention`: `inputs` and `targets` as for `score`. Gives `source_tokens`, string [batch, source],
  and `target_tokens`, string [batch, target], as the vocabulary spells them, padded with "";
  `attention`, float32 [batch, target, source]: which source tokens the last decoder layer looks at
  where it predicts a target token, the mean over its heads; 0 at padding.
"""
_ATTENTION_CALL = """\
print(translator["attention"](inputs=texts, targets=translations)["attention"])
"""
_CALL = """\
```bash
curl http://localhost:8501/v1/models/translate:predict -d {}
```
"""


def readme(
    path: pathlib.Path,
    served: Any,
    encoder: Any,
    settings: DecodeHParams,
    storage: str,
    t2t_serving: bool,
    example: tuple[str, str],
) -> str:
    """Returns the text.

    Args:
        path: the folder.
        served: the `Served` that was written.
        encoder: of the inputs.
        settings: how to decode.
        storage: the type in which the weights are kept.
        t2t_serving: whether tensor2tensor's signature is the default one.
        example: a sentence and its translation.
    """
    ids, draws = [*encoder.encode(example[0]), EOS_ID], "attention" in served.names
    source, target = (json.dumps(text, ensure_ascii=False) for text in example)
    bodies = [body for body in _bodies(ids, *example) if body["signature_name"] in served.names]
    calls = [_CALL.format(shlex.quote(json.dumps(body, ensure_ascii=False))) for body in bodies]
    text = importlib.resources.files(__package__).joinpath("saved_model_readme.md")
    return text.read_text(encoding="utf-8").format(
        alpha=settings.alpha,
        attention=_ATTENTION if draws else "",
        attention_call=_ATTENTION_CALL if draws else "",
        beam_size=settings.beam_size,
        calls="\n".join(calls),
        default="tf_example" if t2t_serving else "text",
        expression=shlex.quote(f"inputs=[{source}]"),
        extra_length=settings.extra_length,
        ids=ids,
        longest=served.longest,
        or_attention=" or `attention`" if draws else "",
        path=path.resolve(),
        source=source,
        storage=storage,
        target=target,
        tensorflow=tf.__version__,
        version=path.name if path.name.isdecimal() else 1,
    )


def _bodies(ids: list[int], source: str, target: str) -> list[dict[str, Any]]:
    """What a client posts: for each signature one request by rows and one by columns."""
    example = tf.train.Example()
    example.features.feature["inputs"].int64_list.value.extend(ids)
    serialized = {"b64": base64.b64encode(example.SerializeToString()).decode()}
    rows: dict[str, dict[str, Any]] = {
        "text": {"inputs": source},
        "best": {"inputs": source},
        "score": {"inputs": source, "targets": target},
        "attention": {"inputs": source, "targets": target},
        "tf_example": {"input": serialized},
    }
    bodies: list[dict[str, Any]] = []
    for name, row in rows.items():
        bodies.append({"signature_name": name, "instances": [row]})
        columns = {key: [value] for key, value in row.items()}
        bodies.append({"signature_name": name, "inputs": columns})
    return bodies

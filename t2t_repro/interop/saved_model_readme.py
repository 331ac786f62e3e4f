"""The README.md of a SavedModel: what it answers, with a call of each signature."""

import base64
import json
import pathlib
from typing import Any

import tensorflow as tf

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.text.encoders import EOS_ID

_SOURCE, _TARGET = "A man is sleeping.", "Ein Mann schläft."
_TEXT = """\
# A translator

A SavedModel of tensor2tensor's Transformer: text in, text out. `hparams.json` says what the model
is, `decode_hparams.json` how it searches; both, and the vocabulary beside them, are for reference:
all of it is in the graph. The weights are kept in {storage}; what is computed is the same type as
when the model was trained.

A score is the log-probability divided by the length penalty ((5 + tokens) / 6) ** alpha; greedy
search (beam_size=1) does not divide. A beam of which there is none is empty and scores -1e7. The
search keeps {beam_size} beams: its arrays are that wide, so another beam size is another export.

- `text`: `inputs`, string [batch]. Gives `outputs`, string [batch], the best translations;
  `scores`, float32 [batch]; `beams`, string [batch, {beam_size}], best first; `beam_scores`,
  float32 [batch, {beam_size}].
- `translate`: `inputs`, string [batch]; `alpha`, float32 [batch], from 0 to 10; `extra_length`,
  int32 [batch], from 0 to {most_extra}; one value does for all texts. Gives the same.
- `tokens`: `inputs`, string [batch]. Gives `tokens`, int32 [batch]: how many, with the end.
- `target_tokens`: `targets`, string [batch], translations. Gives `tokens`, int32 [batch], too.
- `token_ids`: `inputs`, int32 [batch, length], each row ended by 1; what stands behind is padding.
  Gives `ids`, int32 [batch, {beam_size}, length], ended by 1 and padded with 0; `scores`, float32
  [batch, {beam_size}].
- `score`: `inputs`, string [batch]; `targets`, string [batch], their translations. Gives
  `log_probs`, float32 [batch], the sum over the tokens; `tokens`, int32 [batch], with the end;
  `mean_negative_log_likelihoods`, float32 [batch]; `token_log_probs`, float32 [batch, length],
  those of each token, padded with 0.
{attention}\
- `tf_example`: `input`, string [batch], each a serialized `tf.Example` with the int64 feature
  `inputs`: ids, the last 1. Gives `outputs`, int32 [batch, length], the best ids, padded with 0;
  `scores`, float32 [batch].

`serving_default` is `{default}`. Where no alpha is asked for it is {alpha}, and a translation has
at most {extra_length} tokens more than its source. An empty text has an empty translation. A text
of more than {longest} tokens is cut. What is refused, by InvalidArgument or HTTP's status 400: such
a text in `score`{or_attention}, ids that are not in the vocabulary, an alpha or extra_length out
of its range.

`tf_example` is the signature of tensor2tensor's own exports, which is their `serving_default`: its
clients name none. `t2t-exporter --t2t_serving` makes it the default, so that they work unchanged.

## Python

Needs tensorflow and tensorflow-text of one minor version. This was written by {tensorflow};
what 2.21 wrote has been tried in 2.19, and in nothing older.

```python
import tensorflow as tf
import tensorflow_text  # its operations are in the graph

translator = tf.saved_model.load("{path}").signatures
texts = tf.constant([{source}])
result = translator["text"](inputs=texts)
print(result["outputs"][0].numpy().decode())

result = translator["translate"](
    inputs=texts, alpha=tf.constant([1.0]), extra_length=tf.constant([20])
)
for text, score in zip(result["beams"][0].numpy(), result["beam_scores"][0].numpy()):
    print(score, text.decode())

print(translator["tokens"](inputs=texts)["tokens"])
print(translator["target_tokens"](targets=tf.constant([{target}]))["tokens"])
print(translator["token_ids"](inputs=tf.constant([{ids}]))["ids"])

translations = tf.constant([{target}])
print(translator["score"](inputs=texts, targets=translations)["log_probs"])
{attention_call}\

example = tf.train.Example()
example.features.feature["inputs"].int64_list.value.extend({ids})
print(translator["tf_example"](input=tf.constant([example.SerializeToString()]))["outputs"])
```

## saved_model_cli

It does not know tensorflow-text, which therefore is imported first:

```bash
CLI='import tensorflow_text; from tensorflow.python.tools import saved_model_cli as c; c.main()'
python -c "$CLI" run --dir "{path}" --tag_set serve --signature_def text \\
    --input_exprs 'inputs=[{source}]'
```

`show --dir "{path}" --all` in the place of `run ...` lists the signatures.

## TensorFlow Serving

In this folder; the number is the version that is served. The image must have tensorflow-text's
operations, as the official ones do. Requests are joined to batches by the file `batching`; without
the last line and the two options each is answered by itself.

```bash
cat > batching <<END
max_batch_size {{ value: 64 }}
batch_timeout_micros {{ value: 5000 }}
pad_variable_length_inputs: true
END
docker run --rm -p 8501:8501 -v "$PWD":/models/translate/{version} -e MODEL_NAME=translate \\
    -v "$PWD/batching":/batching tensorflow/serving \\
    --enable_batching --batching_parameters_file=/batching
```

In a batch each request has one value of `alpha` for each of its texts; and one that is refused
takes those that it was joined with along.

## curl

"instances" has a row for each text and answers with "predictions", a row for each; "inputs" has a
column for each input and answers with "outputs", a column for each.

{calls}"""
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
curl http://localhost:8501/v1/models/translate:predict -d '{}'
```
"""


def readme(
    path: pathlib.Path,
    served: Any,
    encoder: Any,
    settings: DecodeHParams,
    storage: str,
    t2t_serving: bool,
) -> str:
    """Returns the text.

    Args:
        path: the folder.
        served: the `Served` that was written.
        encoder: of the inputs.
        settings: how to decode.
        storage: the type in which the weights are kept.
        t2t_serving: whether tensor2tensor's signature is the default one.
    """
    ids, draws = [*encoder.encode(_SOURCE), EOS_ID], "attention" in served.names
    bodies = [body for body in _bodies(ids) if body["signature_name"] in served.names]
    calls = [_CALL.format(json.dumps(body, ensure_ascii=False)) for body in bodies]
    return _TEXT.format(
        alpha=settings.alpha,
        attention=_ATTENTION if draws else "",
        attention_call=_ATTENTION_CALL if draws else "",
        beam_size=settings.beam_size,
        calls="\n".join(calls),
        default="tf_example" if t2t_serving else "text",
        extra_length=settings.extra_length,
        ids=ids,
        longest=served.longest,
        most_extra=served.most_extra,
        or_attention=" or `attention`" if draws else "",
        path=path.resolve(),
        source=json.dumps(_SOURCE),
        storage=storage,
        target=json.dumps(_TARGET, ensure_ascii=False),
        tensorflow=tf.__version__,
        version=path.name if path.name.isdecimal() else 1,
    )


def _bodies(ids: list[int]) -> list[dict[str, Any]]:
    """What a client posts: for each signature one request by rows and one by columns."""
    example = tf.train.Example()
    example.features.feature["inputs"].int64_list.value.extend(ids)
    serialized = {"b64": base64.b64encode(example.SerializeToString()).decode()}
    rows: dict[str, dict[str, Any]] = {
        "text": {"inputs": _SOURCE},
        "translate": {"inputs": _SOURCE, "alpha": 1.0, "extra_length": 20},
        "tokens": {"inputs": _SOURCE},
        "target_tokens": {"targets": _TARGET},
        "token_ids": {"inputs": ids},
        "score": {"inputs": _SOURCE, "targets": _TARGET},
        "attention": {"inputs": _SOURCE, "targets": _TARGET},
        "tf_example": {"input": serialized},
    }
    bodies: list[dict[str, Any]] = []
    for name, row in rows.items():
        bodies.append({"signature_name": name, "instances": [row]})
        columns = {key: [value] for key, value in row.items()}
        bodies.append({"signature_name": name, "inputs": columns})
    return bodies

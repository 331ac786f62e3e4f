"""A trained model as a TensorFlow SavedModel: raw text in, raw text out.

What is written needs TensorFlow and tensorflow-text where it is loaded, and nothing of this
package: text to ids, the search and ids to text are one graph. Each sentence has its own limit and
stop, as in the decoder, so that its translation does not depend on the others of a request.
"""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.decoding import beam_search
from t2t_repro.decoding.beam_search import Beams, Rules
from t2t_repro.decoding.decode import FIRST_ROOM
from t2t_repro.decoding.settings import LONGEST_INPUT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import check_new_folder, writing_folder
from t2t_repro.text import graph
from t2t_repro.text.encoders import EOS_ID

# Decode hparams that shape a translation; the others say how t2t-decoder reads and writes files.
SETTINGS = ("beam_size", "alpha", "extra_length", "max_input_size")


def export(
    model: keras.Model,
    encoders: dict[str, Any],
    path: str | os.PathLike,
    settings: DecodeHParams | None = None,
    vocabularies: Iterable[str | os.PathLike] = (),
) -> pathlib.Path:
    """Writes a SavedModel; its folder appears when all of it is there.

    Args:
        model: a trained `Transformer`, on the TensorFlow backend.
        encoders: {"inputs": SubwordTextEncoder, "targets": SubwordTextEncoder}.
        path: the folder, new or empty.
        settings: how to decode; only the fields in SETTINGS may differ from the defaults.
        vocabularies: files that are copied into the folder.

    Returns:
        The folder.

    Raises:
        UserError: if the folder is not empty, an encoder is of another kind, a setting means
            nothing to a SavedModel, or Keras runs on another backend.
    """
    path, settings = pathlib.Path(path).expanduser(), settings or DecodeHParams()
    check_settings(settings)
    check_new_folder(path)
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Expected Keras on TensorFlow, which alone writes SavedModels. Received: "
            f"KERAS_BACKEND={keras.backend.backend()}. Leave it out."
        )
    served = Served(model, encoders, settings)
    text = tf.TensorSpec([None], tf.string, "inputs")
    signatures = {"serving_default": served.translate.get_concrete_function(text)}
    with writing_folder(path) as unfinished:
        tf.saved_model.save(served, os.fspath(unfinished), signatures)
        for file in vocabularies:
            shutil.copy(file, unfinished)
        (unfinished / "hparams.json").write_text(model.hparams.to_json(), encoding="utf-8")
        fixed = {name: getattr(settings, name) for name in SETTINGS}
        (unfinished / "decode_hparams.json").write_text(json.dumps(fixed, indent=1) + "\n")
        (unfinished / "README.md").write_text(_readme(path, fixed), encoding="utf-8")
    return path


def check_settings(settings: DecodeHParams) -> None:
    """Refuses settings that a SavedModel would not follow."""
    kept = DecodeHParams(**{name: getattr(settings, name) for name in SETTINGS})
    ours, theirs = dataclasses.asdict(settings), dataclasses.asdict(kept)
    others = [f"{name}={value}" for name, value in ours.items() if value != theirs[name]]
    if others:
        raise UserError(
            f"A SavedModel reads the decode hparams {', '.join(SETTINGS)} only; it always returns "
            f"all beams. Received: {', '.join(others)}. Leave that out."
        )


class Served(tf.Module):
    """The graph that is written.

    Args:
        model: a `Transformer`.
        encoders: {"inputs": SubwordTextEncoder, "targets": SubwordTextEncoder}.
        settings: how to decode.
    """

    def __init__(self, model: keras.Model, encoders: dict[str, Any], settings: DecodeHParams):
        super().__init__(name="translator")
        # Keras's own objects stay out of the SavedModel: only TensorFlow's variables are tracked.
        self._start, self._step = model.start_decoding, model.decode_step
        self._empty_state, self._settings = model.initial_state, settings
        self._most = getattr(model, "learned_positions", None)
        limit = settings.max_input_size if settings.max_input_size > 0 else LONGEST_INPUT
        self._longest = limit if self._most is None else min(limit, self._most)
        self.weights = [variable.value for variable in model.variables]
        self.source = graph.GraphSubwords(encoders["inputs"])
        self.target = graph.GraphSubwords(encoders["targets"])

    @tf.function(autograph=False)
    def translate(self, inputs):
        """The best translation of each string (B,), and all K beams (B, K), with their scores."""
        beam_size = self._settings.beam_size
        rules = Rules(beam_size, beam_size == 1, stop_early=False, per_sentence=True)
        ids, lengths = self._ids(inputs)
        limits = lengths + self._settings.extra_length
        if self._most is not None:
            limits = tf.minimum(limits, self._most)
        limits = tf.where(lengths > 1, limits, 0)  # an empty text has an empty translation
        ids, scores = self._search(ids, limits, rules)
        texts = self.target.decode(_tokens(tf.reshape(ids, [-1, tf.shape(ids)[2]])))
        texts = tf.reshape(graph.one_line(texts), [-1, beam_size])
        best = {"outputs": texts[:, 0], "scores": scores[:, 0]}
        return {**best, "beams": texts, "beam_scores": scores}

    def _ids(self, inputs):
        """The ids int32 (B, S) of strings (B,), each with its end and padded with 0; lengths."""
        ids = self.source.encode(graph.strip(inputs))[:, : self._longest - 1]
        end = tf.fill([tf.shape(inputs)[0], 1], EOS_ID)
        ids = tf.concat([ids, end], axis=1)
        return ids.to_tensor(), tf.cast(ids.row_lengths(), tf.int32)

    def _search(self, inputs, limits, rules: Rules):
        """ids (B, K, L) and scores (B, K) of the beams.

        Room for tokens is made in stretches, and sentences that are done leave the batch.
        """
        batch, beam_size = tf.shape(inputs)[0], rules.beam_size
        most = tf.maximum(tf.reduce_max(tf.concat([limits, [1]], 0)), 1)
        alpha = tf.constant(self._settings.alpha, tf.float32)

        def stretch(room, rows, limits, memory, beams, all_ids, all_scores):
            room = tf.minimum(room, most)
            state = self._empty_state(tf.size(rows), beam_size, room)
            beams = beam_search.extend(Beams(*beams), room, state)

            def step(ids, position, state):
                return self._step(ids, position, state, memory)

            beams = beam_search.advance(step, beams, limits, alpha, room, rules)
            ids, scores = beam_search.result(beams, rules)
            ids = tf.pad(ids, [[0, 0], [0, 0], [0, most - room]])
            all_ids = tf.tensor_scatter_nd_update(all_ids, rows[:, None], ids)
            all_scores = tf.tensor_scatter_nd_update(all_scores, rows[:, None], scores)
            live = tf.where(beam_search.unfinished(beams, limits, alpha, rules))[:, 0]
            rows, limits, memory, beams = tf.nest.map_structure(
                lambda x: tf.gather(x, live) if x.shape.rank else x,
                (rows, limits, memory, tuple(beams)),
            )
            return room + room // 2, rows, limits, memory, beams, all_ids, all_scores

        room = tf.minimum(FIRST_ROOM, most)
        state = self._empty_state(batch, beam_size, room)
        beams = beam_search.begin(state, batch, beam_size, room)
        start = (
            *(room, tf.range(batch), limits, self._start(inputs), tuple(beams)),
            tf.zeros([batch, beam_size, most], tf.int32),
            tf.zeros([batch, beam_size], tf.float32),
        )
        *_, ids, scores = tf.while_loop(
            lambda room, rows, *rest: tf.size(rows) > 0,
            stretch,
            start,
            shape_invariants=tf.nest.map_structure(_any_size, start),
        )
        return ids, scores


def _any_size(x: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None] * x.shape.rank)


def _tokens(ids: tf.Tensor) -> tf.RaggedTensor:
    """The ids (N, L) before the end; where there is none, without the padding behind them."""
    ended = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) > 0
    position = tf.range(1, tf.shape(ids)[1] + 1)
    length = tf.reduce_max(tf.where((ids != 0) & ~ended, position, 0), axis=1)
    full = tf.reduce_sum(tf.cast(~ended, tf.int32), axis=1)
    any_end = tf.reduce_any(ended, axis=1)
    return tf.RaggedTensor.from_tensor(ids, tf.where(any_end, full, length))


_README = """\
# A translator

A SavedModel of tensor2tensor's Transformer: text in, text out. `hparams.json` says what the model
is, `decode_hparams.json` how it searches; both, and the vocabulary beside them, are for reference:
all of it is in the graph.

Signature `serving_default`: `inputs`, a batch of strings, gives for each its translation
(`outputs`), that one's score (`scores`), and all {beam_size} beams, best first, with theirs
(`beams`, `beam_scores`). A score is the log-probability divided by the length penalty. A beam of
which there is none is empty and scores -1e7. A text of more than {longest} tokens is cut.

## Python

Needs tensorflow and tensorflow-text of one minor version, {tensorflow} or later:

```python
import tensorflow as tf
import tensorflow_text  # its operations are in the graph

translator = tf.saved_model.load("{path}")
result = translator.signatures["serving_default"](inputs=tf.constant(["A man is sleeping."]))
print(result["outputs"][0].numpy().decode())
```

## TensorFlow Serving

In this folder; the number is the version that is served. The image must have TensorFlow
{tensorflow} or later.

```bash
docker run --rm -p 8501:8501 -v "$PWD":/models/translate/{version} -e MODEL_NAME=translate \\
    tensorflow/serving
```

## curl

```bash
curl http://localhost:8501/v1/models/translate:predict \\
    -d '{{"inputs": ["A man is sleeping."]}}'
```
"""


def _readme(path: pathlib.Path, fixed: dict[str, Any]) -> str:
    return _README.format(
        beam_size=fixed["beam_size"],
        longest=fixed["max_input_size"] if fixed["max_input_size"] > 0 else LONGEST_INPUT,
        path=path.resolve(),
        tensorflow=tf.__version__,
        version=path.name if path.name.isdecimal() else 1,
    )

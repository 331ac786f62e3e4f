"""A SavedModel says what the decoder says, in a process that has none of our code."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro import decode, export_saved_model
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import FILLER, DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.export import saved_model, signatures

TEXTS = ["a b", "", "ab cd. ab", " \t ", "\x00\x07", "😀 é", "abc " * 30, "\u00a0gab\n", "f_\\u"]
LOAD = """
import json, sys
import tensorflow as tf
import tensorflow_text
path, batches = json.loads(sys.stdin.read())
call = tf.saved_model.load(path).signatures["serving_default"]
assert not any(name.partition(".")[0] == "t2t_repro" for name in sys.modules)
results = [call(inputs=tf.constant(batch, tf.string)) for batch in batches]
from tensorflow.python.tools import saved_model_cli as cli
def command(*arguments):
    sys.argv = ["saved_model_cli", *arguments]
    try:
        cli.main()
    except SystemExit as stop:
        assert not stop.code
command("show", "--dir", path, "--all")
print("=====")
print(json.dumps([{k: tf.strings.as_string(v).numpy().astype(str).tolist()
                   if v.dtype != tf.string else
                   [x.decode() for x in tf.reshape(v, [-1]).numpy().tolist()]
                   for k, v in r.items()} for r in results]))
print("=====", flush=True)
asked = "inputs=" + repr(batches[1])
command("run", "--dir", path, "--tag_set=serve", "--signature_def=text", "--input_exprs", asked)
"""


def expected(model, encoders, settings, texts):
    """Every hypothesis of the decoder, fillers left out."""
    settings = DecodeHParams(**settings, return_beams=True)
    results = Translator(ModelEngine(model), encoders, settings).translate_lines(texts)
    return [[(one_line(h.text), h.score) for h in row if h.score > FILLER] for row in results]


def check(result, rows, beam_size):
    beams = np.reshape(result["beams"], (-1, beam_size))
    scores = np.reshape(result["beam_scores"], (-1, beam_size)).astype(float)
    assert len(beams) == len(rows)
    assert list(beams[:, 0]) == list(result["outputs"])
    np.testing.assert_array_equal(scores[:, 0], np.array(result["scores"], float))
    for texts, values, row in zip(beams, scores, rows, strict=True):
        real = [(text, value) for text, value in zip(texts, values, strict=True) if value > FILLER]
        assert [text for text, _ in real] == [text for text, _ in row]
        np.testing.assert_allclose([v for _, v in real], [v for _, v in row], rtol=2e-4, atol=2e-4)


def translated(served, texts):
    result = served.text(tf.constant(texts, tf.string))
    return {
        k: [x.decode() for x in v.numpy().ravel()] if v.dtype == tf.string else v.numpy()
        for k, v in result.items()
    }


@pytest.mark.slow
def test_ids_to_ids_are_those_of_decode(make_model, tmp_path):
    model = make_model()
    ids = np.random.default_rng(1).integers(2, model.inputs_vocab_size, (20, 5))
    ids[:, 4] = 1
    export_saved_model(model, tmp_path / "ids", beam_size=3, alpha=1.0)
    loaded = tf.saved_model.load(tmp_path / "ids")  # it owns the variables
    found = loaded.signatures["serving_default"](inputs=tf.constant(ids, tf.int32))
    wanted, scores = decode(model, ids, beam_size=3, alpha=1.0, decode_length=100)
    for row, own in zip(found["outputs"].numpy(), wanted[:, 0], strict=True):
        assert np.trim_zeros(row, "b").tolist() == np.trim_zeros(own, "b").tolist()
    np.testing.assert_allclose(found["scores"], scores[:, 0], rtol=1e-4)


@pytest.mark.parametrize(
    "overrides, settings",
    [
        ("", {"beam_size": 3, "alpha": 0.6, "extra_length": 20}),
        pytest.param(
            ",pos=emb,max_length=24,self_attention_type=dot_product_relative,"
            "max_relative_position=4",
            {"beam_size": 2, "extra_length": 50},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ",shared_embedding_and_softmax_weights=false,layer_preprocess_sequence=n",
            {"beam_size": 1, "extra_length": 30, "max_input_size": 9},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_graph_equals_the_decoder(make_model, encoders, overrides, settings):
    model = make_model(overrides)
    rows = expected(model, encoders, settings, TEXTS)
    assert any(text for row in rows for text, _ in row)
    served = signatures.Served(model, encoders, DecodeHParams(**settings))
    beam_size = settings["beam_size"]
    check(translated(served, TEXTS), rows, beam_size)
    for text, row in zip(TEXTS[:3], rows, strict=False):
        check(translated(served, [text]), [row], beam_size)
    check(translated(served, []), [], beam_size)


@pytest.mark.slow
def test_a_process_that_has_tensorflow_and_tensorflow_text_alone(small, tmp_path):
    model, encoders, path = small
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOAD],
        input=json.dumps([str(path), [TEXTS, TEXTS[:1], []]]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    listed, answers, ran = done.stdout.split("=====")
    for name in ("serving_default", "text", "best", "tf_example", "score", "attention"):
        assert f"signature_def['{name}']" in listed
    whole, single, empty = json.loads(answers)
    settings = {"beam_size": 2, "extra_length": 9, "max_input_size": 80}
    rows = expected(model, encoders, settings, TEXTS)
    check(whole, rows, 2)
    check(single, rows[:1], 2)
    assert empty == {"outputs": [], "scores": [], "beams": [], "beam_scores": []}
    assert f"Result for output key outputs:\n[b'{rows[0][0][0]}']" in ran


def test_line_ends_that_a_model_writes_become_blanks(make_model, encoders):
    class Echo(signatures.Served):
        def _search(self, inputs, *args):
            return inputs[:, None, :], tf.zeros([tf.shape(inputs)[0], 1])

    served = Echo(make_model(), encoders, DecodeHParams(beam_size=1))
    texts = ["a\r\nb", "a  b", "é_\\", "", "<pad>"]
    outputs = served.text(tf.constant(texts))["outputs"].numpy()
    assert [x.decode() for x in outputs] == ["a b", *texts[1:]]


@pytest.mark.slow
def test_many_texts_are_translated_in_batches(small, tmp_path):
    model, encoders, there = small
    path = tmp_path / "x=[12]"  # which TensorFlow reads as a pattern
    path.symlink_to(there)
    settings = {"beam_size": 2, "extra_length": 9, "max_input_size": 80}
    texts = [*TEXTS, "cab", "dad"] * 7
    rows = expected(model, encoders, settings, texts)
    found = saved_model.translate(path, "", DecodeHParams(), texts)
    assert [text for text, _ in found] == [row[0][0] for row in rows]
    scores = [row[0][1] for row in rows]
    np.testing.assert_allclose([score for _, score in found], scores, rtol=2e-4, atol=2e-4)


def test_requests_that_warm_tensorflow_serving_up(tmp_path):
    """The bytes are those of tensorflow-serving-api 2.21's own PredictionLog."""
    saved_model.write_warm_up(tmp_path, "\u00e9" * 70)
    tensor = b"\x08\x07\x12\x04\x12\x02\x08\x01B\x8c\x01" + "\u00e9".encode() * 70
    inputs = b"\n\x06inputs\x12\x97\x01" + tensor
    expected = [
        b"2\xbb\x01\n\xb8\x01\n\x11\n\ttranslate\x1a\x04%b\x12\xa2\x01%b" % (name, inputs)
        for name in (b"text", b"best")
    ]
    path = str(tmp_path / "assets.extra" / "tf_serving_warmup_requests")
    assert list(tf.data.TFRecordDataset(path).as_numpy_iterator()) == expected

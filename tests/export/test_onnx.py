"""ONNX: the graphs compute what the model does, and translate.py and .mjs search as the decoder."""

import io
import json
import runpy
import shutil
import subprocess
import sys
import types

import numpy as np
import onnxruntime
import pytest

from t2t_repro import Transformer, get_hparams
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.export import onnx, onnx_translate
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.provenance import translations
from t2t_repro.text import SubwordTextEncoder

HARD = ["", " ", "a", "ab cd.", "  a  b ", "a_b\\c", "ü€ a", "7;", "a\tb", "abcdefgabcdefg abab"]
SIZE = 21  # subtokens of conftest.py's models


def exported(model, encoders, folder, quantize="float32", **settings):
    file = folder / "v.subwords"
    encoders["inputs"].store_to_file(file)
    run = types.SimpleNamespace(vocabulary_files=[file], encoders=encoders)
    request = ExportRequest(format="onnx", quantize=quantize)
    onnx.write(ExportJob(run, model, folder, DecodeHParams(**settings), request))
    return onnx_translate.Translator(folder)


@pytest.mark.parametrize(
    ("overrides", "settings"),
    [
        ("", {"beam_size": 3, "alpha": 0.7, "extra_length": 6}),
        (
            ",layer_preprocess_sequence=none,layer_postprocess_sequence=dan,norm_epsilon=0.03",
            {"beam_size": 1, "extra_length": 7},
        ),
        (
            ",pos=emb,max_length=17,layer_preprocess_sequence=n,layer_postprocess_sequence=da",
            {"beam_size": 2, "alpha": 1.1, "extra_length": 9, "max_input_size": 5},
        ),
        (",pos=none,attention_score=dot_product", {"beam_size": 4, "extra_length": 3}),
    ],
)
def test_it_computes_and_translates_as_the_model(
    make_model, encoders, tmp_path, overrides, settings, monkeypatch, capsys
):
    model = make_model(overrides, layers=2)
    translator = exported(model, encoders, tmp_path, **settings)
    rng = np.random.default_rng(5)
    inputs, targets = rng.integers(2, SIZE, (3, 7)), rng.integers(2, SIZE, (3, 5))
    inputs[1, 4:] = 0
    expected = np.array(model({"inputs": inputs, "targets": targets}, training=False))
    mask = (inputs != 0).astype("int64")
    (memory,) = translator.encoder.run(None, {"input_ids": inputs, "attention_mask": mask})
    shifted = np.pad(targets, ((0, 0), (1, 0)))[:, :-1]
    feed = {"encoder_hidden_states": memory, "encoder_attention_mask": mask}
    # Optimum gives a past of one step where there is none: it must not count.
    past = [each.name for each in translator.past]
    feed |= dict.fromkeys(past, np.ones((3, 2, 1, 4), "float32"))
    first = feed | {"input_ids": shifted[:, :2], "use_cache_branch": np.array([False])}
    logits, *present = translator.decoder.run(None, first)
    feed |= dict(zip(past, present, strict=True))
    rest = feed | {"input_ids": shifted[:, 2:], "use_cache_branch": np.array([True])}
    later = translator.decoder.run(None, rest)[0]
    both = np.concatenate([logits, later], axis=1)
    np.testing.assert_allclose(both, expected, rtol=1e-4, atol=1e-4)
    own = translations(ModelEngine(model), encoders, DecodeHParams(**settings), HARD)
    found = onnx.translate(tmp_path, "", DecodeHParams(), HARD)
    assert [text for text, _ in found] == [text for text, _ in own]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in own], atol=1e-4)
    lines = io.BytesIO(("\ufeff" + "\r\n".join([*HARD, "a\u2028b\rc"])).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines))
    runpy.run_path(tmp_path / "translate.py", run_name="__main__")
    *written, last, rest = capsys.readouterr().out.split("\n")
    assert written == [text for text, _ in own] and not rest


def test_its_subwords_are_t2ts(encoders, tmp_path):
    # No blank ends a piece: a vocabulary file loses it without quotes.
    texts = [*HARD, "a\nb", "x_\\u y", " a", "a ", "12;34", "\u3013\u00adé", "A b-c (d)", "\\7;\\u"]
    encoders["inputs"].store_to_file(tmp_path / "v.subwords")
    mine = onnx_translate.Subwords(tmp_path / "v.subwords")
    read = SubwordTextEncoder(tmp_path / "v.subwords")
    rng = np.random.default_rng(9)
    for text in texts:
        assert mine.encode(text) == read.encode(text)
        assert mine.decode(mine.encode(text)) == text
    for _ in range(200):
        ids = rng.integers(2, SIZE, 12).tolist()
        assert mine.decode(ids) == read.decode(ids)


def test_int8_is_smaller_and_has_the_names_of_optimum(encoders, tmp_path):
    hparams = get_hparams("transformer_test", "hidden_size=64,num_hidden_layers=1")
    model = Transformer.from_hparams(hparams, inputs_vocab_size=27, targets_vocab_size=27)
    sizes = []
    for quantize in ("float32", "int8"):
        exported(model, encoders, tmp_path, quantize)
        files = sorted(tmp_path.glob("*.onnx"))
        sizes.append([file.stat().st_size for file in files])
    assert all(small < large for large, small in zip(*sizes, strict=True))
    decoder, encoder = map(onnxruntime.InferenceSession, files)
    assert [each.name for each in encoder.get_inputs()] == ["input_ids", "attention_mask"]
    sides = [f"{side}.{part}" for side in ("decoder", "encoder") for part in ("key", "value")]
    past = [f"past_key_values.0.{side}" for side in sides]
    first = ["encoder_attention_mask", "input_ids", "encoder_hidden_states"]
    assert [each.name for each in decoder.get_inputs()] == [*first, *past, "use_cache_branch"]
    outputs = [each.name for each in decoder.get_outputs()]
    assert outputs == ["logits", *(f"present.0.{side}" for side in sides)]
    assert json.loads((tmp_path / "config.json").read_text())["decoder_start_token_id"] == 0


@pytest.mark.browser
def test_javascript_cuts_text_as_t2t(encoders, tmp_path):
    texts = [*HARD, "x_\\u y", "12;34", "\u3013é", "A b-c (d)", "\\7;\\u", "🙂 a"]
    encoders["inputs"].store_to_file(tmp_path / "v.subwords")
    shutil.copy(onnx._HERE / "onnx_translate.mjs", tmp_path / "translate.mjs")
    script = """
      import { Subwords } from "./translate.mjs";
      import { readFileSync } from "node:fs";
      const subwords = new Subwords(readFileSync("v.subwords", "utf-8"));
      const ids = JSON.parse(readFileSync(0, "utf-8")).map((text) => subwords.encode(text));
      console.log(JSON.stringify(ids.map((each) => [each, subwords.decode(each)])));
    """
    (tmp_path / "try.mjs").write_text(script)
    done = subprocess.run(
        ["node", "try.mjs"],
        input=json.dumps(texts),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    encode = encoders["inputs"].encode
    assert json.loads(done.stdout) == [[encode(text), text] for text in texts]

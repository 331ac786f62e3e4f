"""Which models --model names, and those of CTranslate2 as the server calls them."""

import hashlib
import subprocess
import sys
import types

import numpy as np
import pytest

from t2t_repro.decoding.search import Engine
from t2t_repro.errors import UserError
from t2t_repro.serving import models
from t2t_repro.serving.models import Hypothesis
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.text.encoders import ByteTextEncoder
from tests.provenances import recorded

DECODING = {"beam_size": 2, "alpha": 0.6, "extra_length": 20, "max_input_size": -1}


@pytest.mark.parametrize(
    "given, found",
    [
        (["7"], [("7", "", "")]),
        (["a,b=c"], [("a,b=c", "", "")]),
        (["de-en=7"], [("de-en", "de", "en")]),
        (["de-en=7", "en-de=a,b=c"], [("de-en", "de", "en"), ("en-de", "en", "de")]),
        (["zh_Hans-en=7", "7"], [("zh_Hans-en", "zh_Hans", "en"), ("7", "", "")]),
        (["wmt"], [("en-de", "en", "de")]),
        ([], None),
        (["de-en=nowhere"], None),
        (["run"], None),
        (["de-en=7", "de-en=a,b=c"], None),
    ],
)
def test_what_is_named(tmp_path, monkeypatch, given, found):
    monkeypatch.chdir(tmp_path)
    kinds = {"run": {"kind": "run"}, "wmt": {"problem": "translate_ende_wmt32k"}}
    for name in ("7", "a,b=c", "run", "wmt"):
        (tmp_path / name).mkdir()
        recorded(**{"kind": "saved_model"} | kinds.get(name, {})).write(tmp_path / name)
    if found is None:
        with pytest.raises(UserError):
            models.find(given)
    else:
        assert [(m.name, m.source, m.target) for m in models.find(given)] == found


class Reversing(Engine):
    """Turns the ids around; a second hypothesis repeats the first one's first."""

    fingerprint = "reversing"

    def __init__(self, folder, threads, searches):
        self.shapes = []

    def check_vocabularies(self, encoders):
        pass

    def decode(self, sentences, search):
        self.shapes.append(sentences.inputs.shape)
        count = search.top_beams
        ids = np.zeros((len(sentences), count, sentences.inputs.shape[1] + 1), "int32")
        for i, row in enumerate(sentences.inputs):
            turned = [*row[row > 1][::-1], 1]
            ids[i, :, : len(turned)] = turned
        scores = np.float32([-search.alpha, -2e5])[:count]
        return ids, np.tile(scores, (len(sentences), 1))


@pytest.fixture
def ctranslate2_model(tmp_path, monkeypatch):
    """Makes a CTranslate2 model with an encoder, whose engine turns ids around."""

    def make(encoder, **decoding):
        monkeypatch.setattr(models, "CTranslate2Engine", Reversing)
        encoders = dict.fromkeys(("inputs", "targets"), encoder)
        problem = types.SimpleNamespace(feature_encoders=lambda folder: encoders)
        monkeypatch.setattr(models.registry, "get_problem", lambda name: problem)
        (tmp_path / "model.bin").write_bytes(b"weights")
        recorded("ctranslate2", decoding=DECODING | decoding).write(tmp_path)
        (found,) = models.find([str(tmp_path)])
        found.load(searches=1)
        return found.model

    return make


def test_a_ctranslate2_model_has_its_vocabulary_and_how_to_decode(ctranslate2_model):
    subtokens = ["<pad>_", "<EOS>_", *"\\_u;0123456789", "ab_", "cd_", "ef_"]
    encoder = SubwordTextEncoder.from_subtokens(subtokens)
    model = ctranslate2_model(encoder, alpha=0.5, max_input_size=9)
    assert model.longest == 9 and not model.has_attention
    assert model.sha256 == hashlib.sha256(b"weights").hexdigest()
    assert model.count_tokens(["ab cd", "ef"]) == [len(encoder.encode("ab cd")) + 1, 2]
    for beams in (False, True):
        answers = model.translate(["ab cd", "cd ef", "ef"], beams)
        assert answers == [[Hypothesis(text, -0.5)] for text in ("cd ab", "ef cd", "ef")]


def test_what_the_server_asks_for_at_once_is_one_batch(ctranslate2_model):
    model = ctranslate2_model(ByteTextEncoder())
    assert len(model.translate(["a" * 40] * 150, beams=False)) == 150
    assert model._best.engine.shapes == [(150, 41)]


def test_what_serves_ctranslate2_imports_neither_tensorflow_nor_keras():
    blocked = "import sys, t2t_repro; sys.modules.update(tensorflow=None, keras=None)"
    code = f"{blocked}; import t2t_repro.serving.app"
    subprocess.run([sys.executable, "-c", code], check=True)

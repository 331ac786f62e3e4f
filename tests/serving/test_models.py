"""Which models --model names, and real ones as the server calls them."""

import hashlib
import types

import numpy as np
import pytest
from starlette.testclient import TestClient

from t2t_repro.decoding.engine import Engine
from t2t_repro.errors import UserError
from t2t_repro.serving import app, models
from t2t_repro.serving.models import Hypothesis, SavedModel
from t2t_repro.serving.request import ServerRequest
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.text.encoders import ByteTextEncoder
from tests.provenances import recorded
from tests.serving.conftest import served

TEXTS = ["a b", "", "ab cd. ab", "é😀"]
DECODING = {"beam_size": 2, "alpha": 0.6, "extra_length": 20, "max_input_size": -1}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A SavedModel that was not trained, and the folder and the encoder that made it."""
    import keras

    from t2t_repro import Transformer, get_hparams
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.export import saved_model

    keras.utils.set_random_seed(3)
    subtokens = ["<pad>_", "<EOS>_", *"\\_u;0123456789abcdefg ", "ab_", "cd_", ". "]
    encoder = SubwordTextEncoder.from_subtokens(subtokens)
    changes = "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1"
    hparams = get_hparams("transformer_test", changes)
    sizes = {"inputs_vocab_size": len(subtokens), "targets_vocab_size": len(subtokens)}
    made = Transformer.from_hparams(hparams, **sizes)
    for variable in made.variables:
        variable.assign(3 * variable)
    encoders = {"inputs": encoder, "targets": encoder}
    path = tmp_path_factory.mktemp("export") / "7"
    saved_model.convert(made, encoders, path, DecodeHParams(**DECODING))
    (path / "hparams.json").write_text(hparams.to_json())
    model = SavedModel(path, recorded("saved_model", decoding=DECODING))
    return types.SimpleNamespace(path=path, model=model, encoder=encoder)


def test_a_real_export_is_served(export):
    with TestClient(app.create(served(export.model), ServerRequest())) as client:
        asked = {"inputs": TEXTS, "n_best": 2, "split": False}
        together = client.post("/translate", json=asked).json()["translations"]
        for text, answer in zip(TEXTS, together, strict=True):
            answer_alone = client.post("/translate", json={**asked, "inputs": text}).json()
            (alone,) = answer_alone["translations"]
            assert alone["input"] == answer["input"] == text
            assert alone["translation"] == answer["translation"]
            assert alone["score"] == pytest.approx(answer["score"], abs=1e-4)
            assert len(alone["n_best"]) == (2 if text else 1)
        pair = {"inputs": "ab cd", "targets": together[0]["translation"]}
        answer = client.post("/attention", json=pair).json()
        assert answer["source_tokens"][-1] == answer["target_tokens"][-1] == "<EOS>_"
        assert len(answer["weights"]) == len(answer["target_tokens"]) > 1
        for row in answer["weights"]:
            assert len(row) == len(answer["source_tokens"])
            assert sum(row) == pytest.approx(1, abs=1e-3)


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
        monkeypatch.setattr("t2t_repro.export.ctranslate2.CTranslate2Engine", Reversing)
        encoders = {"inputs": encoder, "targets": encoder}
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
    assert model._engine.shapes == [(150, 41)]

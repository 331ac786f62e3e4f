"""A real export, served and called from Python."""

import hashlib

import pytest
from starlette.testclient import TestClient

from t2t_repro.serving import app
from t2t_repro.serving.exported import ExportedModel, Question
from t2t_repro.serving.requests import Limits
from tests.serving.conftest import served


@pytest.fixture(scope="module")
def exported(export):
    return ExportedModel(export.path)


def test_a_real_export(exported):
    model = exported
    texts = ["a b", "", "ab cd. ab", "é😀"]
    with TestClient(app.create(served(model), Limits.of(served(model), None))) as client:
        asked = {"inputs": texts, "n_best": 2, "split": False}
        together = client.post("/translate", json=asked).json()["translations"]
        for text, answer in zip(texts, together, strict=True):
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


def test_a_real_export_called_from_python(export, exported, monkeypatch):
    model = exported
    assert (model.beam_size, model.alpha, model.longest) == (2, 0.6, 1024)
    weights = export.path / "variables" / "variables.data-00000-of-00001"
    assert model.sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert model.any_alpha and model.has_attention
    encoder = export.encoders["inputs"]
    texts = ["a b", "", "ab cd. ab", "é😀"]
    assert model.count_tokens(texts) == [len(encoder.encode(text)) + 1 for text in texts]
    assert model.count_target_tokens(texts) == model.count_tokens(texts)
    usual, same = (
        [row[0] for row in model.translate([Question(text, alpha) for text in texts])]
        for alpha in (None, 0.6)
    )
    assert [h.translation for h in usual] == [h.translation for h in same]
    assert [h.score for h in usual] == pytest.approx([h.score for h in same], abs=1e-5)
    best = model.translate([Question(text, beams=False) for text in texts])
    assert [[h.translation for h in row] for row in best] == [[h.translation] for h in usual]
    assert [row[0].score for row in best] == pytest.approx([h.score for h in usual], abs=1e-5)
    asked, translate = {}, model._with_alpha
    monkeypatch.setattr(model, "_with_alpha", lambda **a: asked.update(a) or translate(**a))
    model.translate([Question("ab", 0.25), Question("a")])
    assert asked["alpha"].numpy().tolist() == [0.25, pytest.approx(0.6)]
    assert asked["extra_length"].numpy().tolist() == [20, 20]


def test_an_export_that_counts_no_tokens(exported, monkeypatch):
    monkeypatch.setattr(exported, "_target_tokens", None)
    assert exported.count_target_tokens(["", "ab"]) == exported.count_tokens(["", "ab"])
    monkeypatch.setattr(exported, "_tokens", None)
    assert exported.count_tokens(["", "a", "abcd", "é" * 6]) == [1, 1, 2, 4]


def test_an_export_that_knows_no_best(exported, monkeypatch):
    constant = exported._tf.constant
    answer = {"beams": constant([["x", "y"]]), "beam_scores": constant([[-1.0, -2.0]])}
    monkeypatch.setattr(exported, "_best", None)
    monkeypatch.setattr(exported, "_text", lambda inputs: answer)
    ((best, second),) = exported.translate([Question("ab", beams=False)])
    assert (best.translation, second.translation) == ("x", "y")

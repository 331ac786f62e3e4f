"""A real export, served and called from Python."""

import hashlib

import pytest
from starlette.testclient import TestClient

from t2t_repro.serving import app
from t2t_repro.serving.exported import ExportedModel, Question
from t2t_repro.serving.schemas import Limits
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


def test_a_real_export_called_from_python(export, exported):
    model = exported
    assert (model.beam_size, model.alpha, model.longest) == (2, 0.6, 1024)
    weights = export.path / "variables" / "variables.data-00000-of-00001"
    assert model.sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert model.has_attention
    encoder = export.encoders["inputs"]
    texts = ["a b", "", "ab cd. ab", "é😀"]
    assert model.count_tokens(texts) == [len(encoder.encode(text)) + 1 for text in texts]
    assert model.count_target_tokens(texts) == model.count_tokens(texts)
    usual = [row[0] for row in model.translate([Question(text) for text in texts])]
    best = model.translate([Question(text, beams=False) for text in texts])
    assert [[h.translation for h in row] for row in best] == [[h.translation] for h in usual]
    assert [row[0].score for row in best] == pytest.approx([h.score for h in usual], abs=1e-5)

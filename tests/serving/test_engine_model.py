"""An engine as the server calls it."""

import numpy as np
from starlette.testclient import TestClient

from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.serving import app
from t2t_repro.serving.engine_model import EngineModel
from t2t_repro.serving.exported import Question
from t2t_repro.serving.schemas import Limits
from t2t_repro.text.encoders import ByteTextEncoder, TextEncoder
from tests.serving.conftest import served


class Ends(Engine):
    """Writes nothing, and keeps the shapes of its batches."""

    fingerprint = "ends"

    def __init__(self):
        self.shapes = []

    def decode(self, sentences, search):
        self.shapes.append(sentences.inputs.shape)
        return np.ones((len(sentences), 1, 1), "int32"), np.zeros((len(sentences), 1), "float32")


def test_what_the_server_asks_for_at_once_is_one_batch():
    encoders = dict.fromkeys(("inputs", "targets"), ByteTextEncoder())
    engine = Ends()
    model = EngineModel(engine, encoders, DecodeHParams(), "0")
    questions = [Question("a" * 40, beams=False) for _ in range(150)]
    assert len(model.translate(questions)) == 150
    assert engine.shapes == [(150, 41)]


def test_what_an_encoder_cannot_read_is_the_askers_fault():
    encoders = dict.fromkeys(("inputs", "targets"), TextEncoder())
    models = served(EngineModel(Ends(), encoders, DecodeHParams(), "0"))
    limits = Limits(max_body_bytes=900, max_sentences=4, max_sentence_tokens=20)
    with TestClient(app.create(models, limits)) as client:
        assert client.post("/translate", json={"inputs": "3 5 1"}).status_code == 200
        refused = client.post("/translate", json={"inputs": "3 five 1"})
    assert refused.status_code == 400
    assert "whole numbers between blanks. Received: '3 five 1'" in refused.json()["error"]

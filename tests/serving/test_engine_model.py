"""An engine as the server calls it."""

import numpy as np

from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.serving.engine_model import EngineModel
from t2t_repro.serving.exported import Question
from t2t_repro.text.encoders import ByteTextEncoder


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

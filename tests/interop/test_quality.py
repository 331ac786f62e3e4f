"""BLEU of a model's other form beside the model's own."""

import dataclasses

import numpy as np
import pytest

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.interop import quality


@pytest.mark.slow
def test_the_quality_of_another_form(make_model, encoders, capsys):
    model = make_model()
    examples = [
        {"inputs": [20, 21, 1], "targets": [22, 23, 1]},
        {"inputs": [15, 1], "targets": [1]},
    ]
    settings = DecodeHParams(extra_length=5)

    class Nothing(Engine):
        fingerprint = "nothing"

        def decode(self, sentences, search):
            count = len(sentences)
            return np.ones((count, 1, 1), "int32"), np.zeros((count, 1), "float32")

    equal = quality.compare(model, ModelEngine(model), encoders, examples, settings)
    assert equal.drop == 0 and equal.identical == equal.sentences == 2
    assert "Decoding dev twice: 4 sentences in " in capsys.readouterr().err
    assert quality.compare(model, Nothing(), encoders, examples, settings).after == 0
    long = [{"inputs": [20, 21, 22, 15, 16, 1], "targets": [22, 1]}]
    widths = []

    class Seeing(Nothing):
        def decode(self, sentences, search):
            widths.append(sentences.inputs.shape[1])
            return super().decode(sentences, search)

    cut = dataclasses.replace(settings, max_input_size=3)
    quality.compare(model, Seeing(), encoders, long, cut)
    assert widths == [3] and "Sentence 1 of dev has 6 tokens; 3" in capsys.readouterr().out
    worse = quality.Comparison(before=30.0, after=29.4, identical=7, sentences=11)
    assert str(worse).startswith("BLEU 29.40, of the model itself 30.00: a drop of 0.60 on 11")
    better = quality.Comparison(before=30.0, after=31.48, identical=7, sentences=11)
    assert "of the model itself 30.00: a gain of 1.48 on 11 sentences" in str(better)
    same = quality.Comparison(before=0.1 + 0.2, after=0.3 + 1e-15, identical=11, sentences=11)
    assert "a drop of 0.00 on 11" in str(same)
    quality.check(worse, 0.7)
    quality.check(worse, None)
    with pytest.raises(UserError, match="0"):
        quality.check(worse, 0.5)

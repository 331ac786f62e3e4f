import re

import pytest

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError


def test_defaults_are_those_of_tensor2tensor():
    settings = DecodeHParams()
    assert (settings.beam_size, settings.alpha, settings.extra_length) == (4, 0.6, 100)
    assert settings.top_beams == 1


def test_parse():
    settings = DecodeHParams.parse("beam_size=3, alpha=1,return_beams=True,write_beam_scores=1")
    assert settings == DecodeHParams(
        beam_size=3, alpha=1.0, return_beams=True, write_beam_scores=True
    )
    assert settings.top_beams == 3
    assert DecodeHParams.parse("") == DecodeHParams()
    assert DecodeHParams.parse("shards=1,log_results=True") == DecodeHParams()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam_sise=3", "Unknown decode hparam. Received: 'beam_sise'. Did you mean 'beam_size'"),
        ("beam_size=x", "Expected decode hparam beam_size to be int. Received: 'x'."),
        ("return_beams=yes", "Expected decode hparam return_beams to be bool. Received: 'yes'."),
        ("beam_size=0", "Expected decode hparam beam_size to be at least 1. Received: 0."),
        ("alpha=nan", "Expected decode hparam alpha to be at least 0.0. Received: nan."),
        ("max_input_size=1", "to leave room for a token and the end: at least 2"),
        ("write_beam_scores=true", "write_beam_scores has no effect without return_beams"),
        ("shards=2", "Decode hparam shards is not supported: split the file instead."),
        ("eos_penalty=0.5", "eos_penalty is not supported: tensor2tensor never reads it."),
    ],
)
def test_errors(text, message):
    with pytest.raises(UserError, match=re.escape(message)):
        DecodeHParams.parse(text)

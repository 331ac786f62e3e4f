"""What a job says where its results go to stdout."""

import types

import pytest

from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.problem import OutputType


@pytest.mark.parametrize("source", ["decode_from_file", "score_file"])
@pytest.mark.parametrize(
    "outputs, beside",
    [
        ({"decode_to_file": "out"}, False),
        ({"decode_to_file": "out", "decode_json_file": "lines"}, False),
        ({"decode_to_file": "out", "decode_json_file": "/dev/stdout"}, True),
        ({"decode_to_file": "/dev/stdout"}, True),
    ],
)
def test_a_message_is_not_put_into_a_result(capsys, source, outputs, beside):
    run = types.SimpleNamespace(problem=types.SimpleNamespace(output_type=OutputType.TEXT))
    job, said = DecodeJob(DecodeRequest(**{source: "in"}, **outputs), DecodeHParams(), run), []
    job._tell("Wrote out", said.append)
    assert said == ["Wrote out"] * beside
    assert capsys.readouterr().out == ("" if beside else "Wrote out\n")

"""What t2t-decoder refuses, and what it says has no effect, before anything is loaded."""

import pytest

from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError

TYPED, FILE, CT2 = (
    {"decode_interactive": True},
    {"decode_from_file": "in"},
    {"engine": "ctranslate2"},
)
PAIRS = {"score_file": "pairs", "decode_to_file": "x"}


def made(asked, decode_hparams=""):
    request = DecodeRequest(**asked, given=frozenset(asked), decode_hparams=decode_hparams or None)
    return request, DecodeHParams.parse(decode_hparams)


@pytest.mark.parametrize(
    "asked, decode_hparams, names",
    [
        (TYPED | {"decode_to_file": "x", "decode_reference": "r"}, "", ["--decode_reference"]),
        (FILE | {"eval_use_test_set": True}, "", ["--eval_use_test_set"]),
        (PAIRS | {"output_format": "jsonl"}, "alpha=1", ["--output_format", "alpha"]),
        (FILE | CT2 | {"worker_gpu": 2}, "", ["--worker_gpu"]),
        (FILE | CT2 | {"engine_dir": "E", "checkpoint_path": "C"}, "", ["--checkpoint_path"]),
        (FILE | {"compute_type": "int8"}, "", ["--compute_type"]),
        (FILE, "write_beam_scores=1,sampling_seed=3", ["sampling_seed", "write_beam_scores"]),
        (FILE, "force_decode_length=1", ["force_decode_length"]),
        (FILE | {"decode_reference": "r", "decode_to_file": "x"}, "beam_size=2", []),
        ({"eval_use_test_set": True, "decode_to_file": "x"}, "", []),
    ],
)
def test_what_has_no_effect_is_said(asked, decode_hparams, names):
    request, settings = made(asked, decode_hparams)
    request.check(settings)
    found = request.unread(settings)
    assert set(names) <= set(found) and (names or not found)


@pytest.mark.parametrize(
    "asked, decode_hparams",
    [
        (FILE | TYPED, ""),
        ({"score_file": "pairs"}, ""),
        (FILE | CT2 | {"t2t_exact": True}, ""),
        (FILE | CT2 | {"ensemble": "x"}, ""),
        (FILE | CT2, "beam_size=1,sampling_method=random"),
    ],
)
def test_what_would_be_another_thing_is_refused(asked, decode_hparams):
    request, settings = made(asked, decode_hparams)
    with pytest.raises(UserError):
        request.check(settings)

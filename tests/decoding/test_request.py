"""What t2t-decoder refuses, and what it says has no effect, before anything is loaded."""

import pytest

from t2t_repro import registry
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
    """A request, its settings and a problem of text."""
    request = DecodeRequest(**asked, given=frozenset(asked), decode_hparams=decode_hparams or None)
    problem = registry.get_problem("algorithmic_identity_decimal40")
    return request, DecodeHParams.parse(decode_hparams), problem


@pytest.mark.parametrize(
    "asked, decode_hparams, names",
    [
        (
            TYPED | {"decode_to_file": "x", "decode_json_file": "y"},
            "",
            ["--decode_json_file", "--decode_to_file"],
        ),
        (TYPED, "num_samples=3,shards=2", ["num_samples", "shards"]),
        (TYPED | {"decode_reference": "r"}, "", ["--decode_reference"]),
        (FILE | {"eval_use_test_set": True}, "", ["--eval_use_test_set"]),
        (PAIRS | {"output_format": "jsonl"}, "alpha=1", ["--output_format", "alpha"]),
        (FILE | {"engine": "ctranslate2", "worker_gpu": 2}, "", ["--worker_gpu"]),
        (FILE | CT2 | {"engine_dir": "E", "checkpoint_path": "C"}, "", ["--checkpoint_path"]),
        (FILE | {"compute_type": "int8"}, "", ["--compute_type"]),
        (FILE, "raw_output=True,well_formed=True", ["raw_output", "well_formed"]),
        (FILE, "return_token_scores=True", ["return_token_scores"]),
        ({}, "return_alignments=True", ["return_alignments"]),
        (
            FILE | {"output_format": "jsonl", "decode_reference": "r"},
            "return_beams=1,write_beam_scores=1",
            ["--decode_reference", "write_beam_scores"],
        ),
        (FILE, "write_beam_scores=1,sampling_seed=3", ["sampling_seed", "write_beam_scores"]),
        (
            FILE,
            "force_decode_length=1,skip_eos_postprocess=1",
            ["force_decode_length", "skip_eos_postprocess"],
        ),
        (FILE | {"decode_reference": "r", "decode_to_file": "x"}, "beam_size=2", []),
        (TYPED, "batch_size=7", []),
        ({"eval_use_test_set": True, "decode_to_file": "x"}, "", []),
    ],
)
def test_what_has_no_effect_is_said(asked, decode_hparams, names):
    request, settings, problem = made(asked, decode_hparams)
    request.check(settings, problem)
    assert request.unread(settings, problem) == names


@pytest.mark.parametrize(
    "asked, decode_hparams, name",
    [
        (FILE | TYPED, "", "--decode_interactive"),
        ({"score_file": "pairs"}, "", "--decode_to_file"),
        (FILE | {"partial_targets_file": ""}, "", "--partial_targets_file"),
        (FILE | CT2 | {"t2t_exact": True}, "", "--t2t_exact"),
        (FILE | CT2 | {"ensemble": "x"}, "", "--ensemble"),
        (FILE | CT2, "beam_size=1,sampling_method=random", "sampling_method"),
        (FILE | {"decode_reference": "r"}, "identity_output=1", "identity_output"),
    ],
)
def test_what_would_be_another_thing_is_refused(asked, decode_hparams, name):
    with pytest.raises(UserError, match=name):
        request, settings, problem = made(asked, decode_hparams)
        request.check(settings, problem)

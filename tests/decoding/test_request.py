"""What t2t-decoder refuses before anything is loaded."""

import pytest

from t2t_repro import registry
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError

TYPED, FILE = {"decode_interactive": True}, {"decode_from_file": "in"}


def check(asked, decode_hparams=""):
    settings = DecodeHParams.parse(decode_hparams)
    problem = registry.get_problem("algorithmic_identity_decimal40")
    given = frozenset(asked)
    DecodeRequest(**asked, given=given).check(settings, problem)


@pytest.mark.parametrize(
    "asked, decode_hparams, message",
    [
        (TYPED | {"decode_to_file": "x"}, "", "--decode_to_file has no effect on --decode_interac"),
        (
            TYPED,
            "num_samples=3",
            "num_samples has no effect on --decode_int.* Received: num_s",
        ),
        (TYPED, "shards=2", "shards has no effect on --decode_interactive. Received: shards=2."),
        *(
            (
                asked | {"eval_use_test_set": True},
                "",
                f"--eval_use_test_set names a split, and has no effect on --{next(iter(asked))}.",
            )
            for asked in (TYPED, FILE, {"score_file": "pairs", "decode_to_file": "x"})
        ),
        (
            FILE | {"engine": "ctranslate2", "worker_gpu": 2},
            "",
            "--worker_gpu has no effect on --engine=ctranslate2, which computes on the CPU here",
        ),
        (
            FILE | {"engine": "ctranslate2", "engine_dir": "E", "checkpoint_path": "C"},
            "",
            "or --checkpoint_path, of which one is made. Received: E and C. Leave one of the two",
        ),
    ],
)
def test_what_has_no_effect_is_refused(asked, decode_hparams, message):
    with pytest.raises(UserError, match=message):
        check(asked, decode_hparams)


@pytest.mark.parametrize(
    "asked, message",
    [
        (FILE | {"partial_targets_file": ""}, "--partial_targets_file with a value. Received: no"),
        (FILE | {"checkpoint_path": ""}, "Expected --checkpoint_path with a value. Received: no"),
        (FILE | {"ensemble": " ,"}, "--ensemble to name runs, with commas between. Received: ' ,'"),
    ],
)
def test_flags_of_variables_that_are_not_set_are_refused(asked, message):
    with pytest.raises(UserError, match=message):
        check(asked)


def test_a_batch_size_may_stand_in_any_command():
    check(TYPED, "batch_size=7")
    check({"eval_use_test_set": True, "decode_to_file": "x"})


@pytest.mark.parametrize(
    "path, message",
    [
        (".", "Expected --decode_from_file to be a file. Received: ., a folder. Name one of its"),
        ("/dev/null", "Received: /dev/null, a pipe or a device. Write a file first."),
    ],
)
def test_what_is_no_file_is_refused(path, message):
    with pytest.raises(UserError, match=message):
        DecodeRequest(decode_from_file=path).of_shard("")

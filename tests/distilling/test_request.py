"""Flags of t2t-distill that cannot be, or not together."""

import pytest

from t2t_repro import cli
from t2t_repro.bin import distill
from t2t_repro.distilling.request import DistillRequest


@pytest.mark.parametrize(
    "argv, message",
    [
        ([], "Expected --teacher and --output_dir. Received: none."),
        (["--teacher=a"], "Expected --output_dir. Received: none."),
        (["--monolingual=a", "--back_translate=a"], "Expected --monolingual or --back_translate."),
        (["--source_tag=a"], "--source_tag has no effect without --back_translate."),
        (["--notraining_sources"], "Expected something for the teacher to translate."),
        (["--notraining_sources", "--back_translate=a"], "--notraining_sources has no effect with"),
        (["--back_translate=a", "--reverse_teacher=b"], "Expected --reverse_teacher or --back_tra"),
        (["--back_translate=a", "--warm_start"], "Expected --warm_start with a student of the tea"),
        (["--back_translate=/none"], "Expected --back_translate to be files of one sentence a l"),
        (["--monolingual=/none,"], "Expected --monolingual to be files of one sentence a line."),
        (["--back_translate=/none", "--source_tag=a\nb"], "Expected --source_tag on one line."),
        (["--hparams=7"], "Expected \"name=value,name=value\". Received: '7'"),
        (["--n_best=0"], "n_best"),
        (["--engine=none"], "engine"),
    ],
)
def test_wrong_flags_end_in_one_line(argv, message, capsys):
    both = ["--teacher=a", "--output_dir=b"] if argv and argv != ["--teacher=a"] else []
    with pytest.raises(SystemExit) as stopped:
        cli.run("t2t-distill", distill.__doc__, distill.define_flags, distill.main, both + argv)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1 and message in error


def test_a_folder_is_the_same_with_a_slash_behind_it():
    request = DistillRequest(teacher="a/b/", data_dir="/", ensemble="a/,b/,c", output_dir="d")
    assert (request.teacher, request.data_dir, request.ensemble) == ("a/b", "/", "a,b,c")

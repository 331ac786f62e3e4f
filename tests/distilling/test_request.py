"""Flags of t2t-distill that cannot be, or not together."""

import pytest

from t2t_repro import cli
from t2t_repro.bin import distill
from t2t_repro.distilling.request import DistillRequest


@pytest.mark.parametrize(
    "argv, named",
    [
        ([], "--teacher"),
        (["--teacher=a"], "--output_dir"),
        (["--monolingual=a", "--back_translate=a"], "--monolingual"),
        (["--back_translate=a", "--reverse_teacher=b"], "--reverse_teacher"),
        (["--back_translate=a", "--warm_start"], "--warm_start"),
        (["--notraining_sources"], "--notraining_sources"),
        (["--back_translate=/none"], "--back_translate"),
        (["--monolingual=/none,"], "--monolingual"),
        (["--hparams=7"], "7"),
    ],
)
def test_wrong_flags_end_in_one_line(argv, named, capsys):
    both = ["--teacher=a", "--output_dir=b"] if argv and argv != ["--teacher=a"] else []
    with pytest.raises(SystemExit) as stopped:
        cli.run("t2t-distill", distill.__doc__, distill.define_flags, distill.main, both + argv)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1 and named in error


def test_a_folder_is_the_same_with_a_slash_behind_it():
    request = DistillRequest(teacher="a/b/", data_dir="/", ensemble="a/,b/,c", output_dir="d")
    assert (request.teacher, request.data_dir, request.ensemble) == ("a/b", "/", "a,b,c")

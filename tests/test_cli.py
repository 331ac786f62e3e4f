"""What every program shares."""

import contextlib
import dataclasses
import errno
import os

import pytest
from absl import flags

from t2t_repro import cli, requests
from t2t_repro.bin import trainer
from t2t_repro.errors import UserError


def define_flags(f):
    cli.define_run_flags(f)
    flags.DEFINE_bool("fast", False, "Go fast.", flag_values=f)
    flags.DEFINE_integer("steps", 3, "How many.", lower_bound=1, flag_values=f)
    flags.DEFINE_float("most", None, "At most.", flag_values=f)
    flags.DEFINE_float("least", None, "At least.", upper_bound=0.0, flag_values=f)
    flags.DEFINE_integer("share", None, "A share.", -1, 1, flag_values=f)
    flags.DEFINE_enum("way", None, ["on", "back"], "Where.", flag_values=f)
    flags.DEFINE_string("source", None, "Texts.", flag_values=f)
    flags.DEFINE_list("names", None, "Of whom.", flag_values=f)


def run(*argv, main=lambda args: None):
    """Returns the exit code."""
    try:
        cli.run("t2t-test", "What it does.", define_flags, main, list(argv))
    except SystemExit as leave:
        return leave.code
    return 0


def test_the_folder_of_raw_files_is_accepted_and_said_to_be_read_by_t2t_trainer_alone(capsys):
    assert run("--tmp_dir=raw") == 0
    run("--help")
    assert "--tmp_dir=STRING\n      T2T's; not read here: there are" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.run("", "", trainer.define_flags, lambda args: None, ["--help"])
    assert "--tmp_dir=STRING\n      The folder of raw files, as t2t" in capsys.readouterr().out


def test_flags_reach_main_and_nothing_is_global():
    seen = []
    args = ("--steps=5", "--fast", "--hparams", "a=1")
    assert run(*args, main=lambda a: seen.append((a.steps, a.fast, a.hparams))) == 0
    assert seen == [(5, True, "a=1")]
    assert "steps" not in flags.FLAGS


def test_a_home_folder_behind_a_flag_is_found(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    seen = []
    for value in ("~/x", "a~/x", "~"):
        run(f"--hparams={value}", main=lambda a: seen.append(a.hparams))
    assert seen == ["/home/me/x", "a~/x", "~"]


def test_a_folder_of_a_user_whom_nobody_knows(capsys):
    assert run("--hparams=~nosuch/x") == 2
    error = capsys.readouterr().err
    assert "Expected --hparams in a folder that is there. Received: '~nosuch/x', and ~no" in error
    for fine in ("~root/x", "~nosuch", "~5/10 of them"):
        assert run(f"--hparams={fine}") == 0


def test_help_lists_flags_with_defaults(capsys):
    assert run("--help") == 0
    text = capsys.readouterr().out
    assert text.startswith("What it does.")
    assert "--steps=INT\n      How many. (default: 3)" in text
    assert "--[no]fast" in text


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--step=5"], "Unknown flag. Received: '--step'. Did you mean 'steps'"),
        (["--steps=x"], "Expected --steps to be a whole number >= 1. Received: 'x'."),
        (["--steps=0"], "Expected --steps to be a whole number >= 1. Received: '0'."),
        (["--steps", "1: 2"], "Expected --steps to be a whole number >= 1. Received: '1: 2'."),
        (["--steps=" + "9" * 5000], "Received: '" + "9" * 59 + "... (5002 characters)."),
        (["--most=a"], "Expected --most to be a number. Received: 'a'."),
        (["--least=2.5"], "Expected --least to be a number <= 0.0. Received: '2.5'."),
        (["--share=2"], "Expected --share to be a whole number from -1 to 1. Received: '2'."),
        (["--fast=perhaps"], "Expected --fast to be true or false. Received: 'perhaps'."),
        (["--way=up"], "Expected --way to be one of on, back. Received: 'up'."),
        (["--names=a\nb"], "flag --names=a b: Unable to parse the value"),
        (["--steps"], "Expected a value of --steps. Received: none. Write --steps=VALUE."),
        (["--hparams", "--steps=5"], "a value of --hparams. Received: the next flag, '--steps=5'"),
        (["--source=a", "--source", "b"], "Expected --source once; several values stand with co"),
        (["--source=a", "--source", "b"], "Received: 2 times, 'b' the last."),
        (["five"], "Expected flags only. Received: 'five'"),
        (["--use_tpu"], "--use_tpu is not supported: there is no TPU support"),
        (["--noautotune_maximize"], "--autotune_maximize is not supported: there is no hyper"),
        (["--eval_timeout_mins", "9"], "evaluation follows each checkpoint in the same process"),
        (["--job-dir=gs://mine"], "--job-dir is not supported: there is no Cloud ML Engine"),
        (["--task_id=3"], "--task_id is not supported: one t2t-datagen makes all files"),
        (["--keep_timestamp"], "--keep_timestamp is not supported: a file has the time at which"),
        (["--decode_in_memory"], "--decode_in_memory is not supported: call t2t_repro.decoding.tr"),
        (["--decode_to_file=out"], "--decode_to_file is not supported: t2t-decoder takes it"),
        (["--ps_gpu=2"], "--ps_gpu is not supported: there are no parameter servers"),
        (["--model", "lstm"], "--model is not supported: t2t-trainer takes it, and a run says"),
    ],
)
def test_bad_flags_say_how_to_mend(argv, message, capsys):
    assert run(*argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("t2t-test: error: ") and message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "argv",
    [
        ["--nouse_tpu"],
        ["--model=transformer"],
        ["--ps_gpu", "0"],
        ["--autotune_maximize"],
        ["--decode_hparams=", "--decode_from_file=", "--decode_to_file=", "--decode_reference="],
        ["--nodecode_in_memory", "--keep_timestamp=False"],
    ],
)
def test_t2t_flags_at_rest_are_accepted_with_a_warning(argv, capsys):
    assert run(*argv, "--steps=4") == 0
    warnings = capsys.readouterr().err.count("has no effect")
    assert warnings == sum(arg.startswith("-") for arg in argv)


@pytest.mark.parametrize("flag", ["--xla_compile", "--xla_jit_level=1"])
def test_xla_is_left_to_the_trainer(flag, capsys):
    assert run(flag, "--steps=4") == 2
    assert "t2t-trainer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error, message",
    [
        (UserError("Mend this."), "Mend this."),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), "directory: 'x.txt'."),
        (OSError("plain"), "plain"),
    ],
)
def test_errors_become_one_line(error, message, capsys):
    def main(args):
        raise error

    assert run(main=main) == 2
    assert message in capsys.readouterr().err


def test_other_errors_keep_their_traceback():
    def main(args):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(main=main)


def test_a_pipe_that_is_no_ones_result_is_an_error(capsys):
    def main(args):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")  # as of a worker that died

    assert run(main=main) == 2
    assert "Broken pipe" in capsys.readouterr().err


def test_interrupt(capsys):
    def main(args):
        raise KeyboardInterrupt

    assert run(main=main) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    "number, message",
    [
        (errno.EEXIST, "File exists: '/x'. Expected a folder, or none yet: name another."),
        (errno.ENOTDIR, "Not a directory: '/x'. Expected folders before the last name"),
        (errno.EISDIR, "Is a directory: '/x'. Expected a file, or none yet"),
        (errno.ENOENT, "No such file or directory: '/x'. Correct the path."),
        (errno.EACCES, "Permission denied: '/x'. Expected permission"),
        (errno.EROFS, "Read-only file system: '/x'. Expected a file system that can be written"),
        (errno.ENOSPC, "No space left on device: '/x'. Free some space"),
        (errno.EDQUOT, "Disk quota exceeded: '/x'. Free some of your quota"),
        (errno.EIO, "Input/output error: '/x'.\n"),
    ],
)
def test_an_error_of_the_system_says_how_to_mend(number, message, capsys):
    def main(args):
        raise OSError(number, os.strerror(number), "/x")

    assert run(main=main) == 2
    assert capsys.readouterr().err.startswith(f"t2t-test: error: {message}")


def test_a_module_that_is_run_runs_its_program(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["t2t-test", "5"])
    seen = []
    made = [
        cli.program(module, "t2t-test", "Doc.", define_flags, seen.append, positional="steps")
        for module in ("t2t_repro.bin.test", "__main__")
    ]
    assert [args.steps for args in seen] == [5]
    made[0]()
    assert len(seen) == 2
    monkeypatch.setattr("sys.argv", ["t2t-test", "5", "6"])
    with pytest.raises(SystemExit):
        made[1]()
    assert "Expected flags only. Received: '6'." in capsys.readouterr().err


@pytest.mark.parametrize("argv", (["5", "--fast"], ["--fast", "5"], ["--fast", "--", "5"]))
def test_what_may_stand_alone_may_stand_anywhere(argv, capsys):
    seen = []
    cli.run("t2t-test", "Doc.", define_flags, seen.append, argv, positional="steps")
    assert [(args.steps, args.fast) for args in seen] == [(5, True)]
    for given in ([*argv, "--steps=6"], [*argv, "6"]):
        with pytest.raises(SystemExit):
            cli.run("t2t-test", "Doc.", define_flags, seen.append, given, positional="steps")
        assert "Expected flags only. Received: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.run("t2t-test", "Doc.", define_flags, seen.append, ["five"], positional="steps")
    assert "--steps" in capsys.readouterr().err
    assert len(seen) == 1


def test_a_flag_that_nothing_reads_is_refused(capsys):
    def check(args):
        needs = {"steps": "fast", "data_dir": ("fast", "output_dir"), "problem": "most"}
        cli.check_needs(args, needs)

    for flags_given, message in [
        (["--steps=3"], "--steps has no effect without --fast. Received: it alone. Leave it out."),
        (["--data_dir=a"], "--data_dir has no effect without --fast or --output_dir."),
        (["--steps=3", "--nofast"], "--steps has no effect without --fast."),
    ]:
        assert run(*flags_given, main=check) == 2
        assert message in capsys.readouterr().err
    assert run("--steps=3", "--fast", "--data_dir=a", main=check) == 0
    assert run("--data_dir=a", "--output_dir=b", main=check) == 0
    assert run("--problem=a", "--most=0", main=check) == 0  # which is a value
    assert run("--problem=a", main=check) == 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trip:
    """A request that is made of flags."""

    where: str = requests.flag(dataclasses.MISSING, "The place.")
    days: int | None = requests.flag(None, "How long.", least=2, most=9)
    speed: float = requests.flag(1.5, "How fast.", least=0)
    by: str = requests.flag("train", "With what.", choices=("train", "ship"))
    alone: bool = requests.flag(False, "With nobody.")
    given: frozenset[str] = frozenset()


def test_a_request_says_its_flags_once(capsys):
    seen = []

    def go(*argv):
        with contextlib.suppress(SystemExit):
            main = lambda args: seen.append(cli.request(args, Trip))  # noqa: E731
            cli.run("t2t-trip", "", lambda f: cli.define_request_flags(f, Trip), main, list(argv))

    go("--where=Bonn", "--days=3", "--by=ship")
    given = frozenset({"where", "days", "by"})
    assert seen == [Trip(where="Bonn", days=3, by="ship", given=given)]
    for wrong in ("--days=1", "--days=10", "--speed=-1", "--by=foot", "--given=a"):
        go(wrong)
        assert "error: " in capsys.readouterr().err
    assert len(seen) == 1
    go("--help")
    said = capsys.readouterr().out
    assert "--days=INT\n      How long." in said and "--by=STRING ENUM" in said
    assert "--[no]alone\n      With nobody. (default: False)" in said


def test_names_that_are_not_utf8(capsys, tmp_path, monkeypatch):
    def define(f):
        flags.DEFINE_string("data_dir", None, "A folder.", flag_values=f)

    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    for argv, name in (([f"--data_dir={folder}"], "--data_dir"), ([], "the working directory")):
        monkeypatch.chdir(tmp_path if argv else folder)
        with pytest.raises(SystemExit) as stop:
            cli.run("t2t-x", "", define, lambda args: pytest.fail("it ran"), argv)
        assert stop.value.code == 2
        error = capsys.readouterr().err
        assert f"Expected {name} to be text in UTF-8. Received: '" in error and "udce9" in error


def test_a_word_that_nobody_reads_to_its_end_is_cut_in_the_middle(capsys):
    assert run("a" * 5000) == 2
    assert f"Received: '{'a' * 98}...{'a' * 97}'. Write" in capsys.readouterr().err

"""What every program shares."""

import contextlib
import dataclasses

import pytest
from absl import flags

from t2t_repro import cli, fields
from t2t_repro.errors import Interrupted, UserError


def define_flags(f):
    cli.define_run_flags(f)
    cli.define_task_flags(f)
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


def test_flags_reach_main_and_nothing_is_global(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    seen = []
    for value in ("a=1", "~/x", "a~/x"):
        args = ("--steps=5", "--fast", "--hparams", value)
        assert run(*args, main=lambda a: seen.append((a.steps, a.fast, a.hparams))) == 0
    assert seen == [(5, True, "a=1"), (5, True, "/home/me/x"), (5, True, "a~/x")]
    assert "steps" not in flags.FLAGS


@pytest.mark.parametrize(
    "argv, name",
    [
        *((["--step=5"], "steps"), (["--steps=x"], "--steps"), (["--steps=0"], "--steps")),
        *((["--most=a"], "--most"), (["--least=2.5"], "--least"), (["--share=2"], "--share")),
        *((["--fast=perhaps"], "--fast"), (["--way=up"], "back"), (["--names=a\nb"], "--names")),
        *((["--steps"], "steps"), (["five"], "five"), (["--data_dir="], "--data_dir")),
        (["--source=a", "--source", "b"], "--source"),
        *((["--use_tpu"], "--use_tpu"), (["--noautotune_maximize"], "--autotune_maximize")),
        *((["--xla_compile"], "t2t-trainer"), (["--decode_to_file=out"], "t2t-decoder")),
        (["--eval_timeout_mins", "9"], "--eval_timeout_mins"),
    ],
)
def test_bad_flags_are_one_line_that_names_them(argv, name, capsys):
    assert run(*argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("t2t-test: error: ") and name in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "argv",
    [
        ["--nouse_tpu", "--model=transformer", "--keep_timestamp=False"],
        ["--ps_gpu", "0"],
        ["--decode_hparams=", "--tmp_dir=raw"],
    ],
)
def test_t2t_flags_at_rest_are_accepted_with_a_warning(argv, capsys):
    assert run(*argv, "--steps=4") == 0
    warnings = capsys.readouterr().err.count("has no effect")
    assert warnings == sum(arg.startswith("-") for arg in argv)


def test_a_run_says_what_it_is_and_t2ts_flags_may_say_it_too():
    seen = []
    argv = ["--output_dir=o", "--problem=p", "--model", "m", "--hparams="]
    cli.run("t2t-decoder", "", cli.define_run_flags, lambda a: seen.append(cli.run_flags(a)), argv)
    named = {"problem": "p", "hparams_set": None, "hparams": "", "model": "m"}
    assert seen == [{"output_dir": "o", "data_dir": None, **named}]
    with pytest.raises(SystemExit):
        cli.run("t2t-show", "", cli.define_run_flags, seen.append, argv)


@pytest.mark.parametrize(
    "error, code, name",
    [
        (UserError("Fix\nthis."), 2, "this."),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), 2, "x.txt"),
        (OSError("plain"), 2, "plain"),
        (RuntimeError("RESOURCE: No space left"), 2, "left"),  # TensorFlow's
        (Interrupted(15), 143, "SIGTERM"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(error, code, name, capsys):
    def main(args):
        raise error

    assert run(main=main) == code
    said = capsys.readouterr().err
    assert name in said and said.count("\n") == 1


def test_a_module_that_is_run_runs_its_program(monkeypatch):
    monkeypatch.setattr("sys.argv", ["t2t-test", "5"])
    seen = []
    for module in ("t2t_repro.bin.test", "__main__"):
        cli.program(module, "t2t-test", "Doc.", define_flags, seen.append, positional="steps")
    assert [args.steps for args in seen] == [5]


@pytest.mark.parametrize("argv", (["5", "--fast"], ["--fast", "5"], ["--fast", "--", "5"]))
def test_what_may_stand_alone_may_stand_anywhere(argv, capsys):
    seen = []
    cli.run("t2t-test", "Doc.", define_flags, seen.append, argv, positional="steps")
    assert [(args.steps, args.fast) for args in seen] == [(5, True)]
    for given in ([*argv, "--steps=6"], [*argv, "6"], ["five"]):
        with pytest.raises(SystemExit):
            cli.run("t2t-test", "Doc.", define_flags, seen.append, given, positional="steps")
        assert capsys.readouterr().err.count("\n") == 1
    assert len(seen) == 1


def test_a_flag_that_nothing_reads_is_named(capsys):
    assert run("--steps=3", main=lambda args: cli.warn_unread(args, ["steps", "most"])) == 0
    said = capsys.readouterr().err
    assert "--steps" in said and "--most" not in said


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trip:
    """A request that is made of flags."""

    where: str = fields.flag(dataclasses.MISSING, "The place.")
    days: int | None = fields.flag(None, "How long.", least=2, most=9)
    speed: float = fields.flag(1.5, "How fast.", least=0)
    by: str = fields.flag("train", "With what.", choices=("train", "ship"))
    alone: bool = fields.flag(False, "With nobody.")
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

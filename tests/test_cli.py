"""What every program shares."""

import dataclasses

import pytest
from absl import flags

from t2t_repro import cli
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trip:
    """A request that is made of flags."""

    fast: bool = flag(False, "Go fast.")
    steps: int = flag(3, "How many.", least=1)
    most: float | None = flag(None, "At most.", most=0)
    share: int | None = flag(None, "A share.", least=-1, most=1)
    way: str = flag("on", "Where.", choices=("on", "back"))
    source: str = flag(dataclasses.MISSING, "Texts.")
    names: tuple[str, ...] = flag((), "Of whom.")
    given: frozenset[str] = frozenset()


FLAGS = (cli.RunFlags, cli.TaskFlags, Trip)


def run(*argv, main=lambda args: None, name="t2t-test", requests=FLAGS, **more):
    """Returns the exit code."""
    try:
        cli.program("", name, "What it does.", requests, main, **more)(list(argv))
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
        *((["--most=a"], "--most"), (["--most=2.5"], "--most"), (["--share=-2"], "--share")),
        *((["--fast=perhaps"], "--fast"), (["--way=up"], "back"), (["--given=a"], "given")),
        *((["--steps"], "steps"), (["five"], "five"), (["--data_dir="], "--data_dir")),
        *((["--source=a", "--source", "b"], "--source"), (["--steps=4", "--steps=5"], "--steps")),
        *((["--fast", "--nofast"], "--fast"), (["--way=on", "--way=back"], "--way")),
        *((["--use_tpu"], "--use_tpu"), (["--keep_timestamp"], "--keep_timestamp")),
        *((["--xla_compile"], "t2t-trainer"), (["--export_saved_model"], "t2t-exporter")),
        (["--ps_gpu", "9"], "--ps_gpu"),
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
        ["--decode_hparams=beam_size=2", "--tmp_dir=raw", "--locally_shard_to_cpu"],
    ],
)
def test_t2t_flags_at_rest_are_accepted_with_one_warning(argv, capsys):
    assert run(*argv, "--steps=4") == 0
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1 and "\nt2t-test: warning: " in f"\n{warning}"
    assert all(arg.partition("=")[0].removeprefix("--no") in warning for arg in argv)


def test_all_t2t_flags_that_would_mean_more_are_named_at_once(capsys):
    assert run("--use_tpu", "--tmp_dir=raw", "--ps_gpu=2", "--sync") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--tmp_dir" not in error
    assert all(name in error for name in ("--use_tpu", "--ps_gpu=2", "--sync"))


def test_a_run_says_what_it_is_and_t2ts_flags_may_say_it_too():
    seen = []
    argv = ["--output_dir=o", "--problem=p", "--model", "m", "--hparams=a=1", "--hparams=b=2"]
    asked = {"main": lambda a: seen.append(cli.run_flags(a)), "requests": [cli.RunFlags]}
    assert run(*argv, name="t2t-decoder", **asked) == 0
    named = {"problem": "p", "hparams_set": None, "hparams": "a=1,b=2", "model": "m"}
    assert seen == [{"output_dir": "o", "data_dir": None, **named}]
    assert run(*argv, name="t2t-show", **asked) == 2
    assert run("--model=a", "--model=b", name="t2t-decoder", **asked) == 2


@pytest.mark.parametrize(
    "error, code, name",
    [
        (UserError("Fix\nthis."), 2, "this."),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), 2, "x.txt"),
        (OSError("plain"), 2, "plain"),
        (RuntimeError("RESOURCE: No space left"), 2, "left"),  # TensorFlow's
        (MemoryError(), 2, "--find_batch_size"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nto allocate 9"), 2, "batch_size"),
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
        cli.program(module, "t2t-test", "Doc.", FLAGS, seen.append, positional="steps")
    assert [args.steps for args in seen] == [5]


@pytest.mark.parametrize("argv", (["5", "--fast"], ["--fast", "5"], ["--fast", "--", "5"]))
def test_what_may_stand_alone_may_stand_anywhere(argv, capsys):
    seen = []
    alone = {"main": seen.append, "positional": "steps"}
    assert run(*argv, **alone) == 0
    assert [(args.steps, args.fast) for args in seen] == [(5, True)]
    for given in ([*argv, "--steps=6"], [*argv, "6"], ["five"]):
        assert run(*given, **alone) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert len(seen) == 1


def test_a_flag_that_nothing_reads_is_named(capsys):
    assert run("--steps=3", main=lambda args: cli.warn_unused(args, ["steps", "most"])) == 0
    said = capsys.readouterr().err
    assert "--steps" in said and "--most" not in said


def test_settings_of_several_flags_are_joined():
    seen = []
    run("--hparams=a=1", "--hparams", "b=2,c=3", main=lambda args: seen.append(args.hparams))
    assert seen == ["a=1,b=2,c=3"]


def test_a_request_says_its_flags_once(capsys):
    seen = []
    argv = ("--source=a", "--share=1", "--way=back", "--names=b", "--names=c", "--steps=4")
    assert run(*argv, main=lambda args: seen.append(cli.request(args, Trip))) == 0
    given = frozenset({"source", "share", "way", "names", "steps"})
    names = ["b", "c"]
    assert seen == [Trip(source="a", share=1, way="back", names=names, steps=4, given=given)]
    assert run("--help") == 0
    said = capsys.readouterr().out
    assert "--share=INT\n      A share." in said and "--way=STRING ENUM" in said
    assert "--[no]fast\n      Go fast. (default: False)" in said

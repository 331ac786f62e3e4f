"""What is proposed keeps the user's own flags, however they were written."""

import pathlib
import shlex
import types

import pytest
from absl import flags as absl_flags

from t2t_repro.bin import trainer
from t2t_repro.training import alternatives, estimate
from t2t_repro.training.machine import Device, Machine

GB = 10**9


@pytest.mark.parametrize(
    "flags",
    [
        "--hparams=hidden_size=64 --output_dir=r --yes --keep_checkpoint_max=20",
        "--hparams hidden_size=64 --output_dir r --yes --keep_checkpoint_max 20",
        "-hparams=hidden_size=64 -output_dir r -yes -keep_checkpoint_max=20",
    ],
)
def test_a_flag_more_takes_the_place_of_its_own(flags):
    request = types.SimpleNamespace(command=["t2t-trainer", *shlex.split(flags)])
    changed = alternatives._with_hparam(request, "batch_size", 512)
    assert alternatives._again(request, changed) == (
        "t2t-trainer --output_dir=r --yes --keep_checkpoint_max=20 "
        "--hparams=hidden_size=64,batch_size=512"
    )
    assert alternatives._again(request, "--keep_checkpoint_max=1") == (
        "t2t-trainer --hparams=hidden_size=64 --output_dir=r --yes --keep_checkpoint_max=1"
    )


def test_an_hparam_that_was_given_is_replaced():
    flags = "--hparams=batch_size=65536,attention_dropout_broadcast_dims=0,1,hidden_size=64"
    request = types.SimpleNamespace(command=["t2t-trainer", flags])
    changed = alternatives._with_hparam(request, "batch_size", 8192)
    said = "--hparams=attention_dropout_broadcast_dims=0,1,hidden_size=64,batch_size=8192"
    assert changed == said


def test_what_a_shell_would_read_is_quoted():
    request = types.SimpleNamespace(command=["t2t-trainer", "--output_dir=my runs", "--plan"])
    flag = "--hparams=model_dir=a b"
    words = shlex.split(alternatives._again(request, flag))
    assert words == ["t2t-trainer", "--output_dir=my runs", flag]


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Returns the request of a command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def ask(words):
        given = absl_flags.FlagValues()
        trainer.define_flags(given)
        monkeypatch.setattr("sys.argv", words)
        given(words)
        return trainer.request_of(given)

    return ask


@pytest.mark.parametrize(
    "flags, lost",
    [
        (
            "--train_source=a.en --train_target=a.de --output_dir='my run' --vocab_size=700 "
            "--hparams_set=transformer_big --hparams=batch_size=65536 --worker_gpu=1",
            ["--hparams=batch_size=65536"],
        ),
        ("--hparams_set=transformer_big --plan --model=transformer", ["--model=transformer"]),
        (
            "--problem=translate_ende_wmt14 --data_dir=d --generate_data --tmp_dir=raw "
            "--output_dir=o --hparams_set=transformer_big --random_seed=3 --train_steps=900000",
            ["--train_steps=900000"],
        ),
    ],
)
def test_a_smaller_model_is_of_the_users_own_command(asked, flags, lost):
    for name in ("a.en", "a.de"):
        pathlib.Path(name).write_text("a dog\n" * 20_000)
    request = asked(["t2t-trainer", *shlex.split(flags)])
    small = Machine((Device("Small", 8 * GB),), "CPU", 1, 150e9)
    found = alternatives.of(request, estimate.of(request, small))
    (smaller,) = (each for each in found if each.what.startswith("the same data, a model of"))
    words = shlex.split(smaller.command)
    replaced = ("--hparams_set", "--output_dir", "--plan")
    kept = [word for word in shlex.split(flags) if word.partition("=")[0] not in replaced]
    assert set(kept) - set(words) == set(lost)
    of_files = "--train_source" in flags  # whose data lie in the run
    assert of_files != any(word.startswith("--data_dir=") for word in words)
    other = asked(words)
    config, before = other.config, request.config
    assert (config.problem, config.random_seed) == (before.problem, before.random_seed)
    assert config.hparams_set in alternatives._SMALLER and other.run.path != request.run.path
    assert other.job.options == request.job.options and not other.foresight.plan
    captions = [each.command for each in found if "=transformer_multi30k " in each.command]
    assert ["--worker_gpu=1" in command for command in captions] == ["--worker_gpu=1" in flags]
    assert other.job.vocab_size == request.job.vocab_size
    assert f"--train_steps={other.plan.train_steps}" in words

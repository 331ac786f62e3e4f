import importlib
import json
import os
import signal
import textwrap

import pytest

from t2t_repro import signals
from t2t_repro.config import HParams
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.training import batch_size
from t2t_repro.training.batch_size import Trial


def trials(limit, start, **options):
    def attempt(size, seconds):
        return Trial(size, size <= limit, reason="" if size <= limit else "too large")

    return [trial.batch_size for trial in batch_size.search(attempt, start, **options)]


@pytest.mark.parametrize(
    "limit, start, expected",
    [
        (5000, 1000, [1000, 2000, 4000, 8000, 6000, 5000, 5500]),
        (5000, 16000, [16000, 8000, 4000, 6000, 5000, 5500]),
        (0, 4, [4, 2, 1]),
    ],
)
def test_the_search_doubles_and_halves_and_goes_between(limit, start, expected):
    assert trials(limit, start) == expected


def test_the_search_is_bounded_in_time():
    clock = iter(range(0, 1000, 10))
    assert trials(10**9, 1, seconds=35, clock=lambda: next(clock)) == [1, 2]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes a trial of lines of Python, in which `size` is the batch_size."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(*lines):
        name = f"fake_{tmp_path.name}_{len(list(tmp_path.glob('*.py')))}"
        body = textwrap.indent("\n".join(lines), "    ")
        (tmp_path / f"{name}.py").write_text(f"import os, sys, time\ndef trial(size):\n{body}\n")
        return importlib.import_module(name).trial

    return make


SAYS = "print('batch size tried: ' + '{\"peak_mb\": %d, \"step_seconds\": 0.5}' % (size / 10))"


def test_a_trial_reads_what_the_steps_took(fake, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "of a cluster")
    trial_of = fake("assert 'TF_CONFIG' not in os.environ", "print('other things')", SAYS)
    trial = batch_size.run_trial(trial_of, 4000, 500, 20)
    assert trial == Trial(4000, True, 400.0, 0.5)
    assert str(trial) == "batch_size 4,000: 400 MB, 0.50 s a step"
    over = batch_size.run_trial(trial_of, 6000, 500, 20)
    assert over == Trial(6000, False, 600.0, reason="more than 500 MB")
    assert str(over) == "batch_size 6,000: 600 MB, does not fit: more than 500 MB"


@pytest.mark.parametrize(
    "line, limit, seconds, reason",
    [
        ("print('t2t-trainer: error: ... Received: out of memory. ...'); sys.exit(2)", 900, 20,
         "out of memory"),
        ("print('terminate called after throwing std::bad_alloc', flush=True); os.abort()", 900, 20,
         "out of memory"),
        ("os.kill(os.getpid(), 9)", 900, 20, "killed, as the system does"),
        ("x = bytearray(10**8); time.sleep(30)", 60, 20, "more than 60 MB"),
        ("time.sleep(30)", 900, 0.2, "no end within its time"),
    ],
)  # fmt: skip
def test_a_trial_that_does_not_fit_says_why(fake, line, limit, seconds, reason):
    trial = batch_size.run_trial(fake(line), 7, limit, seconds)
    assert not trial.fits and trial.reason.startswith(reason)


def test_a_trial_with_another_fault_ends_the_search(fake):
    line = "print('t2t-trainer: error: Unknown flag.'); sys.exit(2)"
    message = "Expected a trial to make its steps. Received: t2t-trainer: error: Unknown flag."
    with pytest.raises(UserError, match=message):
        batch_size.run_trial(fake(line), 7, 900, 20)


def test_what_was_found_is_printed_and_written(fake, tmp_path, capsys):
    best = batch_size.find(fake(SAYS), 3000, 500, tmp_path / "batch-size.json")
    assert best.batch_size == 4875  # 3000, 6000, 4500, 5250, 4875
    out = capsys.readouterr().out
    assert out.startswith("Trying batch sizes within 500 MB, for 15 minutes at most.\n")
    assert out.endswith("The largest that fits: --hparams=batch_size=4875\n")
    content = json.loads((tmp_path / "batch-size.json").read_text())
    assert content["batch_size"] == 4875 and content["limit_mb"] == 500
    assert [trial["fits"] for trial in content["trials"]] == [True, False, True, False, True]
    with pytest.raises(UserError, match="batch_size"):
        batch_size.find(fake("os.kill(os.getpid(), 9)"), 2, 500, None)


def test_a_signal_ends_the_search_and_says_that_it_begins_anew(tmp_path, monkeypatch):
    def run_trial(trial, size, limit_mb, seconds):
        if size == 8:
            os.kill(os.getpid(), signal.SIGINT)
        return Trial(size, True)

    monkeypatch.setattr(batch_size, "run_trial", run_trial)
    with pytest.raises(Interrupted) as stopped, signals.watching():
        batch_size.find(None, 2, 500, tmp_path / "batch-size.json")
    said = "stopped by SIGINT after 2 trials. The same command begins anew."
    assert (str(stopped.value), stopped.value.exit_code) == (said, 130)
    assert not (tmp_path / "batch-size.json").exists()


def test_free_memory_is_some():
    assert 10 < batch_size.free_mb() < 10**8


def test_the_largest_batches():
    hparams = HParams(batch_size=1000, max_length=100, min_length_bucket=8, length_bucket_step=1.5)
    shapes = [batch["inputs"].shape for batch in batch_size.largest_batches(hparams, 300)]
    # The last bucket holds 10 of up to 100; no other holds more tokens.
    assert shapes == [(10, 100)]
    # Of up to 70: most tokens in 36 of 26, and in 15 of 59 most pairs of them.
    shapes = [batch["targets"].shape for batch in batch_size.largest_batches(hparams, 70)]
    assert shapes == [(15, 59), (36, 26)]
    packed = batch_size.largest_batches(hparams, 256, packed_length=256)
    assert [batch["inputs"].shape for batch in packed] == [(3, 256), (36, 26)]
    fixed = HParams(batch_size=6, max_length=50, use_fixed_batch_size=True)
    (batch,) = batch_size.largest_batches(fixed, 40)
    assert batch["inputs"].shape == (6, 40)


def test_a_trial_gets_the_flags_of_the_run():
    argv = [
        "--problem=x", "--find_batch_size", "--memory_limit_mb", "900", "--hparams=a=1",
        "--memory_limit_mb=7", "--generate_data", "--vocab_size=300", "--schedule=train",
        "--output_dir", "run",
    ]  # fmt: skip
    kept = batch_size.flags_of_a_trial(argv)
    made = ["--generate_data", "--vocab_size=300"]
    assert kept == ["--problem=x", "--hparams=a=1", *made, "--output_dir", "run"]

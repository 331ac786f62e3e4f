"""t2t-compare: its flags, and a kill in the middle."""

import csv
import os
import signal
import subprocess
import sys
import time

import pytest
from absl import flags as absl_flags

from t2t_repro import registry
from t2t_repro.bin import compare
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.study import results, variants

PROBLEM = "algorithmic_reverse_binary40_test"


@pytest.fixture
def flags(tmp_path):
    return [
        *(f"--problem={PROBLEM}", "--hparams_set=transformer_test", f"--data_dir={tmp_path}"),
        *(f"--output_dir={tmp_path / 'comparison'}", "--depths=1", "--warmup=0"),
        *("--seeds=2", "--train_steps=4"),
    ]


def request_of(argv) -> variants.Request:
    args = absl_flags.FlagValues()
    compare.define_flags(args)
    args(["t2t-compare", *argv])
    return compare.request_of(args)


@pytest.mark.parametrize(
    "flag, named",
    [
        ("--sequences=none/dan,x/da", "'x'"),
        ("--sequences=n", "--sequences"),
        ("--depths=two", "--depths"),
        ("--depths=2,2", "--depths"),
        ("--depths=0", "--depths"),
        ("--warmup=,", "--warmup"),
        ("--warmup=-1", "--warmup"),
        ("--hparams_set=transformer_bas", "transformer_base"),
        ("--problem=translate_ende_wmt32k_packed", "translate_ende_wmt32k_packed"),
        ("--hparams_sets=transformer_base_v1,transformer_base_v2", "--hparams_set"),
        ("--decode_hparams=beam_size=0", "beam_size"),
    ],
)
def test_bad_flags_are_named(flags, tmp_path, flag, named):
    with pytest.raises(UserError, match=named):
        request_of([*flags, flag])
    assert not (tmp_path / "comparison").exists()


@pytest.mark.parametrize("missing", ["problem", "hparams_set", "data_dir", "output_dir"])
def test_what_is_missing_is_named(flags, missing):
    with pytest.raises(UserError, match=f"--{missing}"):
        request_of([flag for flag in flags if not flag.startswith(f"--{missing}=")])


def test_what_is_not_given_is_the_sets_own(flags):
    given = [flag for flag in flags if not flag.startswith(("--depths", "--warmup", "--seeds"))]
    plan = request_of(given).grid
    assert (plan.depths, plan.warmups, plan.seeds, plan.bleu_sentences) == ((2,), (8000,), 3, 0)
    assert request_of([*given, "--hparams=num_hidden_layers=3"]).grid.depths == (3,)
    assert request_of([*given, "--problem=translate_ende_multi30k"]).grid.bleu_sentences == 200
    student = "--hparams_set=transformer_own_text_student"
    rate = f"--hparams=learning_rate_schedule={variants.NAMED_SCHEDULE}"
    plan = request_of([*given, student, rate]).grid
    hparams = plan.hparams_of(plan.cells()[0])
    assert plan.depths == (None,)
    assert hparams.encoder_layers != hparams.decoder_layers == 1


def test_sets_are_compared_as_they_are(flags):
    given = [flag for flag in flags if flag.startswith(("--problem", "--data", "--output"))]
    sets = "--hparams_sets=transformer_base_v1,transformer_base_v2"
    request = request_of([*given, sets, "--worker_gpu=2"])
    assert request.grid.names == ("transformer_base_v1", "transformer_base_v2")
    assert request.grid.settings() == [(None, None)] and request.worker_gpu == 2
    assert request.grid.eval_steps == 0  # batches of sets are of other sentences


def table(output_dir):
    rows = list(csv.DictReader((output_dir / "results.csv").open()))
    return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows]


@pytest.mark.slow
def test_killed_in_the_middle_it_finishes_the_same_table(flags, tmp_path):
    data_dir = tmp_path / "real"
    generate_data(Job(registry.get_problem(PROBLEM), data_dir, tmp_path))
    flags = [*flags, f"--data_dir={data_dir}", "--seeds=1", "--train_steps=200"]
    command = [sys.executable, "-m", "t2t_repro.bin.compare", *flags]
    command += ["--evaluations=20", "--bleu_sentences=5"]
    whole = tmp_path / "whole"
    subprocess.run([*command, f"--output_dir={whole}"], check=True, timeout=900)
    output_dir = tmp_path / "comparison"
    plan = request_of(flags).grid
    second = results.run_of(output_dir, plan, plan.cells()[1])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 600
    while not list(second.checkpoints_dir.glob("ckpt-?0")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(3)  # the cell's process notices
    killed_at = [row["step"] for row in second.read_metrics()][-1]
    assert killed_at < 200 and not (second.path / results.RESULT_FILE).exists()
    subprocess.run(command, check=True, timeout=900)
    assert len(second.config().commands) == 2
    assert table(output_dir) == table(whole)
    for name in ("curves.csv", "norms.csv"):
        assert (output_dir / name).read_text() == (whole / name).read_text()

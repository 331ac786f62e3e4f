"""t2t-compare: its flags, and a kill in the middle."""

import csv
import os
import signal
import subprocess
import sys
import time

import pytest
from absl import flags as absl_flags

from t2t_repro import registry, schema
from t2t_repro.bin import compare
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.stages import Record
from t2t_repro.study import compared, results
from t2t_repro.study.study import Study
from tests.study.studies import PROBLEM


@pytest.fixture
def flags(tmp_path):
    return [
        *(f"--problem={PROBLEM}", "--hparams_set=transformer_test", f"--data_dir={tmp_path}"),
        *(f"--output_dir={tmp_path / 'comparison'}", "--depths=1", "--warmup=0"),
        *("--seeds=2", "--train_steps=4"),
    ]


def study_of(argv) -> Study:
    args = absl_flags.FlagValues()
    compare.define_flags(args)
    args(["t2t-compare", *argv])
    return compare.study_of(args)


@pytest.mark.parametrize(
    "flag, named",
    [
        ("--depths=two", "--depths"),
        ("--warmup=,", "--warmup"),
        ("--hparams_set=transformer_bas", "transformer_base"),
        ("--problem=translate_ende_wmt32k_packed", "translate_ende_wmt32k_packed"),
        *((f"--{name}=", f"--{name}") for name in ("problem", "hparams_set")),
    ],
)
def test_bad_flags_are_named(flags, flag, named):
    with pytest.raises(UserError, match=named):
        study_of([*flags, flag])


def test_what_is_not_given_is_the_sets_own(flags):
    given = [flag for flag in flags if not flag.startswith(("--depths", "--warmup", "--seeds"))]
    study = study_of(given)
    assert (study.depths, study.warmups, study.seeds, study.bleu_sentences) == (
        [None],
        [None],
        3,
        0,
    )
    assert study.names == list(compared.SEQUENCES)
    assert study_of([*given, "--problem=translate_ende_multi30k"]).bleu_sentences == 200
    (post, _) = study_of([*given, "--hparams_set=transformer_own_text_student"]).variants
    assert post.hparams.encoder_layers != post.hparams.decoder_layers == 1


def test_sets_are_compared_as_they_are(flags):
    sets = "--hparams_sets=transformer_base_v1,transformer_base_v2"
    given = [flag for flag in flags if flag.startswith(("--problem", "--data", "--output"))]
    study = study_of([*given, sets, "--t2t_usr_dir=/mine"])
    assert study.names == ["transformer_base_v1", "transformer_base_v2"]
    assert study.settings == [(None, None)]
    # Batches of sets are of other sentences.
    assert study.flags == ("--eval_steps=0", "--t2t_usr_dir=/mine", "--yes")


def table(output_dir):
    rows = list(csv.DictReader((output_dir / "results.csv").open()))
    return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows]


@pytest.mark.slow
def test_killed_in_the_middle_it_finishes_the_same_table(flags, tmp_path):
    data_dir = tmp_path / "real"
    generate_data(Job(registry.get_problem(PROBLEM), data_dir, tmp_path))
    flags = [*flags, f"--data_dir={data_dir}", "--seeds=1", "--train_steps=200"]
    command = [sys.executable, "-m", "t2t_repro.bin.compare", *flags]
    command += ["--bleu_sentences=5"]
    whole = tmp_path / "whole"
    subprocess.run([*command, f"--output_dir={whole}"], check=True, timeout=900)
    output_dir = tmp_path / "comparison"
    study = study_of([*command[3:]])
    second = study.run_of(study.cells()[1])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 600
    while not list(second.checkpoints_dir.glob("ckpt-?5")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(3)  # the cell's process notices
    killed_at = [row["step"] for row in second.read_metrics()][-1]
    assert killed_at < 200 and results.load_cell(study, study.cells()[1]) is None
    subprocess.run(command, check=True, timeout=900)
    assert len(second.config().commands) == 2
    assert table(output_dir) == table(whole)
    for cell in study.cells():
        folder = study.run_of(cell).path.relative_to(output_dir)
        files = [f / folder / results.RECORD_FILE for f in (output_dir, whole)]
        ends = [schema.read(file, Record) for file in files]
        one, other = (end.stages[results.MEASUREMENT].found for end in ends)
        assert one == other

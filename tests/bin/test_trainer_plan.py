"""The plan before a run: what it says, when it stops, and what it suggests."""

import dataclasses
import os
import pathlib
import re
import resource
import subprocess
import sys

import pytest

from t2t_repro import imports, plan, registry
from t2t_repro.bin import trainer
from tests.machines import EIGHT, GB, TWO_CORES
from tests.programs import call


def run(*argv):
    call(trainer, *argv)


def test_the_users_line_on_two_cores_stops_with_one_suggestion(on, refused):
    begun = on(TWO_CORES)
    said = refused(trainer, "--hparams_set=transformer_big")
    assert not begun and not pathlib.Path("t2t_runs").exists()
    assert said.out.startswith("transformer_big on translate_ende_wmt14:\n")
    for part in (
        "training-parallel-europarl",
        "about 214,208,512 parameters, vocabulary of about 37,000",
        "2,048 tokens x 1 CPU = 2,048 an update: 1,659 source and 1,659",
        "25,000",
        "1 x Two Cores, 25.0 GB",
        "250,000 steps of 19.8 s: 57.4 days",
        "21 x 2.6 GB in t2t_runs/transformer_big; 500 GB are free",
    ):
        assert part in said.out
    (error,) = said.err.splitlines()
    assert "57.4 days" in error and "--yes" in error
    suggested = error.partition("t2t-trainer --hparams_set")[2].split()
    run(f"--hparams_set{suggested[0]}", *suggested[1:])
    job, (request, _, made) = begun
    assert made["hours"] <= 48 and job.problem.name == made["problem"] and not made["lacks"]


def test_it_prints_and_stops(on, capsys):
    begun = on(TWO_CORES)
    run("--hparams_set=transformer_big", "--plan")
    said = capsys.readouterr()
    assert not begun and said.err == "" and not pathlib.Path("t2t_runs").exists()
    assert "57.4 days" in said.out.splitlines()[-1]
    run("--plan")
    assert "algorithmic_reverse_quickstart:" in capsys.readouterr().out and not begun


def test_on_a_machine_that_can_it_trains_wmt14_with_the_settings_of_the_set(
    on, prepared, monkeypatch, capsys
):
    mean = (60, 28, 27), (1500, 1450)
    monkeypatch.setattr(plan.batch_size, "mean_batch", lambda request, data: mean)
    begun = on(EIGHT)
    run("--hparams_set=transformer_big")
    ((request, where, made),) = begun
    hparams = request.config.hparams
    assert hparams == registry.get_hparams("transformer_big")
    assert (hparams.hidden_size, hparams.filter_size, hparams.num_heads) == (1024, 4096, 16)
    assert (request.config.problem, request.plan.train_steps) == ("translate_ende_wmt14", 250_000)
    assert where.replicas == 8 and request.job is None
    assert made["step_seconds"] == pytest.approx(0.39, abs=0.01) and not made["lacks"]
    assert made["hours"] == pytest.approx(250_000 * made["step_seconds"] / 3600)
    assert made["batch"]["source_tokens"] == 8 * 1500 and 4 * GB < made["memory"] < 16 * GB
    assert made["vocabulary"] == [36_016, 36_016] and made["data"]["files"] > 0
    said = capsys.readouterr().out
    assert "8 x P100, 16.0 GB" in said and "2,048 tokens x 8 GPU = 16,384 an update" in said


@pytest.mark.parametrize(
    "lacking, free, message, suggested",
    [
        ({"memory": 4 * GB}, 500 * GB, "memory.* 4.0 GB", "--find_batch_size"),
        ({}, 40 * GB, "disk .*_datagen and .*t2t_data and t2t_runs", "--keep_checkpoint_max=1"),
        ({"memory": 4 * GB}, 40 * GB, "memory.* disk", "--hparams_set=transformer_multi30k"),
    ],
)
def test_what_it_lacks(on, refused, lacking, free, message, suggested):
    begun = on(dataclasses.replace(EIGHT, **lacking), free)
    error = refused(trainer, "--hparams_set=transformer_big").err
    assert re.search(message, error) and suggested in error and not begun


def test_a_resumed_run_is_not_looked_at(on, capsys):
    begun = on(EIGHT)
    run("--hparams_set=transformer_multi30k", "--train_steps=1000")
    _, (request, _, made) = begun
    assert made["hours"] < 1 and capsys.readouterr().out.count("\n") == 8
    request.run.begin(request.config, ["t2t-trainer"], [])
    (request.run.checkpoints_dir / "ckpt-800").mkdir(parents=True)
    run("--hparams_set=transformer_multi30k", "--train_steps=1000")
    assert begun[-1][2] is None and "8 x P100" in capsys.readouterr().out
    run("--hparams_set=transformer_multi30k", "--train_steps=1000", "--plan")
    assert "200 steps of" in capsys.readouterr().out


@pytest.mark.parametrize(
    "replicas, size, gathered", [(1, 3858, 8), (4, 3858, 2), (8, 3858, 1), (64, 482, 1)]
)
def test_the_papers_sets_make_its_batch_on_whatever_devices(on, replicas, size, gathered):
    begun = on(dataclasses.replace(EIGHT, replicas=replicas))
    run("--hparams_set=paper_table3_base")
    _, (request, _, made) = begun
    hparams, batch = request.config.hparams, made["batch"]
    assert (hparams.batch_size, batch["size"], batch["accumulated"]) == (size, size, gathered)
    assert request.plan.train_steps == made["steps"] == hparams.train_steps == 100_000
    assert hparams.optimizer_multistep_accumulate_steps == (gathered if gathered > 1 else 0)
    for side in ("source", "target"):
        assert batch[f"{side}_tokens"] == pytest.approx(25_000, rel=0.005)


def test_what_the_user_counts_are_updates_and_a_run_goes_on_with_its_batches(on):
    begun = on(EIGHT)
    line = ["--hparams_set=paper_table3_base", "--hparams=batch_size=1100", "--output_dir=run"]
    names = ["--problem=translate_ende_wmt14", "--data_dir=data", "--generate_data"]
    run(*line, *names, "--train_steps=70", "--local_eval_frequency=9")
    request = begun[-1][0]
    assert request.config.hparams.optimizer_multistep_accumulate_steps == 4
    assert (request.plan.train_steps, request.plan.local_eval_frequency) == (70, 9)
    request.run.begin(request.config, ["t2t-trainer"], [])
    of_run = ["--output_dir=run", "--generate_data", "--local_eval_frequency=9"]
    for again, steps in [
        ([*line, *names, "--train_steps=71"], 71),
        (of_run, 70),
        ([*of_run, "--hparams=train_steps=280"], 280),
    ]:
        run(*again)
        resumed = begun[-1][0]
        assert resumed.plan.train_steps == steps
        hparams = dataclasses.replace(resumed.config.hparams, train_steps=70)
        assert hparams == request.config.hparams


@pytest.mark.slow
def test_the_users_line_says_its_plan_within_seconds(tmp_path):
    """On whatever machine this is, without data; the limit is of a processor's seconds."""
    root = pathlib.Path(__file__).parents[2]
    environment = {k: v for k, v in os.environ.items() if k != imports.VARIABLE}  # silent by itself
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = spent.ru_utime + spent.ru_stime
    ended = subprocess.run(
        [sys.executable, "-m", "t2t_repro.trainer", "--hparams_set=transformer_big", "--plan"],
        env=environment | {"PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert (ended.returncode, ended.stderr, list(tmp_path.iterdir())) == (0, "", [])
    assert ended.stdout.startswith("transformer_big on translate_ende_wmt14:\n  data   ")
    if ended.stdout.splitlines()[-1][0] != " ":  # what this machine lacks
        assert "--hparams_set=transformer_multi30k" in ended.stdout
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert spent.ru_utime + spent.ru_stime - started < 60

"""The plan before a run: what it says, when it stops, and what it proposes instead."""

import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import trainer
from t2t_repro.data.needs import DataNeeds
from t2t_repro.run_directory import PLAN, RunDirectory
from t2t_repro.training import estimate, forecast
from t2t_repro.training.machine import Device, Machine
from t2t_repro.training.trial import Trial

GB = 10**9
TWO_CORES = Machine((Device("Two Cores", 25 * GB),), "CPU", 1, 150e9)
EIGHT = Machine((Device("P100", 16 * GB),) * 8, "GPU", 8, 9.5e12, "CUDA 12.5, cuDNN 9")


def run(*argv):
    cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, list(argv))


class Begun(Exception):
    """Training has begun."""


def test_the_users_line_on_two_cores_stops_with_what_to_do_instead(on, refused):
    begun = on(TWO_CORES)
    said = refused("--hparams_set=transformer_big")
    assert not begun and not pathlib.Path("t2t_runs").exists()
    assert said.out.startswith(
        "transformer_big on translate_ende_wmt14:\n  data         to be made"
    )
    assert "4 downloads into /tmp/t2t_datagen, 1.7 GB (training-parallel-europarl" in said.out
    assert "about 214,208,512 parameters, vocabulary of about 37,000" in said.out
    assert "2,048 tokens x 1 CPU = 2,048 an update; of it 1,659 source and 1,659" in said.out
    assert "effective_batch_size=25000, 15 batches an update, 2.4 years\n" in said.out
    assert "devices      1 x Two Cores, 25.0 GB" in said.out
    assert "250,000 steps of 19.8 s: 57.4 days, by 2.38 TFLOP a step at 0.80" in said.out
    assert "21 x 2.6 GB in t2t_runs/transformer_big; 500 GB are free" in said.out
    error, *instead = said.err.splitlines()
    assert error == (
        "t2t-trainer: error: Expected a machine that can do this. Received: it would take 57.4 "
        "days. --yes goes on all the same."
    )
    commands = [line for line in instead if line.startswith("  t2t-trainer")]
    assert commands[2:] == ["  t2t-trainer"] and instead[0] == "What this machine can do:"
    assert re.search("--problem=translate_ende_wmt14 .* --hparams_set=transformer_base", instead[1])
    assert commands[1] == "  t2t-trainer --hparams_set=transformer_multi30k --train_steps=10000"


def test_what_is_proposed_works_here(on, refused, monkeypatch):
    begun = on(TWO_CORES, Trial(0.5, GB))
    said = refused("--hparams_set=transformer_big")
    proposed = [line for line in said.err.splitlines() if line.startswith("  t2t-trainer -")]
    assert len(proposed) == 2
    for line in proposed:
        begun.clear()
        run(*line.split()[1:])
        job, (request, _, plan) = begun
        assert not plan.obstacles and plan.hours <= 48 and job.problem.name == plan.problem


def test_it_prints_and_stops(on, capsys):
    begun = on(TWO_CORES)
    run("--hparams_set=transformer_big", "--plan")
    said = capsys.readouterr()
    assert not begun and said.err == "" and not pathlib.Path("t2t_runs").exists()
    assert "This machine plainly cannot do it: it would take 57.4 days." in said.out
    assert said.out.count("\n  t2t-trainer") == 3
    run("--plan")
    assert "transformer_quickstart on algorithmic_reverse_quickstart:" in capsys.readouterr().out
    assert not begun


def test_the_users_text_has_about_the_vocabulary_that_fits_it(on, capsys):
    begun = on(EIGHT)
    for name, line in (("a.en", "a dog"), ("a.de", "ein Hund")):
        pathlib.Path(name).write_text(f"{line}\n" * 20_000)
    text = ["--train_source=a.en", "--train_target=a.de", "--output_dir=o", "--plan"]
    for more, size in ([], "2,700"), (["--vocab_size=700"], "700"):
        run(*text, *more)
        assert f"vocabulary of about {size}\n" in capsys.readouterr().out
    assert not begun and not pathlib.Path("o").exists()


def test_it_goes_on_all_the_same(on, capsys):
    begun = on(TWO_CORES)
    run("--hparams_set=transformer_big", "--yes")
    job, (request, _, plan) = begun
    assert job.problem.name == request.config.problem == "translate_ende_wmt14"
    assert plan.lacks("time") and "plainly cannot do it" in capsys.readouterr().out


@pytest.fixture
def prepared(tmp_path):
    """WMT14 as t2t-datagen would leave it in t2t_data, but for the records."""
    folder, problem = tmp_path / "t2t_data", registry.get_problem("translate_ende_wmt14")
    folder.mkdir()
    for entry in problem.dataset_splits:
        for path in problem.filepaths(entry["split"], folder, entry["shards"]):
            pathlib.Path(path).touch()
    characters = [chr(code) for code in range(0x20000, 0x20000 + 36_000)]
    subwords = ["<pad>_", "<EOS>_", *"0123456789;\\_u", *characters]
    (folder / problem.vocab_filename).write_text("".join(f"'{word}'\n" for word in subwords))
    return folder


def test_on_a_machine_that_can_it_trains_wmt14_with_the_settings_of_the_set(
    on, prepared, monkeypatch, capsys
):
    shape = estimate.BatchShape(60, 28, 27)
    monkeypatch.setattr(estimate, "shape_of", lambda request, data: shape)
    monkeypatch.setattr(estimate, "real_tokens", lambda request, data: (1500, 1450))
    begun = on(EIGHT, Trial(0.4, 11 * GB))
    run("--hparams_set=transformer_big")
    ((request, where, plan),) = begun
    hparams = request.config.hparams
    assert hparams == registry.get_hparams("transformer_big")
    assert (hparams.hidden_size, hparams.filter_size, hparams.num_heads) == (1024, 4096, 16)
    assert (request.config.problem, request.plan.train_steps) == ("translate_ende_wmt14", 250_000)
    assert where.replicas == 8 and request.generate is None
    assert plan.hours == pytest.approx(250_000 * 0.4 / 3600) and plan.is_measured
    assert json.loads(plan.to_json())["device_hours"] == pytest.approx(8 * plan.hours)
    assert plan.batch.total == 16_384 and not plan.obstacles and plan.memory == 11 * GB
    assert plan.vocabulary == (36_016, 36_016) and plan.data.are_there
    said = capsys.readouterr().out
    assert "8 x P100, 16.0 GB; CUDA 12.5, cuDNN 9" in said
    assert "2,048 tokens x 8 GPU = 16,384 an update" in said
    assert "27.8 hours (222 GPU-hours), by steps that were made now" in said


@pytest.mark.parametrize(
    "found, tried, free, message, proposed",
    [
        (
            Machine((Device("Small", 5 * GB),) * 8, "GPU", 8, 9.5e12),
            None,
            500 * GB,
            "of memory are needed, and 5.0 GB are there",
            "--hparams=batch_size=",
        ),
        (
            EIGHT,
            None,
            40 * GB,
            "of disk are needed in /tmp/t2t_datagen and .*t2t_data and t2t_runs/transformer_big, a",
            "--keep_checkpoint_max=5",
        ),
        (
            EIGHT,
            Trial(failure="out of memory"),
            500 * GB,
            "a step was tried, and its process ended: out of memory",
            "--hparams=batch_size=1024",
        ),
    ],
)
def test_what_it_lacks(on, refused, monkeypatch, found, tried, free, message, proposed):
    command = ["t2t-trainer", "--hparams_set=transformer_big"]
    monkeypatch.setattr("sys.argv", command)
    begun = on(found, tried, free)
    error = refused(*command[1:]).err
    assert re.search(message, error.splitlines()[0])
    assert re.search(proposed, error) and not begun


@pytest.mark.parametrize("rate, is_proposed", [(0.9e12, False), (1.8e12, True)])
def test_smaller_batches_make_updates_of_the_same_size(on, refused, monkeypatch, rate, is_proposed):
    """In as many hours: it takes 23 days on the first machine, whatever the batches are."""
    command = ["t2t-trainer", "--hparams_set=paper_table3_base"]
    monkeypatch.setattr("sys.argv", command)
    begun = on(Machine((Device("Small", 3 * GB),), "GPU", 1, rate), Trial(0.1, GB))
    error = refused(*command[1:]).err
    assert ("--hparams=batch_size=1929" in error) == is_proposed and not begun
    run(*command[1:], "--hparams=batch_size=1929", "--yes")
    assert begun[-1][2].batch.accumulated == 16


def test_a_short_run_is_not_tried_and_a_resumed_one_not_looked_at(on, capsys):
    begun = on(EIGHT)  # a trial would give None
    run("--hparams_set=transformer_multi30k", "--train_steps=1000")
    _, (request, _, plan) = begun
    assert not plan.is_measured and plan.hours < 1
    block = capsys.readouterr().out
    assert block.count("\n") == 8
    request.run.begin(request.config, ["t2t-trainer"], [])
    (request.run.checkpoints_dir / "ckpt-800").mkdir(parents=True)
    run("--hparams_set=transformer_multi30k", "--train_steps=1000")
    assert begun[-1][2] is None and capsys.readouterr().out.startswith("Training on 8 x P100")
    run("--hparams_set=transformer_multi30k", "--train_steps=1000", "--plan")
    assert "200 steps of" in capsys.readouterr().out


def test_the_plan_in_the_run_is_its_first(on, tmp_path):
    begun = on(EIGHT, Trial(0.4, GB))
    run("--hparams_set=transformer_big")
    _, (request, _, plan) = begun
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    forecast.write(directory, plan)
    values = json.loads((directory.path / PLAN).read_text())
    assert values["problem"] == "translate_ende_wmt14" and values["steps"] == 250_000
    assert values["hours"] == pytest.approx(27.78, abs=0.01)
    assert values["machine"]["devices"][0] == {"name": "P100", "memory": 16 * GB}
    assert values["batch"]["papers_tokens"] == 25_000
    assert values["batch"]["accumulation_of_the_paper"] == 2  # of 13,271 tokens on 8 devices
    assert values["data"]["downloads"][0]["size"] == 657_632_379
    forecast.write(directory, estimate.measured(plan, request, Trial(0.8, GB)))
    assert json.loads((directory.path / PLAN).read_text()) == values


@pytest.mark.parametrize(
    "replicas, size, gathered", [(1, 3858, 8), (4, 3858, 2), (8, 3858, 1), (64, 482, 1)]
)
def test_the_papers_sets_make_its_batch_on_whatever_devices(on, capsys, replicas, size, gathered):
    machine_of = Machine((Device("P100", 16 * GB),) * replicas, "GPU", replicas, 9.5e12)
    begun = on(machine_of, Trial(0.1, GB))
    run("--hparams_set=paper_table3_base")
    _, (request, _, plan) = begun
    hparams = request.config.hparams
    assert (hparams.batch_size, plan.batch.size, plan.batch.accumulated) == (size, size, gathered)
    assert request.plan.train_steps == plan.steps == hparams.train_steps == 100_000 * gathered
    assert hparams.optimizer_multistep_accumulate_steps == (gathered if gathered > 1 else 0)
    for tokens in (plan.batch.source_tokens, plan.batch.target_tokens):
        assert tokens == pytest.approx(25_000, rel=0.005)
    assert "target tokens, the paper's 25,000\n" in capsys.readouterr().out


def test_what_the_user_counts_are_updates_and_a_run_goes_on_with_its_batches(on, refused):
    begun = on(EIGHT, Trial(0.1, GB))
    line = ["--hparams_set=paper_table3_base", "--hparams=batch_size=1100", "--output_dir=run"]
    names = ["--problem=translate_ende_wmt14", "--data_dir=data", "--generate_data"]
    run(*line, *names, "--train_steps=70", "--local_eval_frequency=9")
    request = begun[-1][0]
    assert request.config.hparams.optimizer_multistep_accumulate_steps == 4
    assert (request.plan.train_steps, request.plan.local_eval_frequency) == (280, 36)
    request.run.begin(request.config, ["t2t-trainer"], [])
    of_run = ["--output_dir=run", "--generate_data", "--local_eval_frequency=9"]
    for again, steps in [
        ([*line, *names, "--train_steps=71"], 284),
        (of_run, 280),
        ([*of_run, "--hparams=train_steps=280"], 1120),  # batches are not what is said
    ]:
        run(*again)
        resumed = begun[-1][0]
        assert resumed.plan.train_steps == steps
        hparams = dataclasses.replace(resumed.config.hparams, train_steps=280)
        assert hparams == request.config.hparams
    on(TWO_CORES)
    error = refused("--output_dir=run", "--generate_data").err
    assert "Expected as many devices as run was begun on" in error


def test_data_that_nothing_makes_are_asked_for_as_ever(on, refused):
    on(TWO_CORES)
    flags = ("--problem=translate_ende_wmt14", "--hparams_set=transformer_big", "--data_dir=none")
    (pathlib.Path("none")).mkdir()
    error = refused(*flags, "--output_dir=run").err
    assert "t2t-datagen --problem=translate_ende_wmt14" in error
    shutil.rmtree("none")


def test_needs_of_files_of_unknown_size():
    archive = estimate.needs.RawFile("a.tgz", "http://a/a.tgz")
    said = str(DataNeeds("d", "t", downloads=(archive,)))
    assert said == "to be made in d; 1 downloads into t, of unknown size (a.tgz)"


@pytest.mark.parametrize(
    "hours, said",
    [
        *((0.01, "1 minute"), (0.5, "30 minutes"), (5.25, "5.2 hours"), (100, "4.2 days")),
        (24 * 365 * 2.1, "2.1 years"),
    ],
)
def test_times_for_people(hours, said):
    assert forecast.span(hours) == said


@pytest.mark.parametrize("more", ["--find_batch_size", "--schedule=evaluate"])
def test_what_has_no_plan_is_not_asked_for_one(on, refused, more):
    on(TWO_CORES)
    for flag in ("--plan", "--yes"):
        error = refused("--hparams_set=transformer_big", flag, more).err
        assert f"{flag} has no effect with {more}. Received: both." in error


def test_the_embedded_default_says_where_it_trains_and_plans_nothing(on, capsys, monkeypatch):
    begun = on(TWO_CORES)
    monkeypatch.setattr(trainer.quickstart, "run", lambda directory, train: train())
    run()
    assert capsys.readouterr().out == "Training on 1 x Two Cores, 25.0 GB.\n"
    assert begun[-1][2] is None


def test_it_warns_of_a_cpu_in_parts(on, capsys):
    on(Machine((Device("Two Cores", 25 * GB),), "CPU", 2, 150e9))
    run("--hparams_set=transformer_multi30k", "--train_steps=100", "--worker_gpu=2", "--plan")
    said = capsys.readouterr()
    assert said.err.startswith("Warning: --worker_gpu=2 splits the CPU into 2 parts, as no GPU")
    assert "2,048 tokens x 2 CPU = 4,096 an update" in said.out


def test_steps_that_took_too_long_leave_the_estimate(on, capsys):
    begun = on(EIGHT, Trial())
    run("--hparams_set=transformer_big", "--plan")
    said = capsys.readouterr().out
    assert "Making a few steps" in said and "of each GPU's matrix products, measured now" in said
    assert not begun


@pytest.mark.slow
def test_the_users_line_says_its_plan_within_seconds(tmp_path):
    """On whatever machine this is, without data; the limit is of a processor's seconds."""
    root = pathlib.Path(__file__).parents[2]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = spent.ru_utime + spent.ru_stime
    ended = subprocess.run(
        [sys.executable, "-m", "t2t_repro.trainer", "--hparams_set=transformer_big", "--plan"],
        env=os.environ | {"PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert (ended.returncode, ended.stderr, list(tmp_path.iterdir())) == (0, "", [])
    assert ended.stdout.startswith("transformer_big on translate_ende_wmt14:\n  data         to")
    if "plainly cannot" in ended.stdout:
        assert ended.stdout.count("\n  t2t-") == 3  # of them trainings as this machine is quick
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert spent.ru_utime + spent.ru_stime - started < 60

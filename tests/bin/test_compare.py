"""t2t-compare: its flags, the cells that it runs, and a kill in the middle."""

import csv
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import compare
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.studies.compare import grid, report, runner
from t2t_repro.studies.compare import results as comparison_results
from t2t_repro.studies.compare.grid import Grid

PROBLEM = "algorithmic_reverse_binary40_test"


def run(*argv):
    cli.run("t2t-compare", compare.__doc__, compare.define_flags, compare.main, list(argv))


@pytest.fixture
def flags(tmp_path):
    """Flags of a comparison whose data seem to be there."""
    (tmp_path / "data").mkdir()
    for problem in (PROBLEM, "translate_ende_multi30k"):
        (tmp_path / "data" / f"{problem}-train-00000-of-00001").touch()
    return [
        f"--problem={PROBLEM}",
        "--hparams_set=transformer_test",
        f"--data_dir={tmp_path / 'data'}",
        f"--output_dir={tmp_path / 'comparison'}",
        "--depths=1",
        "--warmup=0",
        "--seeds=2",
        "--train_steps=4",
    ]


def request_of(argv) -> runner.Request:
    args = compare.flags.FlagValues()
    compare.define_flags(args)
    args(["t2t-compare", *argv])
    return compare.request_of(args)


def plan_of(argv) -> Grid:
    return request_of(argv).grid


@pytest.mark.parametrize("missing", ["problem", "hparams_set", "data_dir", "output_dir"])
def test_what_is_missing_is_named(flags, capsys, missing):
    with pytest.raises(SystemExit) as stopped:
        run(*[flag for flag in flags if not flag.startswith(f"--{missing}=")])
    assert stopped.value.code == 2
    assert f"error: Expected --{missing}. Received: none. " in capsys.readouterr().err


def test_all_that_is_missing_is_named_at_once(capsys):
    with pytest.raises(SystemExit):
        run("--hparams_sets=transformer_base_v1,transformer_base_v2")
    said = "Expected --problem, --data_dir and --output_dir. Received: none of them. t2t-compare"
    assert said in capsys.readouterr().err


def test_what_is_wrong_is_said_before_data_are_asked_for(flags, capsys):
    given = [flag for flag in flags if not flag.startswith("--data_dir")]
    for flag, message in (
        ("--depths=0", "--depths to be different numbers, each at least 1"),
        ("--hparams_set=transformer_bas", "Did you mean 'transformer_base'"),
        ("--sequences=none/dan,x/da", "Received: 'x'"),
    ):
        with pytest.raises(SystemExit) as stopped:
            run(*given, "--data_dir=/nothing", flag)
        assert stopped.value.code == 2 and message in capsys.readouterr().err
    for wrong, message in (
        ("transformer_base_v1[", "transformer_base_v1["),
        ("transformer_base_v1,transformer_bas", "Did you mean 'transformer_base'"),
    ):
        with pytest.raises(SystemExit) as stopped:
            run(
                f"--problem={PROBLEM}",
                "--data_dir=/nothing",
                "--output_dir=o",
                f"--hparams_sets={wrong}",
            )
        assert stopped.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--sequences=none/dan,na/da", "without 'a'.*before a sublayer. Received: 'na'"),
        ("--sequences=none/dan,x/da", "'none' or letters of 'adnz'.*Received: 'x'"),
        ("--sequences=n", "PREPROCESS/POSTPROCESS"),
        ("--depths=two", "--depths to be whole numbers"),
        ("--warmup=,", "--warmup to be whole numbers with commas between. Received: ','"),
        ("--seeds=0", "seeds"),
        ("--seeds=999999999999", r"a whole number from 1 to 1000"),
        ("--hparams_set=transformer_bas", "Did you mean 'transformer_base'"),
        ("--hparams=learning_rate_warmup_steps=3", "--warmup sets it"),
        ("--problem=translate_ende_wmt32k_packed", "which packs them"),
        (
            "--hparams_sets=transformer_base_v1,transformer_base_v2",
            "or --hparams_set. Received: both",
        ),
        ("--decode_hparams=batch_size=3", "Unknown decode hparam of t2t-compare. Rec"),
        ("--decode_hparams=beam_size=0", "beam_size to be at least 1"),
        ("--decode_hparams=beam_size=3", "Expected --bleu_sentences with --decode_hparams, whic"),
        ("--worker_gpu=0", "worker_gpu"),
        ("--hparams=effective_batch_size=9", "Expected effective_batch_size=0: a step of the"),
        ("--data_dir=/nothing", "Expected the files of .* Make them: t2t-datagen --problem="),
    ],
)
def test_bad_flags_are_one_line_and_write_no_cell(flags, tmp_path, capsys, flag, message):
    with pytest.raises(SystemExit) as stopped:
        run(*flags, flag)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1
    assert not (tmp_path / "comparison" / grid.CELLS).exists()


def test_a_model_that_cannot_decode_has_no_bleu(flags, monkeypatch):
    monkeypatch.setitem(registry._MODELS, "mine", type("Mine", (), {}))
    own = [*flags, "--hparams=model=mine"]
    with pytest.raises(UserError, match="--bleu_sentences"):
        request_of([*own, "--bleu_sentences=3"])
    request_of([*own, "--bleu_sentences=0"])
    monkeypatch.setattr(registry._MODELS["mine"], "decode_step", None, raising=False)
    request_of([*own, "--bleu_sentences=3"])


def test_what_is_not_given_is_the_sets_own(flags):
    given = [flag for flag in flags if not flag.startswith(("--depths", "--warmup", "--seeds"))]
    plan = plan_of(given)
    base = registry.get_hparams("transformer_test")
    assert plan.depths == (base.num_hidden_layers,) == (2,)
    assert plan.warmups == (base.learning_rate_warmup_steps,) == (8000,)
    assert plan.names == ("none/dan", "n/da") and plan.seeds == 3
    assert plan.bleu_sentences == 0
    assert plan_of([*given, "--problem=translate_ende_multi30k"]).bleu_sentences == 200


def test_a_set_of_two_depths_keeps_them(flags):
    given = [flag for flag in flags if not flag.startswith(("--depths", "--hparams_set"))]
    given += [
        "--hparams_set=transformer_own_text_student",
        f"--hparams=learning_rate_schedule={grid.NAMED_SCHEDULE}",
    ]
    plan = plan_of(given)
    assert plan.depths == (None,)
    hparams = plan.hparams_of(plan.cells()[0])
    assert (hparams.encoder_layers, hparams.decoder_layers) == (6, 1)


def test_sets_are_compared_as_they_are(flags):
    given = [flag for flag in flags if flag.startswith(("--problem", "--data", "--output"))]
    request = request_of([*given, "--hparams_sets=transformer_base_v1,transformer_base_v2"])
    assert request.grid.names == ("transformer_base_v1", "transformer_base_v2")
    assert request.grid.settings() == [(None, None)] and request.worker_gpu is None
    assert request_of([*flags, "--worker_gpu=2"]).worker_gpu == 2
    with pytest.raises(UserError, match="--hparams_sets"):
        request_of([*given, "--hparams_sets=transformer_base_v1", "--sequences=n/da,none/dan"])


@pytest.fixture
def cells(monkeypatch):
    """What a cell's process would do: the names that ran, and what each returns."""
    ran, reasons = [], {}

    def run_cell(request, cell, *_):
        name = request.grid.folder(cell)
        ran.append(name)
        if name not in reasons:
            file = grid.run_of(request.output_dir, request.grid, cell).path / grid.RESULT_FILE
            file.parent.mkdir(parents=True)
            file.write_text("{}")
        return reasons.get(name, "")

    monkeypatch.setattr(runner, "_run_cell", run_cell)
    monkeypatch.setattr(runner, "_ending", lambda request, cell: "dev loss 3.000, learned")
    return ran, reasons


def test_finished_cells_are_not_run_again(flags, capsys, cells):
    ran, _ = cells
    request = request_of(flags)
    plan = request.grid
    assert runner.run_cells(request) == {}
    assert ran == [plan.folder(cell) for cell in plan.cells()] and len(ran) == 4
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(
        "[1/4] depth 1, warm-up 0, none/dan, seed 0: dev loss 3.000, learned |"
    )
    assert out[0].endswith(" left") and not out[3].endswith(" left")
    longer = request_of([*flags, "--seeds=3"])
    runner.run_cells(longer)
    assert ran[4:] == [longer.grid.folder(cell) for cell in longer.grid.cells() if cell.seed == 2]
    assert "4 of 6 cells are finished already." in capsys.readouterr().out


def test_a_cell_that_does_not_end_is_reported_and_the_others_go_on(flags, tmp_path, cells):
    ran, reasons = cells
    request = request_of(flags)
    plan = request.grid
    third = plan.cells()[2]
    reasons[plan.folder(third)] = "killed, as the system does where there is no memory."
    assert runner.run_cells(request) == {third: reasons[plan.folder(third)]}
    assert len(ran) == 4
    reasons[plan.folder(plan.cells()[0])] = "Expected data."
    with pytest.raises(UserError):
        runner.run_cells(dataclasses.replace(request, output_dir=tmp_path / "another"))
    assert len(ran) == 5


def test_the_report_is_written_without_a_cell_that_did_not_end(flags, capsys, cells, monkeypatch):
    _, reasons = cells
    request = request_of(flags)
    reasons[request.grid.folder(request.grid.cells()[2])] = "exit code 7, its log is empty."
    written = SimpleNamespace(summary=["Of three."], html="a.html", markdown="a.md", results="a")
    monkeypatch.setattr(report, "write", lambda *_: written)
    missing = "all 4 cells to end. Received: 1 that did not .* the first depth .* exit code 7, its"
    with pytest.raises(UserError, match=missing):
        runner.run(request)
    assert "Of three.\nWritten to a.html, a.md and a." in capsys.readouterr().out


def test_a_warning_of_a_cell_is_passed_on_once(flags, capsys, monkeypatch):
    def process(work, request, cell, log, watch):
        log.write_text("step 1\nWarning: --worker_gpu=2 splits the CPU.\nWarning: hal")
        watch(0)
        log.write_text(log.read_text() + "f a line.\n")
        return SimpleNamespace(code=0)

    monkeypatch.setattr(runner.processes, "run", process)
    monkeypatch.setattr(runner, "_ending", lambda request, cell: "learned")
    assert runner.run_cells(request_of(flags)) == {}
    said = "Warning: --worker_gpu=2 splits the CPU.\nWarning: half a line.\n"
    assert capsys.readouterr().err.startswith(said + "cells: ")


def table(output_dir):
    rows = list(csv.DictReader((output_dir / "results.csv").open()))
    return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows]


@pytest.mark.slow
def test_killed_in_the_middle_it_finishes_the_same_table(flags, tmp_path, capsys):
    data_dir = tmp_path / "real"
    generate_data(Job(registry.get_problem(PROBLEM), data_dir, tmp_path))
    flags = [*flags, f"--data_dir={data_dir}", "--seeds=1", "--train_steps=200"]
    command = [sys.executable, "-m", "t2t_repro.bin.compare", *flags]
    command += ["--evaluations=20", "--bleu_sentences=5"]
    whole = tmp_path / "whole"
    subprocess.run([*command, f"--output_dir={whole}"], check=True, timeout=900)
    output_dir = tmp_path / "comparison"
    plan = plan_of(flags)
    second = grid.run_of(output_dir, plan, plan.cells()[1])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 600
    while not list(second.checkpoints_dir.glob("ckpt-?0")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(3)  # the cell's process notices
    killed_at = [row["step"] for row in second.read_metrics()][-1]
    assert killed_at < 200 and not (second.path / grid.RESULT_FILE).exists()
    done = subprocess.run(command, check=True, timeout=900, capture_output=True, text=True)
    assert "1 of 2 cells are finished already." in done.stdout
    assert len(second.config().commands) == 2
    assert table(output_dir) == table(whole)
    for name in ("curves.csv", "norms.csv", "comparisons.csv"):
        assert (output_dir / name).read_text() == (whole / name).read_text()
    results = comparison_results.load(plan, output_dir)
    assert all(len(result.hypotheses) == 5 for result in results.by_cell.values())

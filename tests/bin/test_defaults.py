"""What t2t-trainer trains where its flags say little: the user's own lines."""

import os
import pathlib
import types

import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import quickstart, trainer
from t2t_repro.data import preset
from t2t_repro.data.generate import generate_data
from t2t_repro.run_directory import RunDirectory
from tests.text import pieces


def run(*argv):
    cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, list(argv))


@pytest.mark.parametrize(
    "hparams_set, problem",
    [
        ("transformer_big", "translate_ende_wmt14"),
        ("transformer_base", "translate_ende_wmt14"),
        ("transformer_base_v1", "translate_ende_wmt14"),
        ("transformer_l2", "translate_ende_wmt14"),
        ("transformer_big_tpu", "translate_ende_wmt14"),
        ("transformer_big_enfr", "translate_enfr_wmt14"),
        ("transformer_big_enfr_tpu", "translate_enfr_wmt14"),
        ("paper_table3_big", "translate_ende_wmt14"),
        ("paper_table2_big_enfr", "translate_enfr_wmt14"),
        ("transformer_parsing_base", "parsing_wsj16k"),
        ("transformer_parsing_big", "wsj_parsing"),
        ("paper_parsing_wsj", "parsing_wsj16k"),
        ("paper_parsing_semi_supervised", "parsing_wsj_semi32k"),
        ("transformer_multi30k", "translate_ende_multi30k"),
    ],
)
def test_a_set_alone_means_the_problem_that_it_was_made_for(asked, hparams_set, problem):
    run(f"--hparams_set={hparams_set}")
    (request,) = asked
    assert (request.config.problem, request.config.hparams_set) == (problem, hparams_set)
    assert request.config.hparams == registry.get_hparams(hparams_set)
    assert request.config.data_dir == os.path.abspath("t2t_data")
    assert request.run.path == pathlib.Path("t2t_runs", hparams_set)
    assert request.generate is not None


def test_what_is_named_is_taken(asked):
    run("--hparams_set=transformer_big", "--data_dir=d", "--output_dir=o", "--train_steps=7")
    (request,) = asked
    assert request.config.problem == "translate_ende_wmt14" and request.plan.train_steps == 7
    assert (request.config.data_dir, str(request.run.path)) == (os.path.abspath("d"), "o")


def test_data_that_are_there_are_not_made(asked, tmp_path):
    folder = tmp_path / "t2t_data"
    folder.mkdir()
    problem = registry.get_problem("translate_ende_wmt14")
    for entry in problem.dataset_splits:
        for path in problem.filepaths(entry["split"], folder, entry["shards"]):
            pathlib.Path(path).touch()
    subwords = ["<pad>_", "<EOS>_", *"0123456789;\\_u"]
    (folder / problem.vocab_filename).write_text("".join(f"'{word}'\n" for word in subwords))
    run("--hparams_set=transformer_big")
    assert asked[0].generate is None
    pathlib.Path(path).unlink()
    run("--hparams_set=transformer_big")
    assert asked[1].generate is not None


def test_no_set_at_all_and_its_own_are_the_quickstart(asked):
    run()
    run("--hparams_set=transformer_quickstart")
    for request in asked:
        config = request.config
        assert (config.problem, config.hparams_set) == (
            quickstart.PROBLEM,
            quickstart.HPARAMS_SET,
        )
        assert str(request.run.path) == quickstart.OUTPUT_DIR


def test_the_readmes_first_command_works_before_and_after(asked):
    """The run of each has a folder of its own."""
    for argv in ([], ["--hparams_set=transformer_big"], []):
        run(*argv)
        asked[-1].run.begin(asked[-1].config, ["t2t-trainer", *argv], [])
    assert [request.config.hparams_set for request in asked] == [
        "transformer_quickstart",
        "transformer_big",
        "transformer_quickstart",
    ]


def test_the_same_line_continues_its_run(asked):
    run("--hparams_set=transformer_big", "--random_seed=5")
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    run("--hparams_set=transformer_big")
    assert asked[1].config.random_seed == 5 and asked[1].generate is not None
    assert RunDirectory("t2t_runs/transformer_big").exists()


@pytest.mark.parametrize("where", [[], ["--output_dir=o"]])
def test_the_quickstart_goes_on_as_it_was_begun(asked, where):
    changed = ["--random_seed=3", "--hparams=batch_size=999", "--train_steps=70"]
    run(*where, *changed)
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    for again in ([], changed):
        run(*where, *again)
        assert asked[-1].config == asked[0].config and asked[-1].run.path == asked[0].run.path
    run(*where, "--schedule=evaluate")
    assert asked[-1].config.hparams == asked[0].config.hparams and asked[-1].schedule == "evaluate"
    run(*where, "--hparams_set=transformer_quickstart", *changed)
    assert asked[-1].config == asked[0].config
    begun = len(asked)
    for other in ("--random_seed=4", "--hparams=batch_size=7"):
        with pytest.raises(SystemExit):
            run(*where, other)
    assert len(asked) == begun


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Returns the flags that name two files of 40 sentences."""
    monkeypatch.setattr(preset, "has_gpu", lambda: False)
    for side in ("en", "de"):
        lines = (f"{side} {number * 'x'}\n" for number in range(1, 41))
        (tmp_path / f"a.{side}").write_text("".join(lines))
    return ["--train_source=a.en", "--train_target=a.de"]


SMALL, CHOSEN = "transformer_own_text_small", "transformer_own_text_bidirectional"


def test_two_files_and_a_folder_are_enough(asked, text, capsys):
    run(*text, "--output_dir=o", "--test_size=3", "--vocab_size=50", "--drop_bad_pairs")
    said = capsys.readouterr().out
    # 40 pairs: 5% are drawn for dev, 3 for test.
    assert said.startswith(f"No --hparams_set: {CHOSEN}, for 35 pairs") and said.count("\n") == 1
    (request,) = asked
    assert (request.config.problem, request.config.hparams_set) == ("text2text_tmpdir", CHOSEN)
    assert request.config.data_dir == os.path.abspath("o/data") and request.generate is not None
    assert (request.job.tmp_dir, request.job.check) == ("o/text", "drop")
    generate_data(request.job)
    # Of another number of steps than the set's, a third is in both directions as well.
    for steps in ("--train_steps=90", "--hparams=train_steps=90"):
        run(*text, "--output_dir=p", "--test_size=3", "--vocab_size=50", steps)
        assert asked.pop().config.hparams.bidirectional_steps == 30
    capsys.readouterr()
    # What is there is counted as it was made.
    run("--problem=text2text_tmpdir", "--data_dir=o/data", "--output_dir=p")
    assert f"{CHOSEN}, for 35 pairs" in capsys.readouterr().out
    assert asked[1].config.hparams_set == CHOSEN and asked[1].generate is None
    assert asked[1].config.data_dir == asked[0].config.data_dir
    run("--problem=text2text_tmpdir_rev", "--data_dir=o/data", "--output_dir=q")
    assert asked[2].config.hparams_set == CHOSEN and CHOSEN in capsys.readouterr().out


@pytest.mark.parametrize("made", [False, True])
def test_words_of_another_vocabulary_are_not_cut(asked, text, capsys, tmp_path, made):
    model = pieces.train(tmp_path / "a.model", 40)
    run(*text, "--output_dir=o", f"--vocab={model}")
    if made:
        generate_data(asked[0].job)
        run("--problem=text2text_tmpdir", "--data_dir=o/data", "--output_dir=p")
    assert asked[-1].config.hparams_set == SMALL and f"{SMALL}, for" in capsys.readouterr().out


def test_the_same_command_on_text_continues_its_run(asked, text, capsys):
    run(*text, "--output_dir=o", "--hparams=batch_size=77", "--hparams_set=transformer_tiny")
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    run(*text, "--output_dir=o")
    assert asked[1].config.hparams == asked[0].config.hparams and asked[1].generate is not None
    assert asked[1].config.hparams.batch_size == 77 and capsys.readouterr().out == ""


def test_a_run_is_certified_unless_that_is_left_out(asked, monkeypatch):
    made = []
    monkeypatch.setattr(
        "t2t_repro.provenance.write_of_run", lambda *of, data_dir: made.append(of[1])
    )
    finished, there = [], types.SimpleNamespace(on=lambda where: where)
    monkeypatch.setattr("t2t_repro.decoding.tune.tune", lambda run, *of: finished.append(run))
    monkeypatch.setattr(trainer, "trained_run", lambda path, data_dir: there)
    monkeypatch.setattr("t2t_repro.training.devices.here", lambda worker_gpu: f"{worker_gpu} GPUs")
    run("--hparams_set=transformer_big", "--finish", "--worker_gpu=3")
    assert made == ["t2t-trainer", "t2t-avg-all"] and finished == ["3 GPUs"]
    run("--hparams_set=transformer_big", "--finish", "--nocertify")
    assert len(made) == 2 and len(asked) == 2


def test_a_text_may_have_folders_and_a_set_of_its_own(asked, text, tmp_path):
    run(*text, f"--hparams_set={SMALL}", "--tmp_dir=t", "--data_dir=d", "--dev_size=1")
    (request,) = asked
    assert (request.job.tmp_dir, request.config.data_dir) == ("t", str(tmp_path / "d"))
    assert str(request.run.path) == f"t2t_runs/{SMALL}"


@pytest.mark.parametrize(
    "pairs, gpu, size",
    [
        (10_000, True, "bidirectional"),
        (100_000, True, "cooldown"),
        (100_001, False, "medium"),
        (1_000_001, False, "medium"),
        (1_000_001, True, "large"),
    ],
)
def test_the_set_is_that_of_the_number_of_pairs(asked, monkeypatch, tmp_path, pairs, gpu, size):
    """The files lie in tmp_dir, as tensor2tensor wants them."""
    monkeypatch.setattr(preset, "has_gpu", lambda: gpu)
    problem = type(registry.get_problem("text2text_tmpdir"))
    monkeypatch.setattr(problem, "num_samples", lambda self, tmp_dir, split: pairs)
    run("--problem=text2text_tmpdir", "--generate_data", "--data_dir=d", "--output_dir=o")
    assert asked[0].config.hparams_set == f"transformer_own_text_{size}"


@pytest.mark.parametrize(
    "argv, names",
    [
        ([], "--output_dir"),
        (["--output_dir=o", "--dev_source=b.en"], "b.en"),
        (["--output_dir=o", "--vocab_size=9", "--vocab=v"], "--vocab_size --vocab"),
        (["--output_dir=o", "--nocheck_data", "--keep_bad_pairs"], "--nocheck_data"),
    ],
)
def test_what_is_wrong_about_text_is_said_before_anything_is_made(
    asked, text, capsys, tmp_path, argv, names
):
    with pytest.raises(SystemExit) as stopped:
        run(*text, *argv)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1
    assert all(name in error for name in names.split())
    assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de"}


@pytest.mark.parametrize(
    "argv, names",
    [
        ("--problem=text2text_tmpdir --data_dir=d --output_dir=o", "text2text_tmpdir-train- 'd'"),
        (
            "--problem=text2text_tmpdir --data_dir=d --output_dir=o --keep_bad_pairs",
            "--keep_bad_pairs --generate_data",
        ),
        ("--hparams_set=transformer_tiny", "--problem --data_dir --output_dir"),
        ("--problem=text2text_tmpdir", "--hparams_set --data_dir --output_dir"),
        ("--data_dir=d", "--problem --hparams_set --output_dir"),
        ("--find_batch_size", "--problem --hparams_set --data_dir --output_dir"),
        ("--hparams_set=transformer_bigg", "'transformer_bigg'"),
    ],
)
def test_all_that_is_missing_is_named_at_once(asked, capsys, argv, names):
    with pytest.raises(SystemExit) as stopped:
        run(*argv.split())
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1 and not asked
    assert all(name in error for name in names.split())

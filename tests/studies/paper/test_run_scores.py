import json

import pytest

from t2t_repro import cli
from t2t_repro.bin import bleu as bleu_program
from t2t_repro.errors import UserError
from t2t_repro.parsing import score as tree_score
from t2t_repro.run_directory import RunDirectory
from t2t_repro.studies.paper import run_scores, tables
from tests import untrained


@pytest.fixture
def run(tmp_path):
    """A run directory of 7 steps, as t2t-trainer leaves it."""
    run = untrained.begun(tmp_path / "run", "transformer_base_v1", "translate_ende_wmt32k")
    for step in (3, 7):
        run.append_metrics({"step": step})
    return run


def score_bleu(tmp_path, file):
    (tmp_path / "out").write_text("Ein Haus steht am Rand der Stadt .\n")
    argv = [f"--translation={tmp_path / 'out'}", f"--reference={tmp_path / 'out'}"]
    argv.append(f"--json_file={file}")
    cli.run("t2t-bleu", None, bleu_program.define_flags, bleu_program.main, argv)


def test_a_run_with_the_file_that_t2t_bleu_writes(run, tmp_path):
    score_bleu(tmp_path, run.path / "bleu.json")
    (score,) = run_scores.read(f" {run.path} ,")
    assert (score.path, score.problem) == (str(run.path), "translate_ende_wmt32k")
    assert (score.hparams_set, score.step, score.f1) == ("transformer_base_v1", 7, None)
    assert score.bleu["sacrebleu"]["score"] == pytest.approx(100)


def test_a_run_with_the_file_that_parsing_score_writes_elsewhere(run, tmp_path):
    trees, out = tmp_path / "trees", tmp_path / "f1-of-run.json"
    trees.write_text("(TOP (S (NP (NN Rain)) (VP (VBZ falls))))\n")
    argv = [f"--gold={trees}", f"--predicted={trees}", f"--json_file={out}"]
    tree_score.main(argv)
    (score,) = run_scores.read(f"{run.path}={out}")
    assert (score.bleu, score.f1["all"]["f1"]) == (None, 100)


def test_a_folder_of_runs_stands_for_those_with_a_score(run, tmp_path):
    score_bleu(tmp_path, run.path / "bleu.json")
    dev = tmp_path / "dev"
    RunDirectory(dev).begin(run.config(), ["t2t-trainer"], [])
    RunDirectory(tmp_path / "bare").begin(run.config(), ["t2t-trainer"], [])
    (dev / "bleu-dev.json").write_text('{"sacrebleu": {"score": 3.25}}')
    (dev / "averaged").mkdir()
    (dev / "averaged" / "eval-dev-11.json").write_text('{"metrics": {"loss": 0.0}}')
    of_dev, of_run = run_scores.read(str(tmp_path))
    assert (of_run.path, of_run.record.dev_bleu) == (str(run.path), None)
    assert (of_dev.path, of_dev.bleu, of_dev.f1) == (str(dev), None, None)
    assert (of_dev.record.dev_bleu, of_dev.record.perplexity) == (3.25, 1.0)
    *_, table = tables.table3([of_dev])
    assert table.as_dict()["rows"][0]["BLEU"] == 3.25
    assert "The paper's rows average nothing (section 6.2)" in table.notes[0]
    (dev / "bleu-dev.json").write_text('{"sacrebleu": 3}')
    with pytest.raises(UserError, match="bleu-dev.json"):
        run_scores.read(str(dev))


def test_a_folder_may_have_the_signs_between_runs_in_its_name(run, tmp_path):
    score_bleu(tmp_path, run.path / "bleu.json")
    equals = run.path.rename(tmp_path / "lr=0.1")
    (score,) = run_scores.read(str(equals))
    assert score.path == str(equals)
    assert run_scores.named(f"{equals}, runs=x,") == [(str(equals), ""), ("runs", "x")]
    comma = equals.rename(tmp_path / "lr=0.1,beam=4")
    (score,) = run_scores.read(f" {comma}")
    assert score.path == str(comma)


def test_no_runs():
    assert run_scores.read("") == []


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UserError):
        run_scores.read(str(tmp_path))


def test_a_run_without_a_score_says_which_commands_make_one(run):
    with pytest.raises(UserError) as error:
        run_scores.read(str(run.path))
    assert "Received: neither. Make one: t2t-decoder --output_dir=" in str(error.value)
    assert f"t2t-bleu --translation=OUT --reference=REFERENCE --json_file={run.path}/bleu.json" in (
        str(error.value)
    )
    assert "parsing.score" not in str(error.value)


@pytest.mark.parametrize("problem, both", [("parsing_wsj4k", False), ("of_the_users", True)])
def test_a_parser_is_scored_by_its_trees_and_what_is_not_known_by_either(tmp_path, problem, both):
    run = untrained.begun(tmp_path / "parser", "transformer_parsing_base", problem)
    with pytest.raises(UserError) as error:
        run_scores.read(str(run.path))
    said = "python -m t2t_repro.parsing.score --gold=TREES --predicted=OUT --gold_parts_of_speech "
    assert f"{said}--json_file={run.path}/f1.json" in str(error.value)
    assert ("t2t-bleu" in str(error.value)) == both


def test_where_no_score_is_needed_a_run_has_none(run, tmp_path):
    RunDirectory(tmp_path / "other").begin(run.config(), ["t2t-trainer"], [])
    for text, paths in (
        (str(run.path), [run.path]),
        (str(tmp_path), [tmp_path / "other", run.path]),
    ):
        found = run_scores.read(text, scored=False)
        assert [score.path for score in found] == [str(path) for path in paths]
        assert {(score.bleu, score.f1) for score in found} == {(None, None)}
    run.append_metrics({"kind": "eval", "step": 7, "split": "dev", "loss": 0.0})
    *_, table = tables.table3(run_scores.read(str(tmp_path), scored=False))
    (row,) = table.as_dict()["rows"]  # of the other nothing is known
    assert (row["run"], row["PPL"], row["BLEU"]) == (str(run.path), 1.0, None)


def test_a_file_that_is_not_there(run):
    with pytest.raises(UserError, match="none.json"):
        run_scores.read(f"{run.path}=none.json")


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[1]", "{}", '{"sacrebleu": 3}', '{"sacrebleu": {"score": 1}}', '{"all": {}}'),
        *('{"sacrebleu": {"score": "x"}}', '{"all": {"f1": "x"}}', "\xff"),
        '{"sacrebleu": {"score": 1}, "compound_split": {"score": 2}}',  # and no signature
    ],
)
def test_a_file_that_holds_no_score(run, tmp_path, text):
    path = tmp_path / "score.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match="score.json"):
        run_scores.read(f"{run.path}={path}")


def test_the_scores_of_many_files_are_not_taken_for_one(run, tmp_path):
    path = tmp_path / "steps.json"
    path.write_text(json.dumps([{"step": 1, "sacrebleu": {"score": 3.0}}]))
    with pytest.raises(UserError, match="--translation"):
        run_scores.read(f"{run.path}={path}")

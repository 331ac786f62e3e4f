"""The table of settings: the paper's, T2T's and ours; docs/paper.md shows it."""

import dataclasses
import json
from pathlib import Path

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.run_directory import PLAN
from t2t_repro.studies.paper import recipes, run_records, settings
from t2t_repro.studies.paper.reproduce import RECIPE_FILE
from t2t_repro.studies.paper.run_scores import RunScore
from t2t_repro.training.state import STATE, StateFile
from tests import untrained

DOC = Path(__file__).parents[3] / "docs" / "paper.md"


def rows():
    (table,) = settings.table()
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, row, strict=True)) for row in table.rows]


def test_ours_are_the_papers():
    assert len(rows()) == len(settings.SETTINGS) > 20
    for row in rows():
        assert row["ours"] == row["paper"], row


def test_updates_are_of_the_section_on_the_schedule_and_rates_of_that_on_the_optimizer():
    sections = {row["setting"]: row["section"] for row in rows()}
    assert (sections["updates"], sections["rate of update n"]) == ("5.2", "5.3")


@pytest.mark.parametrize(
    "setting, value",
    [
        ("sublayer", "x + Sublayer(LayerNorm(x))"),
        ("attention dropout", "0.1"),
        ("rate of update n", "2 d^-0.5 min(n^-0.5, n w^-1.5)"),
        ("updates", "250,000"),
        ("target tokens an update", ""),
        ("most tokens more than the source", "100"),
    ],
)
def test_t2ts_are_others_and_a_deviation_has_a_reason(setting, value):
    (row,) = (row for row in rows() if row["setting"] == setting)
    assert row["T2T"] == value != row["paper"]


@pytest.mark.parametrize(
    "name, changes, rate",
    [
        ("transformer_base_v1", "", "d^-0.5 min(n^-0.5, n w^-1.5)"),
        ("transformer_base_v1", "optimizer=Adafactor", "500 d^-0.5 min(n^-0.5, n w^-1.5)"),
        ("transformer_big", "", "2 d^-0.5 min(n^-0.5, n w^-1.5)"),
        ("lstm_attention", "", "legacy (none), learning_rate 0.1"),
        ("bytenet_base", "", "legacy (exp), learning_rate 0.05"),
        ("transformer_tpu", "", "rsqrt_decay"),
        (
            *("transformer_own_text_student", ""),
            "legacy (noam)*linear_decay, learning_rate 0.253",
        ),
        (
            *("transformer_base_single_gpu", ""),
            "constant*linear_warmup*rsqrt_decay, learning_rate_constant 0.1",
        ),
    ],
)
def test_the_rate_of_a_run_is_the_papers_formula_only_where_it_is(tmp_path, name, changes, rate):
    run = untrained.begun(tmp_path / "run", name, "p", registry.get_hparams(name, changes))
    assert settings.of_run(run)["rate of update n"] == rate


@pytest.mark.parametrize(
    "name, has",
    [
        (
            "transformer_base_v1",
            {"heads": 8, "d_ff": 2048, "positions": "timing", "residual dropout": 0.1},
        ),
        ("lstm_attention", {"heads": 1, "dropout": 0.2, "attention": "bahdanau"}),
        ("lstm_seq2seq", {"dropout": 0.2}),
        ("bytenet_base", {"dropout": 0.2, "repeats of a block": 4, "width of a convolution": 3}),
    ],
)
def test_a_model_has_the_settings_that_it_reads(tmp_path, name, has):
    run, hparams = untrained.begun(tmp_path / "run", name, "p"), registry.get_hparams(name)
    found = settings.of_run(run)
    asked = (
        *("heads", "d_ff", "positions", "residual dropout", "attention dropout", "ReLU dropout"),
        *(each.name for each in settings.OF_OPPONENTS),
    )
    transformers = {"attention dropout": 0.0, "ReLU dropout": 0.0} if "trans" in name else {}
    assert {n: found[n] for n in asked if found[n] is not None} == has | transformers
    assert (found["sublayer"] is None) == (name != "transformer_base_v1")
    assert found["d_model"] == hparams.hidden_size and found["label smoothing"] is not None
    score = RunScore(str(run.path), "p", name, 7, None, None, run_records.of(run))
    _, table = settings.table([score])
    rows = {row[0]: row[2] for row in table.rows}
    assert {n for n in asked if rows.get(n)} == (has | transformers).keys()
    assert ("dropout" in rows) == ("dropout" in has) and "heads" in rows


def test_layers_are_those_of_both_sides_and_of_a_users_model_nothing_is_known(tmp_path):
    hparams = registry.get_hparams(
        "transformer_base_v1", "num_encoder_layers=12,num_decoder_layers=3"
    )
    for name, of in (("two", hparams), ("mine", dataclasses.replace(hparams, model="mine"))):
        run = untrained.begun(tmp_path / name, "s", "p", of)
        found = settings.of_run(run)
        assert found["layers"] == "12; 3"
        assert {found[each.name] for each in settings.OF_OPPONENTS} == {None}


def test_runs_stand_beside_the_papers_settings(tmp_path):
    recipe, scores = recipes.table2("ende_base"), []
    for name, changes in (("one", ""), ("other", "hidden_size=256")):
        hparams = registry.get_hparams(recipe.hparams_set, changes)
        run = untrained.begun(tmp_path / name, recipe.hparams_set, recipe.problem, hparams)
        record = run_records.of(run)
        path, names = str(run.path), (recipe.problem, recipe.hparams_set)
        scores += [RunScore(path, *names, 7, bleu, None, record) for bleu in ({}, None)]
    (tmp_path / "one" / RECIPE_FILE).write_text(json.dumps(dataclasses.asdict(recipe)))
    tokens = {"source_tokens": 24_000, "target_tokens": 9_000}
    (tmp_path / "one" / PLAN).write_text(json.dumps({"batch": tokens}))
    _, table = settings.table(scores)
    assert [column.heading for column in table.columns[2:]] == [
        str(tmp_path / name) for name in ("one", "other")
    ]
    found = {name: cells for name, *cells in table.rows}
    assert found["d_model"] == ["512; 1,024", "512", "256"]
    assert found["source tokens an update"] == ["25,000", "25,000", "25,000"]
    assert found["target tokens an update"] == ["25,000", "9,000", "25,000"]
    assert found["beam"] == ["4", "4", ""]
    assert found["checkpoints averaged"] == ["5; 20", "5", ""]
    average = tmp_path / "one" / "averaged" / "checkpoints" / "ckpt-9"
    average.mkdir(parents=True)
    state = StateFile(step=9, averaged=(3, 6, 9), files={})
    (average / STATE).write_text(json.dumps(dataclasses.asdict(state)))
    found = {name: cells for name, *cells in settings.table(scores)[1].rows}
    assert found["checkpoints averaged"] == ["5; 20", "3", ""]  # fewer than were to be
    (tmp_path / "one" / PLAN).write_text('{"batch": {}}')
    with pytest.raises(UserError, match="source_tok"):
        settings.table(scores)


def test_the_page_shows_what_the_program_prints():
    (table,) = settings.table()
    _, shown, *notes = table.markdown().strip().split("\n\n")
    text = DOC.read_text(encoding="utf-8")
    for part in (shown, *notes):
        assert part in text, f"paste it into docs/paper.md: t2t-paper --tables=settings: {part}"

"""The paper's rows by the programs: which runs, with which flags, and what they say."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from t2t_repro import registry, stages
from t2t_repro.errors import UserError
from t2t_repro.paper import published, reproduce
from t2t_repro.paper.reproduce import CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, judge
from t2t_repro.run_directory import RunDirectory
from t2t_repro.study.results import Results
from tests.study.studies import result_of


@pytest.fixture
def folders(tmp_path):
    return reproduce.Folders(*(str(tmp_path / name) for name in ("output_dir", "data", "raw")))


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """Stands for the programs: what they were asked for."""
    kept = []

    def program(command, doing):
        kept.append(command)
        flags = dict(flag.removeprefix("--").split("=", 1) for flag in command[1:] if "=" in flag)
        if command[0] in ("t2t-trainer", "t2t-avg-all"):
            run = RunDirectory(flags["output_dir"]).path
            run.mkdir(exist_ok=True)
            (run / "run.json").write_text("{}")
        for name in ("decode_to_file", "json_file"):
            if name in flags:
                pathlib.Path(flags[name]).write_text("{}")

    monkeypatch.setattr(stages, "run_program", program)
    samples = [{"inputs": "A dog.", "targets": "Ein Hund."}]
    for problem in {type(registry.get_problem(name)) for name, _ in reproduce.TABLE2.values()}:
        monkeypatch.setattr(problem, "generate_samples", lambda *of: samples)
    return kept


@pytest.mark.parametrize("name", reproduce.TABLE2)
def test_rows_of_table_2(name, folders, commands):
    run = reproduce.table2(name, folders)
    big = "big" in name
    trainer, average, perplexity, *scores = commands
    averaged, updates = (20, 595) if big else (5, 1389)
    problem_name, hparams_set = reproduce.TABLE2[name]
    assert trainer == [
        *("t2t-trainer", "--generate_data", f"--problem={problem_name}"),
        *(f"--hparams_set={hparams_set}", f"--output_dir={run}"),
        *(f"--local_eval_frequency={updates}", f"--keep_checkpoint_max={averaged}"),
        *(f"--data_dir={folders.data_dir}", f"--tmp_dir={folders.tmp_dir}"),
    ]
    assert average[0] == "t2t-avg-all" and {f"--n={averaged}", "--last_only"} <= {*average}
    assert perplexity[0] == "t2t-eval"
    assert [command[0] for command in scores] == ["t2t-decoder", "t2t-bleu"] * 2
    assert (run / "decoded" / "test.source").read_text() == "A dog.\n"
    assert (run / "decoded" / "dev.reference").read_text() == "Ein Hund.\n"
    hparams = registry.get_hparams(hparams_set)
    steps = 300_000 if big else 100_000
    assert (hparams.train_steps, hparams.effective_batch_size) == (steps, 25_000)
    assert registry.get_problem(problem_name).name == problem_name
    assert problem_name.startswith(f"translate_{name[:4]}_wmt14")
    assert hparams.shared_embedding_and_softmax_weights == ("separate" not in name)
    assert hparams.attention_dropout == (0.1 if "attention_dropout" in name else 0.0)
    assert hparams.layer_prepostprocess_dropout == (0.3 if name.startswith("ende_big") else 0.1)


def test_a_row_of_table_2_goes_on_with_the_same_hparams_alone(folders, commands, monkeypatch):
    run = reproduce.table2("ende_base", folders, train_steps=70)
    assert {"--hparams=train_steps=70", "--local_eval_frequency=11"} <= {*commands[0]}
    commands.clear()
    reproduce.table2("ende_base", folders, train_steps=70)
    assert not commands
    shutil.rmtree(run / "averaged")
    reproduce.table2("ende_base", folders, train_steps=70)
    assert [command[0] for command in commands] == ["t2t-avg-all"]
    with pytest.raises(UserError, match="--hparams"):
        reproduce.table2("ende_base", folders, "num_heads=4", train_steps=70)

    def refuse(command, doing):
        raise UserError("no data")

    monkeypatch.setattr(stages, "run_program", refuse)
    for hparams in ("", "num_heads=4"):  # a training that was refused binds to nothing
        with pytest.raises(UserError, match="no data"):
            reproduce.table2("ende_big", folders, hparams)


@pytest.mark.parametrize("row", published.TABLE3, ids=lambda row: row.hparams_set)
def test_rows_of_table_3_differ_as_the_papers_do(row, folders):
    of = {"train_steps": 700, "scale": 4, "seeds": 2}
    study = reproduce.table3([row.name], folders, "effective_batch_size=500", **of)
    full = registry.get_hparams(row.hparams_set)
    (variant,) = study.variants
    small = registry.get_hparams(row.hparams_set, variant.changes)
    assert (small.hidden_size, small.filter_size) == (full.hidden_size // 4, full.filter_size // 4)
    keys, of_full = (h.attention_key_channels or h.hidden_size for h in (small, full))
    assert keys == of_full // 4
    same = ("num_heads", "num_hidden_layers", "label_smoothing", "layer_prepostprocess_dropout")
    for field in (*same, "pos", "layer_postprocess_sequence"):
        assert getattr(small, field) == getattr(full, field)
    assert small.train_steps == (2100 if row.name == "big" else 700)
    assert (small.learning_rate_warmup_steps, small.effective_batch_size) == (350, 500)
    assert [study.run_of(cell).path.name for cell in study.cells()] == [
        f"{row.name}_seed-{seed}" for seed in range(2)
    ]


def test_the_page_of_table_3(folders):
    study = reproduce.table3(["base", "a_h1", "e_learned_positions", "big"], folders, seeds=2)
    bleus = {"base": 60.0, "a_h1": 60.0, "e_learned_positions": 60.0, "big": 180.0}
    losses = {"a_h1": 3.0}
    cells = []
    for cell in study.cells():
        name = cell.variant.name
        loss = losses.get(name, 2.0) + cell.seed / 10
        cells.append(result_of(cell, loss, bleu=bleus[name]))
    cells[-1] = result_of(cell, stopped_at=3, dev_loss=None)
    path = reproduce.write_table3(Results(study, cells))
    values = json.loads(path.with_suffix(".json").read_text())
    base, one, _, big = values["3-scaled"]["rows"]
    assert (base["row"], base["seeds"], base["BLEU"], big["seeds"]) == ("base", 2, 60.0, 1)
    assert (base["h"], base["d_k"], base["k steps"]) == (8, 8, 2.0)
    assert (one["h"], one["d_k"], big["d"], big["k steps"]) == (1, 64, 128, 6.0)
    assert one["PPL"] == pytest.approx((np.exp(3.0) + np.exp(3.1)) / 2)
    assert (base["PPL then"], base["BLEU then"]) == (4.92, 25.8)
    words = {row["conclusion"]: row["verdict"] for row in values["3-conclusions"]["rows"]}
    assert words == {
        "(A) one head is worse than eight": NOT_CONFIRMED,
        "(E) learned positions match sinusoids": CONFIRMED,
        "big is better than base": NOT_TESTABLE,
    }
    assert "| big | 6 | 128 | 512 | 16 | 8 |" in path.with_suffix(".md").read_text()


@pytest.mark.parametrize(
    "gain, half, then, equal, word",
    [
        (1.0, 0.4, 99.0, False, CONFIRMED),
        (0.3, 2.0, 99.0, False, NOT_CONFIRMED),
        (0.6, 2.7, 0.4, False, NOT_TESTABLE),  # from -2.1 to 3.3
        (0.6, 2.7, 3.5, False, NOT_CONFIRMED),  # so much it is not
        (-0.7, 0.2, 0.4, False, NOT_CONFIRMED),  # the other way round
        (1.0, None, 0.4, False, NOT_TESTABLE),
        (None, None, 0.4, False, NOT_TESTABLE),
        (0.01, 0.1, 0.1, True, CONFIRMED),
        (2.0, 0.1, 0.1, True, NOT_CONFIRMED),
        (0.7, 7.0, 0.1, True, NOT_TESTABLE),
    ],
)
def test_what_runs_say_of_a_conclusion(gain, half, then, equal, word):
    assert judge(gain, half, then, equal) == word


def test_what_60_runs_said_is_what_docs_paper_has(folders, monkeypatch):
    """docs/table3-runs.json has what each run ended with, docs/paper.md the table of them."""
    monkeypatch.setattr(reproduce.parameters, "shapes", lambda *of: {})
    docs = pathlib.Path(__file__).parents[2] / "docs"
    runs = json.loads((docs / "table3-runs.json").read_text())["runs"]
    study = reproduce.table3(list(runs), folders, seeds=3)
    cells = [
        result_of(cell, np.log(of["perplexity"]), bleu=of["bleu"], unigram_loss=99.0)
        for cell in study.cells()
        for of in [runs[cell.variant.name][str(cell.seed)]]
    ]
    page = reproduce.write_table3(Results(study, cells)).with_suffix(".md").read_text()
    text = (docs / "paper.md").read_text()
    rows = [row.split(" | ") for row in page.splitlines() if "| BLEU |" in row or "| PPL |" in row]
    assert sum(f"{c[0]} | {c[2]} | {c[3]}±{c[4]} | {c[6]}" in text for c in rows) == 15

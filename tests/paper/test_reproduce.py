"""A recipe by the programs: which run, with which flags, and what the run's files say after it."""

import dataclasses
import json
import math
import shutil

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.paper import published, reproduce, scaled
from t2t_repro.paper import runs as records
from t2t_repro.run_directory import RunConfig, RunDirectory


@pytest.fixture
def request_of(tmp_path):
    """Returns a request of Table 3, or with changes."""
    folders = {name: str(tmp_path / name) for name in ("data_dir", "tmp_dir", "output_dir")}
    (tmp_path / "tmp_dir").mkdir()

    def ask(rows="", **changes):
        given = {"table": 3, "train_steps": 60, "warmup_steps": 7, "batch": 500, "seeds": 1}
        return reproduce.Request(rows=rows, **folders | given | changes)

    return ask


def begin(folder, hparams, loss=2.0, bleu=7.0):
    """Leaves what t2t-trainer, t2t-avg-all, t2t-eval, t2t-decoder and t2t-bleu leave of a run."""
    run = RunDirectory(folder)
    config = RunConfig(
        hparams_set="paper_table3_base",
        hparams=hparams,
        problem="translate_ende_multi30k",
        data_dir="data",
        version="0",
    )
    run.begin(config, ["t2t-trainer"], [])
    run.append_metrics({"kind": "train", "step": hparams.train_steps})
    (run.checkpoints_dir / f"ckpt-{hparams.train_steps}").mkdir(parents=True)
    averaged = RunDirectory(run.path / "averaged")
    averaged.begin(config, ["t2t-avg-all"], [])
    (averaged.checkpoints_dir / "ckpt-9").mkdir(parents=True)
    metrics = json.dumps({"metrics": {"loss": loss}})
    (run.path / "averaged" / "eval-dev-9.json").write_text(metrics)
    (run.path / records.DEV_BLEU_FILE).write_text(json.dumps({"sacrebleu": {"score": bleu}}))
    return run


class Programs:
    """Stands for the programs: keeps their commands; the run is there after training."""

    def __init__(self):
        self.commands = []

    @property
    def trained(self):
        """The names of the runs."""
        flags = [c for command in self.commands if command[0] == "t2t-trainer" for c in command]
        return [f.rpartition("/")[2] for f in flags if f.startswith("--output_dir=")]

    def __call__(self, command, doing):
        self.commands.append(command)
        flags = dict(flag.removeprefix("--").split("=", 1) for flag in command[1:] if "=" in flag)
        if command[0] == "t2t-trainer" and not RunDirectory(flags["output_dir"]).exists():
            hparams = registry.get_hparams(flags["hparams_set"], flags.get("hparams", ""))
            seed, steps = int(flags["random_seed"]), hparams.train_steps
            loss = 2.0 + seed / 10 + 1 / hparams.num_heads
            begin(flags["output_dir"], hparams, loss, steps + seed)


@pytest.mark.parametrize("name", reproduce.TABLE2)
def test_rows_of_table_2(name, request_of):
    request = request_of(name, table=2, train_steps=None)
    recipe = reproduce.table2(name, request)
    big = "big" in name
    assert (recipe.averaged, recipe.updates) == ((20, 595) if big else (5, 1389))
    assert recipe.hparams == "" and recipe.splits == ("dev", "test")
    hparams = registry.get_hparams(recipe.hparams_set)
    steps = 300_000 if big else 100_000
    assert (hparams.train_steps, hparams.effective_batch_size) == (steps, 25_000)
    assert registry.get_problem(recipe.problem).name == recipe.problem
    assert recipe.problem.startswith(f"translate_{name[:4]}_wmt14")
    assert hparams.shared_embedding_and_softmax_weights == ("separate" not in name)
    assert hparams.attention_dropout == (0.1 if "attention_dropout" in name else 0.0)
    assert hparams.layer_prepostprocess_dropout == (0.3 if name.startswith("ende_big") else 0.1)


@pytest.mark.parametrize("row", published.TABLE3, ids=lambda row: row.hparams_set)
def test_rows_of_table_3_differ_as_the_papers_do(row, request_of):
    recipe = reproduce.table3(row.name, request_of(scale=4, train_steps=700), 3)
    full = registry.get_hparams(row.hparams_set)
    small = registry.get_hparams(recipe.hparams_set, recipe.hparams)
    assert (small.hidden_size, small.filter_size) == (full.hidden_size // 4, full.filter_size // 4)
    keys, of_full = (h.attention_key_channels or h.hidden_size for h in (small, full))
    assert keys == of_full // 4
    same = ("num_heads", "num_hidden_layers", "label_smoothing", "layer_prepostprocess_dropout")
    for field in (*same, "pos", "layer_postprocess_sequence"):
        assert getattr(small, field) == getattr(full, field)
    assert small.train_steps == (2100 if row.name == "big" else 700)
    assert (small.learning_rate_warmup_steps, small.effective_batch_size) == (7, 500)
    assert recipe.updates * 5 == small.train_steps and recipe.splits == ("dev",)
    assert (recipe.name, recipe.seed, recipe.averaged) == (f"{row.name}-3", 3, 1)


def test_table_3_is_made_seed_by_seed_and_goes_on(request_of, tmp_path):
    rows = "base,a_h1,e_learned_positions,big"
    request, programs = request_of(rows, seeds=2), Programs()
    paths = scaled.run(request, programs)
    assert programs.trained == [f"{row}-{seed}" for seed in (0, 1) for row in rows.split(",")]
    values = json.loads(paths[0].read_text())
    base, one, _, big = values["3-scaled"]["rows"]
    assert (base["row"], base["seeds"], base["BLEU"], big["BLEU"]) == ("base", 2, 60.5, 180.5)
    assert (base["h"], base["d_k"], base["updates"]) == (8, 8, 60)
    assert (one["h"], one["d_k"], big["d_model"], big["updates"]) == (1, 64, 128, 180)
    assert one["PPL"] == pytest.approx((math.exp(3.0) + math.exp(3.1)) / 2)
    words = {row["conclusion"]: row["here it is"] for row in values["3-conclusions"]["rows"]}
    assert words == {
        "(A) one head is worse than eight": "not confirmed",
        "(E) learned positions are as good": "confirmed",
        "big is better than base": "confirmed",
    }
    assert "| big | 6 | 128 | 512 | 16 | 8 |" in paths[1].read_text()
    command = "--scale=8 --seeds=2 --train_steps=60 --batch=500 --warmup_steps=7 --rows=base,a_h1,"
    assert f"{command}e_learned_positions,big\n" in paths[1].read_text()
    assert scaled.run(request_of("a_h1"), programs) == paths
    rows_of = json.loads(paths[0].read_text())["3-scaled"]["rows"]
    assert rows_of == values["3-scaled"]["rows"]  # what else is there stays in the page
    programs.commands.clear()
    assert scaled.run(request, programs) == paths and not programs.commands
    with pytest.raises(UserError, match="table3-runs.json"):
        scaled.run(request_of(rows, scale=4), programs)
    (tmp_path / "output_dir" / scaled.RUNS).unlink()
    with pytest.raises(UserError, match="base-0"):
        scaled.run(request_of(rows, scale=4), programs)


def test_a_run_that_fails_does_not_stop_the_others(request_of, tmp_path):
    works = Programs()
    folder = tmp_path / "output_dir"

    def program(command, doing):
        works(command, doing)
        if "/a_h1-0" in str(command):  # not finite
            (folder / "a_h1-0" / records.DEV_BLEU_FILE).unlink()
            shutil.rmtree(folder / "a_h1-0" / "averaged")
            raise UserError("not finite")

    request = request_of("base,a_h1,big")
    with pytest.raises(UserError, match="a_h1-0"):
        scaled.run(request, program)
    assert scaled.results(request).keys() == {"base", "big"}
    (row,) = json.loads((folder / "table3.json").read_text())["3-scaled"]["rows"][1:2]
    assert (row["row"], row["seeds"], row["PPL"]) == ("a_h1", 0, None)

    def broken(command, doing):
        raise UserError("no data")

    with pytest.raises(UserError, match="no data"):  # which all would say
        scaled.run(request_of("b_dk16,b_dk32"), broken)


@pytest.mark.parametrize("loss", [431.0, float("nan")])
def test_a_run_whose_dev_loss_is_none_of_a_model_failed(request_of, loss, tmp_path):
    request = request_of("base,a_h1")

    def program(command, doing):
        works(command, doing)
        if command[0] == "t2t-trainer" and "a_h1-0" in str(command):
            file = tmp_path / "output_dir" / "a_h1-0" / "averaged" / "eval-dev-9.json"
            file.write_text(json.dumps({"metrics": {"loss": loss}}))

    works = Programs()
    with pytest.raises(UserError, match="a_h1-0"):
        scaled.run(request, program)
    assert scaled.results(request).keys() == {"base"}


def test_a_problem_whose_splits_have_no_text_is_refused(request_of, monkeypatch):
    kind = type(registry.get_problem("translate_ende_multi30k"))
    monkeypatch.setattr(kind, "is_generate_per_split", False)
    request = request_of("base")
    with pytest.raises(UserError, match="translate_ende_multi30k"):
        reproduce.carry_out(reproduce.table3("base", request, 0), request, Programs())


def test_until_there_is_an_average_training_may_have_to_end(request_of):
    """The last evaluation is made after the last checkpoint."""
    request, programs = request_of("base"), Programs()
    recipe = reproduce.table3("base", request, 0)
    run = reproduce.carry_out(recipe, request, programs)
    (run.path / "averaged" / "run.json").unlink()
    programs.commands.clear()
    reproduce.carry_out(recipe, request, programs)
    assert [command[0] for command in programs.commands] == ["t2t-trainer", "t2t-avg-all"]
    assert "--n=1" in programs.commands[1] and "--last_only" in programs.commands[1]


@pytest.mark.parametrize("there, averaged", [(2, 2), (7, 5)])
def test_of_fewer_checkpoints_than_the_recipe_averages_all_are(
    request_of, tmp_path, there, averaged
):
    request, programs = request_of("ende_base", table=2, train_steps=None), Programs()
    recipe = reproduce.table2("ende_base", request)
    run = begin(tmp_path / "output_dir" / "ende_base", registry.get_hparams(recipe.hparams_set))
    (run.path / "bleu.json").write_text("{}")
    (run.path / "averaged" / "run.json").unlink()
    for step in range(1, there):
        (run.checkpoints_dir / f"ckpt-{step}").mkdir()
    reproduce.carry_out(recipe, request, programs)
    _, command = programs.commands
    assert command[0] == "t2t-avg-all" and f"--n={averaged}" in command


def test_what_was_begun_goes_on_with_the_same_alone(request_of):
    request = request_of("ende_base", table=2, train_steps=70)

    def refuse(command, doing):
        raise UserError("no data")

    for hparams in ("", "num_heads=4"):  # a training that was refused binds to nothing
        asked = dataclasses.replace(request, hparams=hparams)
        with pytest.raises(UserError, match="no data"):
            reproduce.carry_out(reproduce.table2("ende_base", asked), asked, refuse)
    run = reproduce.run_of(reproduce.table2("ende_base", request), request)
    begin(run.path, registry.get_hparams("paper_table3_base"))
    with pytest.raises(UserError, match="num_heads=4"):
        reproduce.carry_out(reproduce.table2("ende_base", request), request, refuse)


def test_what_runs_ended_with_is_kept_when_they_are_gone(request_of, tmp_path):
    request, programs = request_of("base,a_h1"), Programs()
    page, _ = scaled.run(request, programs)
    before = page.read_text()
    file = tmp_path / "output_dir" / scaled.RUNS
    assert json.loads(file.read_text())["runs"]["base"]["0"]["bleu"] == 60.0
    for row in request.names:
        shutil.rmtree(tmp_path / "output_dir" / f"{row}-0")
    programs.commands.clear()
    page.unlink()
    scaled.run(request, programs)
    assert page.read_text() == before and not programs.commands
    scaled.run(request_of("base,a_h1", seeds=2), programs)
    assert programs.trained == ["base-1", "a_h1-1"]
    rows = json.loads(page.read_text())["3-scaled"]["rows"]
    assert [row["seeds"] for row in rows] == [2, 2] and rows[0]["BLEU"] == 60.5

"""A recipe by the programs: which run, with which flags, and what the run's files say after it."""

import dataclasses
import json
import math
import shutil
import threading

import pytest

from t2t_repro import files, registry
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.studies.paper import recipes, reproduce, run_records, scaled
from t2t_repro.studies.paper.reproduce import Place

SCALE = recipes.Scale(width=8, train_steps=60, warmup_steps=7, batch=500)
TINY = "hidden_size=16,filter_size=24,num_heads=2,num_hidden_layers=1"


@pytest.fixture
def place(tmp_path):
    folders = {name: str(tmp_path / name) for name in ("data_dir", "tmp_dir", "output_dir")}
    (tmp_path / "tmp_dir").mkdir()
    return Place(**folders)


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
    (run.checkpoints_dir / f"ckpt-{hparams.train_steps}").mkdir(parents=True)
    averaged = RunDirectory(run.path / "averaged")
    averaged.begin(config, ["t2t-avg-all"], [])
    (averaged.checkpoints_dir / "ckpt-9").mkdir(parents=True)
    metrics = json.dumps({"metrics": {"loss": loss}})
    (run.path / "averaged" / "eval-dev-9.json").write_text(metrics)
    (run.path / run_records.DEV_BLEU_FILE).write_text(json.dumps({"sacrebleu": {"score": bleu}}))
    return run


def study_of(place, *rows):
    """Returns one seed of some rows of Table 3."""
    problem = "translate_ende_multi30k"
    return scaled.Study(rows=list(rows), scale=SCALE, problem=problem, seeds=1, place=place)


def hparams_of(recipe):
    return registry.get_hparams(recipe.hparams_set, recipe.hparams)


class Programs:
    """Stands for the programs: keeps their commands; the run is there after training, and what
    t2t-avg-all leaves."""

    def __init__(self, place):
        self.place, self.commands = place, []

    def __call__(self, command, doing):
        self.commands.append(command)
        flags = dict(flag.removeprefix("--").split("=", 1) for flag in command[1:] if "=" in flag)
        trained = command[0] == "t2t-trainer" and RunDirectory(flags["output_dir"]).exists()
        if command[0] == "t2t-trainer" and not trained:
            hparams = registry.get_hparams(flags["hparams_set"], flags.get("hparams", ""))
            seed, steps = int(flags["random_seed"]), hparams.train_steps
            begin(
                flags["output_dir"], hparams, 2.0 + seed / 10 + 1 / hparams.num_heads, steps + seed
            )


def test_the_tables_wait_for_another_command_that_writes_them(place, tmp_path):
    problem = "translate_ende_multi30k"
    study = scaled.Study(rows=["base"], scale=SCALE, problem=problem, seeds=1, place=place)
    folder = tmp_path / "output_dir"
    folder.mkdir()
    writer = threading.Thread(target=scaled.write, args=(study,))
    with files.locked([folder], print):
        writer.start()
        writer.join(0.3)
        assert writer.is_alive() and not list(folder.iterdir())
    writer.join(30)
    assert (folder / scaled.RUNS).exists()


def test_table_3_is_made_seed_by_seed_and_goes_on(place, tmp_path):
    rows = ["base", "a_h1", "e_learned_positions", "big"]
    study = scaled.Study(
        rows=rows, scale=SCALE, problem="translate_ende_multi30k", seeds=2, place=place
    )
    programs = Programs(place)
    paths = scaled.run(study, lambda line: None, programs)
    done = [command for command in programs.commands if command[0] == "t2t-trainer"]
    names = [command[7].rpartition("/")[2] for command in done]
    assert names == [f"{row}-{seed}" for seed in (0, 1) for row in rows]
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
    assert "divided by 8" in paths[1].read_text()
    command = "--scale=8 --seeds=2 --train_steps=60 --batch=500 --warmup_steps=7 --rows=base,a_h1,"
    assert f"{command}e_learned_positions,big makes it.\n" in paths[1].read_text()
    part = dataclasses.replace(study, rows=["a_h1"], seeds=1)
    assert scaled.run(part, lambda line: None, programs) == paths
    assert json.loads(paths[0].read_text()) == values  # what else is there stays in the page
    for seed in (0, 1):  # 60 steps at 2 and at 4 seconds
        run = RunDirectory(tmp_path / "output_dir" / f"base-{seed}")
        run.append_metrics({"kind": "train", "step": 60, "tokens_per_second": 100.0 / (1 + seed)})
        (run.path / "training-data.json").write_text('{"targets_tokens": 600, "batches": 3}')
        machine = {"kind": "CPU", "replicas": 1, "rate": 2e12}
        plan = {"parameters": 77, "flop": 5e12, "machine": machine}
        (run.path / "plan.json").write_text(json.dumps(plan))
    programs.commands.clear()
    assert scaled.run(study, lambda line: None, programs) == paths and not programs.commands
    base, one, *_ = json.loads(paths[0].read_text())["3-scaled"]["rows"]
    assert base["hours"] == pytest.approx(60 * 3 / 3600) and one["hours"] is None
    other = dataclasses.replace(study, scale=dataclasses.replace(SCALE, width=4))
    with pytest.raises(UserError, match="table3-runs.json"):
        scaled.run(other, print, programs)
    (tmp_path / "output_dir" / scaled.RUNS).unlink()
    with pytest.raises(UserError, match="0"):
        scaled.run(other, print, programs)
    shutil.rmtree(tmp_path / "output_dir" / "base-0")  # base is made; a_h1 is of the other scale
    with pytest.raises(UserError, match="a_h1"):
        scaled.run(other, print, programs)
    assert scaled.kept(other).runs.keys() == {"base"}


def test_a_run_that_fails_does_not_stop_the_others(place):
    study = study_of(place, "base", "a_h1", "big")
    works, said = Programs(place), []

    def program(command, doing):
        if "/a_h1-0" not in str(command):
            works(command, doing)
        else:
            RunDirectory(reproduce.folder_of(recipe, place)).append_metrics({"step": 7})
            raise UserError("not finite")

    recipe = recipes.table3("a_h1", study.problem, study.scale, 0)
    with pytest.raises(UserError, match="a_h1"):
        scaled.run(study, said.append, program)
    assert scaled.kept(study).runs.keys() == {"base", "big"}
    assert "a_h1-0 failed. Going on with the others." in said
    page = study.runs_file.with_name("table3.json")

    def counted():  # seeds and failures: of the row, and of its conclusion
        tables = json.loads(page.read_text())
        row, conclusion = tables["3-scaled"]["rows"][1], tables["3-conclusions"]["rows"][0]
        return row["seeds"], row["failed"], conclusion["seeds"], conclusion["failed"]

    assert counted() == (0, 1, 0, 1)
    part = dataclasses.replace(study, rows=["base"])
    scaled.run(part, said.append, works)
    assert counted() == (0, 1, 0, 1)  # whatever else is tried
    scaled.run(study, said.append, works)
    assert counted() == (1, 0, 1, 0) and scaled.kept(study).failed == {}

    def broken(command, doing):
        raise UserError("no data")

    other = dataclasses.replace(study, rows=["b_dk16", "b_dk32"])
    with pytest.raises(UserError):  # which all would say
        scaled.run(other, said.append, broken)


@pytest.mark.parametrize("loss", [431.0, float("nan")])
def test_a_run_whose_dev_loss_is_none_of_a_model_counts_as_failed(place, loss):
    study = study_of(place, "base", "a_h1")
    scaled.run(study, print, Programs(place))
    recipe, said = recipes.table3("a_h1", study.problem, study.scale, 0), []
    file = reproduce.folder_of(recipe, place) / "averaged" / "eval-dev-9.json"
    file.write_text(json.dumps({"metrics": {"loss": loss}}))
    with pytest.raises(UserError, match="a_h1"):
        scaled.run(study, said.append, Programs(place))
    assert "a_h1-0 diverged. Going on with the others." in said
    assert scaled.kept(study).runs["a_h1"] == {} and scaled.kept(study).failed == {"a_h1": [0]}
    base, one = json.loads(study.runs_file.with_name("table3.json").read_text())["3-scaled"]["rows"]
    assert (base["failed"], one["failed"], one["seeds"], one["PPL"]) == (0, 1, 0, None)


def test_a_run_that_another_makes_is_waited_for(place):
    recipe = recipes.table3(
        "base",
        "translate_ende_multi30k",
        SCALE,
        0,
    )
    said: list[str] = []
    folder = reproduce.folder_of(recipe, place)
    folder.mkdir(parents=True)
    second = threading.Thread(target=reproduce.carry_out, args=(recipe, place, said.append))
    with files.locked([folder], print):
        second.start()
        second.join(0.3)
        assert second.is_alive() and said == [
            f"Waiting for another process that writes to {folder}."
        ]
        begin(folder, hparams_of(recipe))
    second.join(30)
    assert len(said) == 1  # all was there


@pytest.mark.parametrize(
    "name, per_split, message",
    [
        ("algorithmic_reverse_quickstart", True, "scores text, which algorithmic_reverse_quick"),
        ("translate_ende_multi30k", False, "deals one text to all. Take another"),
    ],
)
def test_a_problem_without_text_of_dev_is_refused_before_anything(
    place, monkeypatch, name, per_split, message
):
    kind = type(registry.get_problem(name))
    monkeypatch.setattr(kind, "is_generate_per_split", per_split)
    recipe = recipes.table3("base", name, SCALE, 0)
    with pytest.raises(UserError, match=message):
        reproduce.carry_out(recipe, place, program=lambda *of: pytest.fail("it began"))


def test_until_there_is_an_average_training_may_have_to_end(place):
    """The last evaluation and provenance.json are made after the last checkpoint."""
    recipe, programs = recipes.table3("base", "translate_ende_multi30k", SCALE, 0), Programs(place)
    run = reproduce.carry_out(recipe, place, lambda line: None, programs)
    (run.path / "averaged" / "run.json").unlink()
    programs.commands.clear()
    reproduce.carry_out(recipe, place, lambda line: None, programs)
    assert [command[0] for command in programs.commands] == ["t2t-trainer", "t2t-avg-all"]


@pytest.mark.parametrize("there, averaged", [(2, 2), (7, 5)])
def test_of_fewer_checkpoints_than_the_recipe_averages_all_are(place, tmp_path, there, averaged):
    recipe, programs, said = recipes.table2("ende_base"), Programs(place), []
    run = begin(tmp_path / "output_dir" / "ende_base", hparams_of(recipe))
    (run.path / "bleu.json").write_text("{}")
    (run.path / "averaged" / "run.json").unlink()
    for step in range(1, there):
        (run.checkpoints_dir / f"ckpt-{step}").mkdir()
    reproduce.carry_out(recipe, place, said.append, programs)
    _, command = programs.commands
    assert command[0] == "t2t-avg-all" and f"--n={averaged}" in command
    fewer = "ende_base has 2 checkpoints, of which the recipe averages the last 5: all of them are"
    assert any(line.startswith(fewer) for line in said) == (there < 5)


def test_a_trained_run_is_evaluated_on_the_data_that_are_asked_for(place, tmp_path):
    recipe = recipes.table3("base", "translate_ende_multi30k", SCALE, 0)
    run = begin(tmp_path / "output_dir" / "base-0", hparams_of(recipe))
    (run.path / "averaged" / "eval-dev-9.json").unlink()
    programs, moved = Programs(place), dataclasses.replace(place, data_dir=str(tmp_path / "moved"))
    reproduce.carry_out(recipe, moved, lambda line: None, programs)
    (command,) = programs.commands
    assert command[0] == "t2t-eval" and f"--data_dir={tmp_path / 'moved'}" in command


def test_table_3_is_of_the_last_checkpoint_alone_as_the_papers(place, tmp_path):
    recipe, programs = recipes.table3("base", "translate_ende_multi30k", SCALE, 0), Programs(place)
    run, said = begin(tmp_path / "output_dir" / "base-0", hparams_of(recipe)), []
    (run.path / "averaged" / "run.json").unlink()
    reproduce.carry_out(recipe, place, said.append, programs)
    (mean,) = [command for command in programs.commands if command[0] == "t2t-avg-all"]
    assert "--n=1" in mean and "--last_only" in mean
    assert any("base-0: the last checkpoint\n" in line for line in said)
    study = scaled.Study(rows=["base"], scale=SCALE, problem=recipe.problem, seeds=1, place=place)
    assert "dev; the last checkpoint alone" in scaled.tables(study, {}, {})[0].notes[0]


def test_what_runs_ended_with_is_kept_when_they_are_gone(place, tmp_path):
    study = study_of(place, "base", "a_h1")
    programs = Programs(place)
    page, _ = scaled.run(study, lambda line: None, programs)
    before = page.read_text()
    file = tmp_path / "output_dir" / scaled.RUNS
    assert json.loads(file.read_text())["runs"]["base"]["0"]["bleu"] == 60.0
    for row in study.rows:
        shutil.rmtree(tmp_path / "output_dir" / f"{row}-0")
    programs.commands.clear()
    page.unlink()
    kept = json.loads(file.read_text())
    assert kept.pop("failed") == {}
    file.write_text(json.dumps(kept))  # as it was written before failures were in it
    scaled.run(study, lambda line: None, programs)
    assert page.read_text() == before and not programs.commands
    scaled.run(dataclasses.replace(study, seeds=2), lambda line: None, programs)
    trained = [command[7] for command in programs.commands if command[0] == "t2t-trainer"]
    assert [path.rpartition("/")[2] for path in trained] == ["base-1", "a_h1-1"]
    rows = json.loads(page.read_text())["3-scaled"]["rows"]
    assert [row["seeds"] for row in rows] == [2, 2] and rows[0]["BLEU"] == 60.5
    # a run that is made anew counts as it ends then
    begin(tmp_path / "output_dir" / "base-0", registry.get_hparams("paper_table3_base"), 2.0, 70.0)
    assert scaled.results(study)["base"][0].bleu == 70.0
    file.write_text('{"settings": {}}')
    with pytest.raises(UserError, match="table3-runs.json"):
        scaled.run(study, lambda line: None, programs)


def test_runs_of_settings_that_there_are_no_more_are_refused(place, tmp_path):
    study = study_of(place, "base")
    (tmp_path / "output_dir").mkdir()
    scale = study.settings["scale"] | {"averaged": 5}
    kept = {"settings": study.settings | {"scale": scale}, "runs": {}}
    study.runs_file.write_text(json.dumps(kept))
    with pytest.raises(UserError, match="5"):
        scaled.run(study, print, Programs(place))


def test_table_3_says_what_rows_are_with_the_users_changes(place):
    changed = dataclasses.replace(place, hparams="label_smoothing=0.3,num_hidden_layers=4")
    study = study_of(place, "base")
    (as_it_is,) = scaled.tables(study, {}, {})[0].as_dict()["rows"]
    (row,) = scaled.tables(dataclasses.replace(study, place=changed), {}, {})[0].as_dict()["rows"]
    assert (as_it_is["N"], as_it_is["e_ls"]) == (6, 0.1) and (row["N"], row["e_ls"]) == (4, 0.3)
    assert row["parameters"] == pytest.approx(as_it_is["parameters"] * 4 / 6, rel=0.01)


def test_what_a_run_cost(tmp_path):
    run = begin(tmp_path / "run", registry.get_hparams("paper_table3_base", "train_steps=400"))
    run.append_metrics({"kind": "train", "step": 100, "tokens_per_second": 0.0})
    run.append_metrics({"kind": "train", "step": 300, "tokens_per_second": 500.0})
    run.append_metrics({"kind": "train", "step": 400, "tokens_per_second": 250.0})
    (run.path / "training-data.json").write_text('{"targets_tokens": 9000, "batches": 3}')
    machine = {"kind": "GPU", "replicas": 8, "rate": 2e12}
    plan = {"parameters": 77, "flop": 5e12, "machine": machine}
    (run.path / "plan.json").write_text(json.dumps(plan))
    record = run_records.of(run)
    assert (record.perplexity, record.dev_bleu) == (pytest.approx(math.exp(2.0)), 7.0)
    cost = record.cost
    seconds = (200 * 3000 / 500 + 100 * 3000 / 250) * 400 / 300  # the first 100 as the others
    assert cost.hours == pytest.approx(seconds / 3600)
    assert (record.parameters, cost.devices, cost.rate) == (77, 8, 2.0)

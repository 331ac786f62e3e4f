"""The recipe in a run's folder: with what a run was begun, with that it goes on."""

import dataclasses
import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.studies.paper import recipes, reproduce
from t2t_repro.studies.paper.reproduce import Place
from tests import untrained


class Stopped(Exception):
    """A program has ended."""


@pytest.fixture
def place(tmp_path):
    folders = {name: str(tmp_path / name) for name in ("data_dir", "tmp_dir", "output_dir")}
    return Place(**folders)


def begin(folder):
    untrained.begun(folder, "paper_table3_base", "translate_ende_wmt14")


def refuse(command, doing):
    raise Stopped


def carry_out(place, program=refuse):
    reproduce.carry_out(recipes.table2("ende_base"), place, lambda line: None, program)


def test_a_training_that_was_refused_binds_to_nothing(place):
    with pytest.raises(Stopped):
        carry_out(place)
    with pytest.raises(Stopped):
        carry_out(dataclasses.replace(place, hparams="num_heads=4", train_steps=70))


def test_what_was_begun_goes_on_with_the_same_alone(place, tmp_path):
    def train(command, doing):
        begin(tmp_path / "output_dir" / "ende_base")
        raise Stopped

    asked = dataclasses.replace(place, train_steps=70)
    with pytest.raises(Stopped):
        carry_out(asked, train)
    with pytest.raises(Stopped):
        carry_out(asked)
    message = (
        "ende_base was begun with. Received: --hparams was '', now 'num_heads=4'; --train_steps "
        "was 70, now None. Give the same flags to go on, or another --output_dir."
    )
    with pytest.raises(UserError, match=message):
        carry_out(dataclasses.replace(place, hparams="num_heads=4"))


def test_a_recipe_that_lacks_what_is_asked_for_is_another(place, tmp_path):
    recipe, folder = recipes.table2("ende_base"), tmp_path / "output_dir" / "ende_base"
    begin(folder)
    file = folder / reproduce.RECIPE_FILE
    there = json.loads(json.dumps(reproduce._wanted(recipe, place)))
    for lacks, said in (("seed", "seed was None, now 0"), ("changes", "--hparams was None, now ")):
        file.write_text(json.dumps({name: there[name] for name in there if name != lacks}))
        found = reproduce.differing(recipe, place, RunDirectory(folder))
        assert any(line.startswith(said) for line in found)
    file.write_text(json.dumps(there))
    assert reproduce.differing(recipe, place, RunDirectory(folder)) == []

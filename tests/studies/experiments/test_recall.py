"""Sentences and what is asked of them, trainings that are kept, and a model that begins anew."""

import json

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.studies.experiments import recall
from t2t_repro.studies.experiments.recall import Row, Study, Variant
from t2t_repro.studies.paper import layer_costs as costs


def two_first(draw, sentences, n):
    return np.tile([1, 0], (sentences, 1))


STUDY = Study(
    "made_up",
    {
        "near": Variant(lambda n: [costs.WholeAttention(recall.WIDTH)], lambda n: 1),
        "far": Variant(lambda n: [], lambda n: 3 * n),
    },
    roles=2,
    places=two_first,
)


class Learner:
    """Learns nothing, and is killed where it is told."""

    trained: list[tuple]
    killed_at = -1

    def __init__(self, study, variant, words):
        self.what = variant, words

    def train(self, seed, advance):
        if len(self.trained) == self.killed_at:
            raise KeyboardInterrupt
        self.trained.append((*self.what, seed))
        return 1 / (1 + len(self.what[0]) + 7 * self.what[1] + seed)


@pytest.fixture
def learner(monkeypatch):
    monkeypatch.setattr(recall, "Learner", Learner)
    monkeypatch.setattr(Learner, "trained", [], raising=False)
    monkeypatch.setattr(Learner, "killed_at", -1)
    return Learner


def test_sentences_have_their_roles_and_end():
    places = np.array([[4, 0], [2, 3], [0, 1]])
    (ids, cases), asked = recall.draw_sentences(np.random.default_rng(3), 5, places)
    assert ids.shape == cases.shape == (3, 6) and ids.dtype == cases.dtype == np.int32
    assert (ids[:, -1] == recall.END).all() and ids[:, :-1].min() >= 1
    np.testing.assert_array_equal(
        cases, [[2, 0, 0, 0, 1, 0], [0, 0, 1, 2, 0, 0], [1, 2, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(asked[0], ids[0, [4, 0]] - 1)
    (ids, _), _ = recall.draw_sentences(np.random.default_rng(3), 2, np.zeros((400, 1), int))
    assert set(ids[:, :2].ravel()) == set(range(1, recall.WORDS + 1))


def test_every_variant_is_trained_at_every_distance_with_every_seed(tmp_path, learner):
    rows = recall.run(STUDY, tmp_path)
    wanted = {
        (name, n, seed)
        for name in STUDY.variants
        for n in recall.DISTANCES
        for seed in range(recall.SEEDS)
    }
    assert set(learner.trained) == wanted and len(learner.trained) == len(rows) == len(wanted)
    assert {(row.variant, row.path) for row in rows if row.distance == 8} == {
        ("near", 1),
        ("far", 24),
    }
    of = STUDY.accuracies(rows, "far")
    assert list(of) == [*recall.DISTANCES]
    assert of[8] == [pytest.approx(1 / 60), pytest.approx(1 / 61)]


@pytest.mark.parametrize("killed_at", [1, 2, 5])
def test_what_was_killed_goes_on_behind_the_last_training(killed_at, tmp_path, learner):
    whole = recall.run(STUDY, tmp_path / "whole")
    learner.trained, learner.killed_at = [], killed_at
    with pytest.raises(KeyboardInterrupt):
        recall.run(STUDY, tmp_path)
    learner.killed_at = -1
    assert recall.run(STUDY, tmp_path) == whole
    assert len(learner.trained) == len(set(learner.trained)) == len(whole)
    assert recall.run(STUDY, tmp_path) == whole and len(learner.trained) == len(whole)


def test_trainings_of_other_settings_begin_anew(tmp_path, learner, monkeypatch):
    rows = recall.run(STUDY, tmp_path)
    monkeypatch.setattr(recall, "STEPS", recall.STEPS + 1)
    assert recall.run(STUDY, tmp_path) == rows
    assert len(learner.trained) == 2 * len(rows)


@pytest.mark.parametrize("content", ["", "[]", '{"settings": {}, "rows": [["near", 2, 1, 0]]}'])
def test_kept_trainings_that_are_none_are_refused(content, tmp_path, learner):
    (tmp_path / "made_up.trainings.json").write_text(content)
    with pytest.raises(UserError, match="made_up"):
        recall.run(STUDY, tmp_path)
    assert not learner.trained


def test_kept_trainings_are_a_programs_too(tmp_path, learner):
    rows = recall.run(STUDY, tmp_path)
    content = json.loads((tmp_path / "made_up.trainings.json").read_text())
    assert content["settings"]["steps"] == recall.STEPS
    assert [Row(*row) for row in content["rows"]] == rows


@pytest.mark.slow
def test_a_model_learns_and_begins_anew(monkeypatch):
    monkeypatch.setattr(recall, "STEPS", 150)
    moved = []
    learner = recall.Learner(STUDY, "near", 2)
    first = learner.train(5, lambda: moved.append(1))
    assert first > 0.9 and len(moved) == 150
    weights = learner.model.get_weights()
    learner.train(6, lambda: None)
    assert not np.array_equal(learner.model.get_weights()[0], weights[0])
    assert learner.train(5, lambda: None) == first  # nothing is left of the past
    for one, other in zip(learner.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)
    blind = recall.Learner(STUDY, "far", 2)  # no layer brings a word to the end
    assert blind.train(5, lambda: None) < 0.3

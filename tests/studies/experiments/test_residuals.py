"""The three models are what they are said to be, and the sentences follow the numbers."""

import numpy as np
import pytest

from t2t_repro.layers.position import timing_signal
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments import residuals as experiment
from t2t_repro.studies.experiments.residuals import AGAIN, NONE, RESIDUALS, Row


@pytest.fixture(scope="module")
def models():
    """Two layers of each kind, all with the same weights."""
    made = {name: make(experiment.small(2)) for name, make in experiment.MODELS.items()}
    for model in made.values():
        model.build()
        model.set_weights(made[RESIDUALS].get_weights())
    return made


def test_a_model_without_residuals_replaces_what_it_receives(models):
    inputs = copying.draw_batch(np.random.default_rng(3), 5, (4, 4), 10)["inputs"]
    first = {name: experiment.encoder_outputs(model, inputs) for name, model in models.items()}
    for outputs in first.values():
        assert [each.shape for each in outputs] == [(5, 5, 64)] * 2
    # the first layer has the model's own positions, and they are not added to it twice
    np.testing.assert_array_equal(first[NONE][0], first[AGAIN][0])
    assert np.abs(first[NONE][0] - first[RESIDUALS][0]).max() > 0.1
    layer = models[NONE].encoder.layers[1]
    signal = np.asarray(timing_signal(np.arange(5, dtype="float32"), 64))
    expected, _ = layer(first[NONE][0] + signal)
    np.testing.assert_allclose(first[AGAIN][1], expected, atol=1e-5)


def test_the_decoder_of_positions_again_has_them_too(models):
    x = np.ones((2, 3, 64), "float32")
    memory = np.random.default_rng(3).standard_normal((2, 4, 64)).astype("float32")
    signal = np.asarray(timing_signal(np.arange(3, dtype="float32"), 64))
    got, _ = models[AGAIN].decoder.layers[1](x, memory=memory)
    expected, _ = models[NONE].decoder.layers[1](x + signal, memory=memory)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_without_residuals_nothing_of_the_positions_is_left_at_the_end(models):
    batch = copying.draw_batch(np.random.default_rng(3), 60, (experiment.LENGTH,) * 2, 10)
    places = np.broadcast_to(np.arange(experiment.LENGTH), (60, experiment.LENGTH))
    told = {}
    for name, model in models.items():
        outputs = experiment.encoder_outputs(model, batch["inputs"])[-1]
        told[name] = experiment.decodable(outputs[:, : experiment.LENGTH], places)
    assert told[RESIDUALS] > 2 * told[NONE]


def test_what_a_linear_map_tells():
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 4, (80, 6))
    hidden = draw.standard_normal((4, 9))[labels]
    noise = draw.standard_normal((80, 6, 9))
    assert experiment.decodable(3 + 1e-3 * hidden, labels) == 1.0
    assert experiment.decodable(noise, labels) < 0.4  # a quarter by guessing
    assert experiment.decodable(np.zeros((80, 6, 9)), labels) < 0.4
    assert 0.4 < experiment.decodable(hidden + noise, labels) < 1.0


def test_attention_is_a_mean_of_sentences_and_heads(models):
    batch = copying.draw_batch(np.random.default_rng(3), 5, (4, 4), 10)
    weights = experiment.decoder_attention(models[RESIDUALS], batch)
    assert weights.shape == (2, 5, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), np.ones((2, 5)), rtol=1e-5)
    whole = models[RESIDUALS].attention_weights(batch)["decoder/layer_1/encdec_attention"]
    np.testing.assert_allclose(weights[1], np.asarray(whole).mean(axis=(0, 1)), rtol=1e-5)


class Learner:
    """Learns nothing."""

    def __init__(self, make):
        self.model = make()
        self.model.build()

    def begin(self, seed):
        pass

    def learn(self, batch, rate):
        assert batch["inputs"].shape == (experiment.SENTENCES, experiment.LENGTH + 1)

    def evaluate(self, batch):
        return {"accuracy": 0.125}


def test_every_layer_of_every_model_is_a_row_before_and_after(monkeypatch):
    small = experiment.small
    for name, value in {"STEPS": 1, "LAYERS": 2, "TRIED": 6}.items():
        monkeypatch.setattr(experiment, name, value)
    monkeypatch.setattr(experiment, "small", lambda: small(2))
    monkeypatch.setattr(copying, "Learner", Learner)
    rows = experiment.run().rows
    assert len({row[:4] for row in rows}) == len(rows) == 3 * experiment.SEEDS * 2 * 2
    assert {row.steps for row in rows} == {0, 1} and {row.layer for row in rows} == {0, 1}
    assert {row.accuracy for row in rows} == {0.125}


def made(position, accuracy, symbol=(1.0, 0.2, 0.3)):
    """Rows of the three models, before training and after: values of the last of two layers."""
    rows = []
    for i, name in enumerate(experiment.MODELS):
        for seed in range(experiment.SEEDS):
            last = (position[i] - seed / 50, symbol[i], 0.2, accuracy[i])
            for steps in (0, 300):
                rows.append(Row(name, seed, steps, 1, *last))  # in any order
                rows.append(Row(name, seed, steps, 0, 0.99, 0.99, 0.3, accuracy[i]))
    return rows


def test_residuals_that_carry_the_positions_are_support():
    first, second = experiment.sentences(made((0.8, 0.1, 0.4), (0.95, 0.2, 0.93)))
    assert first.startswith("As the lecture says: after ")
    assert "tells the position of 0.79 (0.78 to 0.80) with residuals, 0.09 (0.08 to 0.10)" in first
    assert first.endswith("so the residuals carry position and symbol.")
    assert second.startswith("Positions added again make up for the residuals here: the accuracy")
    assert "is 0.30 (0.30 to 0.30) with residuals, 0.30" in second  # of the layer with the most


def test_residuals_without_which_positions_arrive_too_are_no_support():
    first, _ = experiment.sentences(made((0.8, 0.8, 0.8), (0.9, 0.9, 0.9)))
    assert first.startswith("Not as the lecture says: ")
    assert first.endswith("so the residuals carry symbol.")
    first, _ = experiment.sentences(made((0.8, 0.8, 0.8), (0.9, 0.9, 0.9), symbol=(0.5, 0.5, 0.5)))
    assert first.endswith("so the residuals carry neither.")


@pytest.mark.parametrize(
    "again, words", [(0.3, "only in part here"), (0.2, "do not make up for the residuals here")]
)
def test_positions_that_help_little_or_not_are_told_apart(again, words):
    _, second = experiment.sentences(made((0.8, 0.1, 0.4), (0.95, 0.2, again)))
    assert words in second.partition(":")[0]

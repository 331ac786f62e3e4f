"""The model under other attention: decoding step by step gives what a whole sequence does."""

import dataclasses

import keras
import numpy as np
import pytest

from t2t_repro import Transformer
from t2t_repro.config import HParams

TINY = HParams(
    hidden_size=12,
    num_hidden_layers=2,
    num_heads=3,
    filter_size=20,
    layer_preprocess_sequence="n",
    layer_postprocess_sequence="da",
    initializer="uniform_unit_scaling",
    initializer_gain=1.0,
    shared_embedding_and_softmax_weights=True,
)


def tiny(**changes) -> Transformer:
    keras.utils.set_random_seed(5)
    hparams = dataclasses.replace(TINY, **changes)
    return Transformer.from_hparams(hparams, inputs_vocab_size=17, targets_vocab_size=17)


def batch(source=5, target=7):
    """Sentences of `source` and `target` tokens, and shorter ones padded to that."""
    draw = np.random.default_rng(source)
    ids = {"inputs": source, "targets": target}
    made = {name: draw.integers(2, 17, (2, length), "int32") for name, length in ids.items()}
    for sentences in made.values():
        sentences[0, -1] = sentences[1, -3] = 1
        sentences[1, -2:] = 0
    return made


def decoded(model, sentences):
    """The logits (B, T, V) of `decode_step`, fed with the targets, the same on both beams."""
    inputs, targets = sentences["inputs"], sentences["targets"]
    beams = 2
    memory = model.start_decoding(inputs)
    state = model.initial_state(len(inputs), beams, targets.shape[1])
    parents = np.repeat(np.arange(beams, dtype="int32")[None], len(inputs), axis=0)
    last, found = np.zeros((len(inputs), beams), "int32"), []
    for step in range(targets.shape[1]):
        logits, state = model.decode_step(last, parents, step, state, memory)
        np.testing.assert_array_equal(logits[:, 0], logits[:, 1])
        found.append(np.asarray(logits)[:, 0])
        last = np.repeat(targets[:, step : step + 1], beams, axis=1)
    return np.stack(found, axis=1)


SCORES = ("dot_product", "multiplicative", "additive")


@pytest.mark.parametrize("score", SCORES)
def test_steps_equal_the_whole_under_each_score(score):
    model, sentences = tiny(attention_score=score), batch()
    logits = np.asarray(model(sentences))
    np.testing.assert_allclose(decoded(model, sentences), logits, atol=2e-5)
    assert np.abs(logits - np.asarray(tiny()(sentences))).max() > 1e-3


@pytest.mark.parametrize("score", SCORES)
def test_every_variable_of_a_score_learns(score):
    model, sentences = tiny(attention_score=score, layer_prepostprocess_dropout=0.0), batch()
    before = {v.path: np.asarray(v) for v in model.trainable_variables}
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    losses = [model.train_on_batch(sentences, return_dict=True)["loss"] for _ in range(8)]
    assert losses[-1] < losses[0]
    own = [v for v in model.trainable_variables if "/score/" in v.path]
    assert len(own) == 6 * {"dot_product": 0, "multiplicative": 1, "additive": 3}[score]
    for variable in own:
        assert np.abs(np.asarray(variable) - before[variable.path]).max() > 1e-3

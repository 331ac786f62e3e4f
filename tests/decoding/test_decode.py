import keras
import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding import graph_search
from t2t_repro.decoding.engine import ModelEngine, decode
from t2t_repro.decoding.search import Search, Sentences
from t2t_repro.errors import UserError


def mixed_inputs(rows, length, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.integers(2, 37, (rows, length)).astype("int32")
    for row, end in zip(inputs, rng.integers(1, length, rows), strict=True):
        row[end], row[end + 1 :] = 1, 0
    return inputs


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_batch_equals_its_sentences_one_by_one(base, beam_size, monkeypatch):
    monkeypatch.setattr(graph_search, "CHUNK", 2)  # sentences leave the batch at many points
    inputs = mixed_inputs(7, 11)
    lengths = (inputs != 0).sum(axis=1)
    limits = lengths + 3
    engine, search = ModelEngine(base.model), Search(beam_size, top_beams=beam_size)
    ids, scores = engine.decode(Sentences(inputs, limits), search)
    for b, length in enumerate(lengths):
        one = Sentences(inputs[b : b + 1, :length], limits[b : b + 1])
        one_ids, one_scores = engine.decode(one, search)
        np.testing.assert_array_equal(ids[b, :, : one_ids.shape[2]], one_ids[0])
        assert not ids[b, :, one_ids.shape[2] :].any()
        np.testing.assert_allclose(scores[b], one_scores[0], atol=1e-4)


def test_batches_side_by_side_are_those_one_by_one(base):
    """In order, with those that the searches share at the end."""
    engine, search = ModelEngine(base.model, searches=3), Search(2, top_beams=2)
    batches = [
        Sentences(mixed_inputs(rows, 7, seed=rows), np.arange(3, 3 + rows)) for rows in (5, 1, 3, 4)
    ]
    found = list(engine.decode_all(batches, search))
    engine._searches = 1  # by the same program, without threads
    for batch, (ids, scores) in zip(batches, found, strict=True):
        expected = engine.decode(batch, search)
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_allclose(scores, expected[1], atol=1e-4)


def test_the_limit_is_the_padded_length_and_decode_length():
    model = Endless()
    for beam_size in (1, 3):
        ids, _ = decode(model, np.full((2, 5), 3), beam_size, decode_length=2)
        assert ids.shape == (2, 1, 7) and (ids != 0).all()
        sentences = Sentences(np.full((2, 5), 3), [4, 1])
        ids, _ = ModelEngine(model).decode(sentences, Search(beam_size))
        assert ((ids != 0).sum(axis=2) == [[4], [1]]).all()


def test_learned_positions_end_the_translation(trained):
    oracle = trained("learned_positions")
    most = oracle.hparams.max_length
    ids, _ = decode(oracle.model, oracle.inputs, decode_length=10 * most)
    assert ids.shape[2] <= most


def test_weights_that_change_change_the_translation(trained):
    """A compiled search does not keep the weights it was made with."""
    oracle = trained("base_v1")
    before = decode(oracle.model, oracle.inputs)[1]
    for variable in oracle.model.trainable_variables:
        variable.assign(variable * 0.5)
    assert not np.allclose(before, decode(oracle.model, oracle.inputs)[1])


@pytest.mark.parametrize("inputs", [[3, 1], [[0.5]], [[5, -1]], [[5, 37]]])
def test_errors(base, inputs):
    with pytest.raises(UserError):
        decode(base.model, inputs)


class Endless(keras.Model):
    """A model of the interface that the search needs, which never ends a sentence."""

    vocab = 13

    def start_decoding(self, inputs):
        return {"inputs": inputs}

    def initial_state(self, batch, beams):
        return {"seen": ops.zeros((batch, beams, 2))}

    def make_room(self, state, more):
        return state

    def layout(self, ids=None):
        return None

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        batch, beams = ops.shape(ids)
        scores = ops.cast(ops.arange(self.vocab), "float32") * 0.1
        scores = ops.where(ops.arange(self.vocab) == 1, -20.0, scores)
        return ops.broadcast_to(scores, (batch, beams, self.vocab)), state

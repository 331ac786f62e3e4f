import keras
import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding import beam_search, graph_search
from t2t_repro.decoding.engine import ModelEngine, compiled, decode
from t2t_repro.decoding.steering import Search, Sentences, SteeredModel
from t2t_repro.errors import UserError


def real(row):
    return row[: row.index(1) + 1] if 1 in row else row


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


@pytest.mark.slow
def test_a_forced_length_goes_on_behind_the_end(base, monkeypatch):
    """Each sentence's ids are the argmax of the model's own logits up to its limit."""
    monkeypatch.setattr(graph_search, "CHUNK", 4)
    inputs, limits = base.inputs, np.array([6, 13, 9, 11], "int32")
    engine, sentences = ModelEngine(base.model), Sentences(inputs, limits)
    short, scores = engine.decode(sentences, Search(1))
    ids, forced_scores = engine.decode(sentences, Search(1, force_length=True))
    np.testing.assert_allclose(forced_scores, scores, atol=1e-4)
    logits = base.model({"inputs": inputs, "targets": ids[:, 0]}, training=False)
    best = np.asarray(ops.argmax(logits, axis=2))
    for b, limit in enumerate(limits):
        assert ids[b, 0, :limit].tolist() == best[b, :limit].tolist()
        assert not ids[b, 0, limit:].any()
        row = real(short[b, 0].tolist())
        assert ids[b, 0, : len(row)].tolist() == row
    assert any(1 in row[0, : limit - 1] for row, limit in zip(ids, limits, strict=True))


def test_scores_are_the_log_probs_of_the_model_fed_with_the_decoded_ids(base):
    """Cached equals uncached."""
    inputs = base.inputs
    ids, scores = decode(base.model, inputs, alpha=0.7, top_beams=4, decode_length=8)
    greedy_ids, greedy_scores = decode(base.model, inputs, beam_size=1, decode_length=8)
    for k in range(5):
        targets = ids[:, k] if k < 4 else greedy_ids[:, 0]
        logits = base.model({"inputs": inputs, "targets": targets}, training=False)
        log_probs = np.asarray(ops.log_softmax(logits))
        chosen = np.take_along_axis(log_probs, targets[..., None], axis=2)[..., 0]
        total = (chosen * (targets != 0)).sum(axis=1)
        if k < 4:
            assert (targets == 1).any(axis=1).all()
            total /= ((5 + (targets != 0).sum(axis=1)) / 6) ** 0.7
            np.testing.assert_allclose(scores[:, k], total, atol=1e-4)
        else:
            np.testing.assert_allclose(greedy_scores[:, 0], total, atol=1e-4)


def test_greedy_equals_a_beam_of_one_on_a_trained_model(base):
    rules = beam_search.Rules(beam_size=1, per_sentence=True)
    limits = np.full(4, 19, "int32")
    programs = compiled(SteeredModel(base.model), rules)
    ids, scores = programs.search(Sentences(base.inputs, limits), 0.0)
    greedy_ids, greedy_scores = decode(base.model, base.inputs, 1, decode_length=8)
    assert [real(r) for r in ids[:, 0].tolist()] == [real(r) for r in greedy_ids[:, 0].tolist()]
    np.testing.assert_allclose(scores, greedy_scores, atol=1e-4)


@pytest.mark.parametrize(
    "searches",
    [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3],
)
def test_batches_side_by_side_are_those_one_by_one(base, searches):
    """In order, with those that the searches share at the end."""
    engine, search = ModelEngine(base.model, searches), Search(2, top_beams=2)
    batches = [
        Sentences(mixed_inputs(rows, 7, seed=rows), np.arange(3, 3 + rows)) for rows in (5, 1, 3, 4)
    ]
    found = list(engine.decode_all(batches, search))
    for batch, (ids, scores) in zip(batches, found, strict=True):
        expected = base.engine.decode(batch, search)
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

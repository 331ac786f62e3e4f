"""A search among candidates: as that of the whole vocabulary where they are all."""

import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding.beam_search import GROUP
from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Search, Sentences
from t2t_repro.decoding.ensemble import Ensemble
from t2t_repro.decoding.sampling import Sampling
from t2t_repro.decoding.shortlist import Candidates
from t2t_repro.decoding.steering import Steering
from t2t_repro.errors import UserError
from t2t_repro.text.shortlist import Shortlist

SIZE = 37
WHOLE = Shortlist.of([list(range(SIZE))] * SIZE, [], SIZE)
SOME = Shortlist.of([[i, (i * 5) % SIZE, (i + 9) % SIZE] for i in range(SIZE)], [6, 30], SIZE)
LIMITS = np.array([11, 14, 9, 12], "int32")
PREFIXES = np.array([[9, 4, 23], [0, 0, 0], [30, 0, 0], [5, 11, 0]], "int32")


@pytest.mark.parametrize(
    ("search", "facts"),
    [
        (Search(1), {}),
        (Search(3, 0.7, top_beams=3), {}),
        (Search(3, 0.7), {"prefixes": PREFIXES, "least": np.array([6, 0, 9, 4], "int32")}),
    ],
)
@pytest.mark.slow
def test_all_candidates_give_what_the_whole_vocabulary_gives(base, search, facts):
    sentences = Sentences(base.inputs, LIMITS, facts)
    plain = base.engine.decode(sentences, search)
    among = Search(search.beam_size, search.alpha, search.top_beams, shortlist=WHOLE)
    found = base.engine.decode(sentences, among)
    np.testing.assert_array_equal(found[0], plain[0])
    np.testing.assert_allclose(found[1], plain[1], atol=1e-5)


def test_a_sentence_has_its_own_candidates_whatever_is_beside_it(base):
    inputs, search = base.inputs, Search(3, 0.7, top_beams=2, shortlist=SOME)
    ids, scores = base.engine.decode(Sentences(inputs, LIMITS), search)
    allowed = SOME.among(inputs)
    assert not allowed.all(axis=1).any()
    for row, source in enumerate(inputs):
        assert set(ids[row].ravel()) <= {0, *np.flatnonzero(allowed[row])}
        alone = Sentences(source[None, source != 0], LIMITS[row : row + 1])
        own_ids, own_scores = base.engine.decode(alone, search)
        np.testing.assert_array_equal(ids[row, :, : own_ids.shape[2]], own_ids[0])
        np.testing.assert_allclose(scores[row], own_scores[0], atol=1e-4)
    targets = ids[:, 0]
    logits = np.asarray(base.model({"inputs": inputs, "targets": targets}, training=False))
    log_probs = np.asarray(ops.log_softmax(np.where(allowed[:, None], logits, -np.inf)))
    chosen = np.take_along_axis(log_probs, targets[..., None], axis=2)[..., 0]
    total = np.where(targets != 0, chosen, 0).sum(axis=1)
    total /= np.where((targets == 1).any(axis=1), ((5 + (targets != 0).sum(axis=1)) / 6) ** 0.7, 1)
    np.testing.assert_allclose(scores[:, 0], total, atol=1e-4)


@pytest.mark.slow
def test_searches_that_share_a_batch_equal_one(base):
    sentences = Sentences(base.inputs, LIMITS)
    search = Search(3, top_beams=3, shortlist=SOME)
    plain = base.engine.decode(sentences, search)
    shared = ModelEngine(base.model, 2).decode(sentences, search)
    np.testing.assert_array_equal(plain[0], shared[0])
    np.testing.assert_allclose(plain[1], shared[1], atol=1e-4)


def test_the_candidates_of_a_sentence_are_its_own_and_those_that_begin_it():
    inputs = np.array([[3, 1, 0], [8, 8, 1]], "int32")
    sentences = Sentences(inputs, [5, 5], {"prefixes": np.array([[35, 12], [0, 0]], "int32")})
    found = Candidates.of(sentences, SOME)
    ids = [[0, 1, 3, 5, 6, 10, 12, 15, 30, 35], [0, 1, 3, 5, 6, 8, 10, 17, 30]]
    facts = found.sentences.facts
    assert found.ids.shape == facts["allowed"].shape == (2, 2 * GROUP)
    for row, own, allowed in zip(found.ids, ids, facts["allowed"], strict=True):
        assert row[: len(own)].tolist() == own and not row[len(own) :].any()
        assert not allowed[0] and allowed[1:9].tolist() == [True] * 8 and not allowed[9:].any()
    assert facts["prefixes"].tolist() == [[9, 6], [0, 0]]
    places = np.array([[[9, 1]], [[5, 0]]])
    assert found.ids_of(places).tolist() == [[[35, 1]], [[8, 0]]]


@pytest.mark.parametrize(
    "options",
    [{"per_sentence": False}, {"steering": Steering(sampling=Sampling()), "beam_size": 1}],
)
def test_what_needs_the_whole_vocabulary_is_refused(options):
    with pytest.raises(UserError):
        Search(shortlist=SOME, **options)


def test_an_ensemble_has_no_shortlist(base):
    engine = ModelEngine(Ensemble([base.model, base.model]))
    with pytest.raises(UserError):
        engine.decode(Sentences(base.inputs, LIMITS), Search(shortlist=SOME))

import itertools

import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding import beam_search as search
from tests.decoding import naive


class Automaton:
    """A random network whose next logits depend on the whole prefix, by a state that is carried."""

    def __init__(self, batch, vocab, seed, sharpness=2.0, eos_bias=0.0, size=6):
        rng = np.random.default_rng(seed)
        self.vocab, self.size = vocab, size
        self.start = rng.normal(size=(batch, size))
        self.embedding = rng.normal(size=(vocab, size))
        self.recurrent = rng.normal(size=(size, size)) * 0.7
        self.readout = rng.normal(size=(size, vocab)) * sharpness
        self.bias = np.eye(vocab)[1] * eos_bias

    def logits_of(self, sentence):
        def logits(prefix):
            state = self.start[sentence]
            for token in prefix:
                state = np.tanh(state @ self.recurrent + self.embedding[token])
            return state @ self.readout + self.bias

        return logits

    def initial_state(self, beams):
        start = np.repeat(self.start[:, None], beams, axis=1).astype("float32")
        return {"nested": {"hidden": ops.convert_to_tensor(start)}}

    def step(self, ids, parents, step, state):
        hidden = search.gather_beams(state["nested"]["hidden"], parents)
        embedded = ops.take(self.embedding.astype("float32"), ids, axis=0)
        moved = ops.tanh(ops.matmul(hidden, self.recurrent.astype("float32")) + embedded)
        hidden = ops.where(ops.equal(step, 0), hidden, moved)
        logits = ops.matmul(hidden, self.readout.astype("float32")) + self.bias.astype("float32")
        return logits, {"nested": {"hidden": hidden}}


def run(automaton, batch, beam_size, limit, alpha, length=None, **options):
    """One limit for all, who stop together, or one for each, who stop alone within `length`."""
    rules = search.Rules(beam_size, per_sentence=length is not None, **options)
    limits = ops.broadcast_to(ops.convert_to_tensor(limit, dtype="int32"), (batch,))
    beams = search.begin(automaton.initial_state(beam_size), batch, beam_size, length or limit)
    beams, _ = search.advance(automaton.step, beams, limits, alpha, rules)
    return tuple(np.asarray(x) for x in search.result(beams, rules))


def assert_same(ids, scores, expected):
    """`expected`: for each sentence [(ids, score)]; fillers need only be fillers."""
    for b, hypotheses in enumerate(expected):
        for k, (tokens, score) in enumerate(hypotheses):
            if score < -naive.INF / 2:
                assert scores[b, k] < -naive.INF / 2
                continue
            assert scores[b, k] == pytest.approx(score, abs=2e-5)
            # With fewer tokens than candidates an ended hypothesis can live on: cut what follows.
            tokens = tokens[: tokens.index(1) + 1] if 1 in tokens else tokens
            padded = tokens + [0] * (ids.shape[2] - len(tokens))
            assert ids[b, k].tolist() == padded


CASES = [
    # batch, beams, vocab, limit, alpha, eos bias
    (3, 4, 11, 9, 0.6, 0.0),
    (5, 2, 13, 7, 1.0, 2.0),
    (2, 3, 17, 12, 0.0, 1.0),
    (4, 6, 14, 8, 0.6, 3.0),
    (1, 4, 9, 5, 0.6, -9.0),  # nothing ends: living beams, not normalised
    (3, 5, 4, 6, 0.9, 0.0),  # fewer tokens than candidates
    (2, 7, 50, 10, 0.6, -1.0),
    (6, 1, 12, 8, 0.6, 0.0),
]


@pytest.mark.parametrize("stop_early", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_naive_search_of_all_together_and_of_each_alone(case, stop_early):
    batch, beams, vocab, limit, alpha, eos_bias = case
    for seed in (0, 1) if stop_early else (2, 3):
        automaton = Automaton(batch, vocab, seed, eos_bias=eos_bias)
        of = [automaton.logits_of(b) for b in range(batch)]
        together = run(automaton, batch, beams, limit, alpha, stop_early=stop_early)
        assert together[0].shape == (batch, beams, limit)
        assert_same(*together, naive.beam_search(of, beams, limit, alpha, stop_early))
        limits = np.arange(batch, dtype="int32") % limit + 1
        alone = run(automaton, batch, beams, limits, alpha, length=limit, stop_early=stop_early)
        pairs = zip(of, limits, strict=True)
        expected = [naive.beam_search([f], beams, n, alpha, stop_early)[0] for f, n in pairs]
        assert_same(*alone, expected)


@pytest.mark.parametrize("batch, beams", [(3, 4), (4, 3), (3, 3)])
def test_each_sentence_may_have_its_own_alpha(batch, beams):
    automaton = Automaton(batch, 11, seed=2, eos_bias=1.0)
    limits, alphas = np.full(batch, 9, "int32"), np.linspace(0.0, 2.0, batch, dtype="float32")
    ids, scores = run(automaton, batch, beams, limits, alphas, length=9, stop_early=False)
    expected = [
        naive.beam_search([automaton.logits_of(b)], beams, 9, float(alphas[b]), False)[0]
        for b in range(batch)
    ]
    assert_same(ids, scores, expected)


@pytest.mark.parametrize("eos_bias", [-9.0, 0.0, 2.0])
def test_greedy_equals_the_naive_greedy(eos_bias):
    batch, limit = 5, 8
    automaton = Automaton(batch, 13, seed=1, eos_bias=eos_bias)
    limits = np.array([8, 3, 1, 5, 8], "int32")
    together = run(automaton, batch, 1, limit, 0.6, greedy=True)
    alone = run(automaton, batch, 1, limits, 0.6, length=limit, greedy=True)
    for b in range(batch):
        for (ids, scores), steps in ((together, limit), (alone, limits[b])):
            tokens, score = naive.greedy(automaton.logits_of(b), steps)
            assert ids[b, 0].tolist() == tokens + [0] * (limit - len(tokens))
            assert scores[b, 0] == pytest.approx(score, abs=2e-5)


def test_ties_fall_to_the_lower_token_and_the_earlier_beam():
    def step(ids, parents, step, state):
        return ops.zeros((*ops.shape(ids), 23)), state

    beams, limits, rules = search.begin({}, 2, 3, 2), np.array([2, 2], "int32"), search.Rules(3)
    beams, _ = search.advance(step, beams, limits, 0.6, rules)
    # Of tokens 0 to 5, token 1 ends; 0, 2 and 3 live on, and beam 0 comes first again.
    assert np.asarray(search.result(beams, rules)[0])[:, 0].tolist() == [[1, 0]] * 2


@pytest.mark.parametrize("eos_bias", [-2.0, 3.0])
def test_with_few_candidates_all_hypotheses_are_found_and_none_lives_on(eos_bias):
    """Three tokens are allowed; 7 beams hold what they make in 3 steps, and fillers."""
    automaton = Automaton(2, 9, seed=3, eos_bias=eos_bias)
    automaton.bias[[0, 2, 4, 5, 7, 8]] = -np.inf
    of_logits = automaton.step

    def step(*given):
        logits, state = of_logits(*given)
        return ops.maximum(ops.log_softmax(logits), -search.INF), state

    automaton.step = step
    limits = np.array([3, 2], "int32")
    for stop_early, shown in ((False, 7), (True, 1)):
        options = {"constrained": True, "stop_early": stop_early}
        ids, scores = run(automaton, 2, 7, limits, 0.6, length=3, **options)
        for b, limit in enumerate(limits):
            ended = []
            for length in range(1, limit + 1):
                for tokens in itertools.product([3, 6], repeat=length - 1):
                    whole = [*tokens, 1]
                    steps = (
                        naive.log_softmax(automaton.logits_of(b)(whole[:i]))[token]
                        for i, token in enumerate(whole)
                    )
                    score = sum(steps) / ((5 + length) / 6) ** 0.6
                    ended.append((score, whole + [0] * (3 - length)))
            ended.sort(reverse=True)
            found = [s > -naive.INF / 2 for s in scores[b]]
            assert stop_early or sum(found) == len(ended)
            for k, (score, whole) in enumerate(ended[:shown]):
                assert ids[b, k].tolist() == whole
                assert scores[b, k] == pytest.approx(score, abs=2e-5)


def test_stretches_with_more_room_each_equal_one_search():
    batch, beams, vocab, limit = 3, 4, 11, 9
    automaton = Automaton(batch, vocab, seed=7)
    whole_ids, whole_scores = run(automaton, batch, beams, limit, 0.6, stop_early=False)
    rules = search.Rules(beams, stop_early=False)
    limits = ops.full((batch,), limit, dtype="int32")
    beams_now = search.begin(automaton.initial_state(beams), batch, beams, 0)
    for more in (2, 3, 4):
        beams_now = search.extend(beams_now, more, beams_now.state)
        beams_now, _ = search.advance(automaton.step, beams_now, limits, 0.6, rules)
    ids, scores = search.result(beams_now, rules)
    assert np.asarray(ids).tolist() == whole_ids.tolist()
    np.testing.assert_array_equal(np.asarray(scores), whole_scores)


def test_rows_with_limit_0_do_not_hold_the_others_up():
    automaton = Automaton(3, 11, seed=2)
    steps = []
    for rows in (3, 2):
        limits = ops.convert_to_tensor(np.array([9, 9, 0][:rows], "int32"))
        state = {"nested": {"hidden": automaton.initial_state(4)["nested"]["hidden"][:rows]}}
        beams = search.begin(state, rows, 4, 9)
        rules = search.Rules(4, stop_early=False)
        beams, _ = search.advance(automaton.step, beams, limits, 0.6, rules)
        steps.append((int(beams.step), np.asarray(search.result(beams, rules)[0])[:2].tolist()))
    assert steps[0] == steps[1]

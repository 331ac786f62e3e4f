import itertools

import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.search import Search, Sentences
from t2t_repro.parsing import trees
from t2t_repro.parsing.constraint import TreeConstraint

TOKENS = ["<pad>", "<EOS>", "<UNK>", "S", "/S", "NP", "/NP", "NN", ".", "/"]
VOCAB = len(TOKENS)


@pytest.fixture
def constraint():
    return TreeConstraint(TOKENS, ["<UNK>"])


class Chain:
    """A model whose logits depend on the sentence, which its input names, and the last token."""

    def __init__(self, batch, seed):
        self.table = np.random.default_rng(seed).normal(size=(batch, VOCAB, VOCAB)) * 2

    def initial_state(self, batch, beams):
        return {"nothing": ops.zeros((batch, beams))}

    def make_room(self, state, more):
        return state

    def start_decoding(self, inputs):
        return ops.take(self.table.astype("float32"), inputs[:, 0], axis=0)

    def layout(self):
        return ()

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        return ops.take_along_axis(memory, ids[..., None], axis=1), state

    def score(self, sentence, ids):
        logits = self.table[sentence]
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return sum(log_probs[a, b] for a, b in itertools.pairwise([0, *ids]))


def run(constraint, chain, words, beams, limit, top_beams=1):
    batch = len(words)
    inputs, limits = np.arange(batch)[:, None], [limit] * batch
    facts = constraint.facts(["w " * count for count in words])
    search = Search(beams, 0.3, top_beams, constraint=constraint)
    ids, scores = ModelEngine(chain).decode(Sentences(inputs, limits, {"words": facts}), search)
    return ids.tolist(), scores


def sequences(words, limit):
    """Every well-formed sequence of at most `limit` tags over so many words, at most 2 deep."""

    def grow(ids, open_phrases, left, opened):
        if len(ids) > limit:
            return
        if not open_phrases and ids:
            yield [*ids, 1]
            return
        if open_phrases and left:
            for leaf in (7, 8, 9):
                yield from grow([*ids, leaf], open_phrases, left - 1, False)
        if left and len(open_phrases) < 2:
            for phrase in (3, 5):
                yield from grow([*ids, phrase], [*open_phrases, phrase + 1], left, True)
        if open_phrases and not opened and (len(open_phrases) > 1 or not left):
            yield from grow([*ids, open_phrases[-1]], open_phrases[:-1], left, False)

    return [ids for ids in grow([], [], words, False) if len(ids) <= limit]


def test_a_wide_beam_finds_the_best_of_all_trees(constraint):
    constraint.DEPTH = 2
    chain, words, limit = Chain(2, seed=4), [1, 2], 8
    ids, scores = run(constraint, chain, words, 200, limit, top_beams=200)
    for sentence, count in enumerate(words):
        everything = sequences(count, limit)
        values = [chain.score(sentence, s) / ((5 + len(s)) / 6) ** 0.3 for s in everything]
        best = int(np.argmax(values))
        found = ids[sentence][0]
        assert found[: found.index(1) + 1] == everything[best]
        assert scores[sentence, 0] == pytest.approx(values[best], rel=1e-5)
        real = scores[sentence] > -1e5
        assert real.sum() == len(everything)


@pytest.mark.parametrize(("beams", "divisor"), [(1, 1), (7, 1), (1, 8), (2, 8)])
def test_whatever_the_model_says_the_tags_are_a_tree(constraint, beams, divisor):
    words = [1, 2, 3, 5] * 3
    chain = Chain(len(words), seed=beams)
    chain.table[:, :, [3, 5]] += 2  # it likes to open phrases
    chain.table = np.pad(chain.table, ((0, 0), (0, 0), (0, -VOCAB % divisor)))  # vocab_divisor
    ids, scores = run(constraint, chain, words, beams, 40)
    for sentence in range(len(words)):
        best = ids[sentence][0][: ids[sentence][0].index(1) + 1]
        tags = [TOKENS[i] for i in best[:-1]]
        tree, repairs = trees.tree_from_words_and_tags(["w"] * words[sentence], tags)
        assert repairs.total == 0 and len(tree.children) == 1
        penalty = 1 if beams == 1 else ((5 + len(best)) / 6) ** 0.3
        expected = chain.score(sentence, best) / penalty
        assert scores[sentence, 0] == pytest.approx(expected, rel=1e-4)


def test_a_beam_does_not_prefer_those_who_put_the_words_off(constraint, monkeypatch):
    """To open and to close a phrase is likelier than a word here, so that they look better."""
    words = [4, 5, 6, 7] * 3
    chain = Chain(len(words), seed=0)
    chain.table[:, :, 7:] -= 3
    _, scores = run(constraint, chain, words, 3, 50)
    uncharged = lambda log_probs, rule, constraint, future: (log_probs, future)  # noqa: E731
    monkeypatch.setattr("t2t_repro.decoding.steering._charged", uncharged)
    _, before = run(constraint, chain, words, 3, 50)
    assert scores.sum() > before.sum() + 20


def test_decoding_with_a_model_obeys_it_for_each_sentence(base):
    """Among the 37 ids of the trained model, 5 opens what 6 closes, and 7 what 8 closes."""
    tokens = [f"t{i}" for i in range(37)]
    tokens[5:9] = ["S", "/S", "NP", "/NP"]
    rule = TreeConstraint(tokens)
    words = [1, 3, 6, 2]
    facts = rule.facts(["w " * count for count in words])
    sentences = Sentences(base.inputs, [60] * 4, {"words": facts})
    search = Search(3, constraint=rule)
    ids, _ = base.engine.decode(sentences, search)
    for row, count in zip(ids[:, 0].tolist(), words, strict=True):
        tags = [tokens[i] for i in row[: row.index(1)]]
        _, repairs = trees.tree_from_words_and_tags(["w"] * count, tags)
        assert repairs.total == 0
    alone, _ = base.engine.decode(sentences.take(np.array([2])), search)
    assert alone[0, 0].tolist() == ids[2, 0, : alone.shape[2]].tolist()


def test_words_have_only_parts_of_speech_of_the_lexicon():
    lexicon = {"<UNK>": ["/", "."], "a": ["NN"], "b": ["NN", "JJ"], "c": ["S", "JJ"]}
    constraint = TreeConstraint(TOKENS, ["<UNK>"], lexicon)
    facts = constraint.facts([" a 's  b a ", "c"])
    first, unknown, other = facts[0, 0], facts[0, 1], facts[0, 2]
    assert len({first, unknown, other}) == 3
    # c has no part of speech of the vocabulary, so it is like a word that is not in the lexicon
    assert facts.tolist() == [[first, unknown, other, first], [unknown, -1, -1, -1]]
    chain = Chain(2, seed=0)
    chain.table[:, :, [3, 5]] -= 4
    sentences = Sentences([[0], [1]], [40] * 2, {"words": facts})
    ids, _ = ModelEngine(chain).decode(sentences, Search(5, 0.3, constraint=constraint))
    leaves = [[TOKENS[i] for i in row if i in (7, 8, 9)] for row in ids[:, 0].tolist()]
    assert leaves[0][0] == leaves[0][2] == leaves[0][3] == "NN"
    assert leaves[0][1] in "./" and leaves[1][0] in "./"

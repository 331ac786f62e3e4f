"""Scores of given translations equal tensor2tensor's, the search's own, and those of one alone."""

import json

import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding import pairs as pairs_module
from t2t_repro.decoding import score as score_module
from t2t_repro.decoding.decode import ModelEngine, decode
from t2t_repro.decoding.pairs import batches
from t2t_repro.decoding.score import LogLikelihood, score_file, score_pairs
from t2t_repro.errors import UserError


class Words:
    """Words w2 to w36."""

    vocab_size = 37

    def encode(self, text):
        return [int(word.removeprefix("w")) for word in text.split()]


ENCODERS = {"inputs": Words(), "targets": Words()}


def unpadded(row):
    return [int(i) for i in row if i]


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 9, (11, 2))
    return [tuple([*map(int, rng.integers(2, 37, n)), 1] for n in row) for row in lengths]


def test_the_sum_is_tensor2tensors_loss(golden_case):
    golden = golden_case("base")
    batch = zip(golden["inputs"], golden["targets"], strict=True)
    given = [(unpadded(inputs), unpadded(targets)) for inputs, targets in batch]
    scores = score_pairs(ModelEngine(golden.model()), given)
    assert sum(score.tokens for score in scores) == golden["loss_weight"]
    total = -sum(score.log_prob for score in scores)
    np.testing.assert_allclose(total, golden["loss_sum"], rtol=2e-5)


@pytest.mark.parametrize(("beam_size", "alpha"), [(4, 0.6), (4, 0.0), (1, 0.6)])
def test_rescoring_a_translation_gives_its_log_probability(base, beam_size, alpha):
    ids, found = decode(base.model, base.inputs, beam_size, alpha, 8, top_beams=beam_size)
    given, expected = [], []
    for source, row, row_scores in zip(base.inputs, ids, found, strict=True):
        for hypothesis, value in zip(row, row_scores, strict=True):
            if 1 in hypothesis and value > -1e5:
                length = list(hypothesis).index(1) + 1
                penalty = ((5 + length) / 6) ** alpha if beam_size > 1 else 1.0
                given.append((unpadded(source), list(hypothesis[:length])))
                expected.append(value * penalty)
    assert len(given) > 3
    scores = score_pairs(base.engine, given)
    np.testing.assert_allclose([s.log_prob for s in scores], expected, atol=2e-5)
    assert [s.tokens for s in scores] == [len(targets) for _, targets in given]


def test_neighbours_and_padding_do_not_matter(base, pairs, monkeypatch):
    together = score_pairs(base.engine, pairs)
    monkeypatch.setattr(pairs_module, "BATCH_TOKENS", 20)
    counts = []
    apart = score_pairs(base.engine, pairs, advance=counts.append)
    assert sum(counts) == len(pairs) and len(counts) > 3
    fixed = score_pairs(base.engine, pairs, batch_size=3)
    assert [len(batch) for batch in batches(list(range(11)), pairs, 3)] == [3, 3, 3, 2]
    for one, other, third in zip(together, apart, fixed, strict=True):
        np.testing.assert_allclose(one.log_prob, other.log_prob, atol=2e-5)
        np.testing.assert_allclose(one.log_prob, third.log_prob, atol=2e-5)


def test_one_pair_by_hand(base, pairs):
    inputs, targets = pairs[0]
    logits = base.model({"inputs": np.array([inputs]), "targets": np.array([targets])})
    log_probs = ops.convert_to_numpy(ops.log_softmax(logits, axis=-1))[0]
    expected = sum(log_probs[step, token] for step, token in enumerate(targets))
    (score,) = score_pairs(base.engine, [(inputs, targets)])
    np.testing.assert_allclose(score.log_prob, expected, atol=2e-5)
    np.testing.assert_allclose(score.mean, -expected / len(targets), atol=2e-5)


def test_a_batch_of_one_where_nothing_fits_and_an_empty_list(base):
    long = ([3] * 20 + [1], [4] * 3000 + [1])
    assert list(batches([0, 1], [long, long])) == [[0], [1]]
    assert score_pairs(base.engine, []) == []


def test_learned_positions_are_not_overrun(trained, tmp_path):
    oracle = trained("learned_positions")
    most = oracle.hparams.max_length
    targets = [5] * (most - 1) + [1]
    (score,) = score_pairs(oracle.engine, [([3, 1], targets)])
    assert np.isfinite(score.log_prob) and score.tokens == most
    (tmp_path / "long").write_text("w3\t" + "w5 " * most + "\n")
    with pytest.raises(UserError, match=f"Line 1 of .*at most {most} tokens.*Received: {most + 1}"):
        score_file(oracle.engine, ENCODERS, tmp_path / "long", tmp_path / "out")


def test_a_file(base, tmp_path, monkeypatch):
    monkeypatch.setattr(score_module, "WINDOW", 2)
    source, out, details = (tmp_path / name for name in ("in", "out", "out.jsonl"))
    source.write_text(" w3 w4\tw5 \nw9\tw6 w7 w8\n\tw5\nw3\t\n")
    said = []
    whole = score_file(
        base.engine, ENCODERS, source, out, json_file=details, batch_size=1, report=said.append
    )
    rows = [[float(value) for value in line.split("\t")] for line in out.read_text().splitlines()]
    records = [json.loads(line) for line in details.read_text().splitlines()]
    pairs = [([3, 4, 1], [5, 1]), ([9, 1], [6, 7, 8, 1]), ([1], [5, 1]), ([3, 1], [1])]
    for row, record, score in zip(rows, records, score_pairs(base.engine, pairs), strict=True):
        np.testing.assert_allclose(row, [score.mean, -score.log_prob], atol=2e-6)
        assert record["tokens"] == score.tokens
        np.testing.assert_allclose(record["log_prob"], score.log_prob, atol=2e-6)
        np.testing.assert_allclose(record["mean_negative_log_likelihood"], score.mean, atol=2e-6)
    assert (records[0]["source"], records[0]["target"]) == ("w3 w4", "w5")
    assert whole.tokens == 9 and "4 sentences in" in said[-1]
    np.testing.assert_allclose(whole.log_prob, -sum(row[1] for row in rows), atol=1e-5)
    exact = tmp_path / "exact"
    score_file(base.engine, ENCODERS, source, exact, batch_size=1, t2t_exact=True, report=print)
    assert exact.read_text().splitlines() == [line.split("\t")[0] for line in open(out)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected pairs of sentences in .*. Received: an empty file"),
        ("w3\tw4\nw3 w4\n", "Line 2 of .*one tab between. Received: 0 tabs in 'w3 w4'"),
        ("a\tb\tc\n", "Line 1 of .*Received: 2 tabs in"),
        ("w3\tword\n", "vocabulary of the targets can encode. Received: 'word'"),
    ],
)
def test_bad_lines(base, tmp_path, text, message):
    (tmp_path / "in").write_text(text)
    with pytest.raises(UserError, match=message):
        score_file(base.engine, ENCODERS, tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_mean_is_a_negative_log_likelihood():
    assert LogLikelihood(-6.0, 4).mean == 1.5

"""Scores of given translations equal tensor2tensor's and the search's own; their alignments."""

import json

import numpy as np
import pytest

from t2t_repro.decoding import pairs as pairs_module
from t2t_repro.decoding import score as score_module
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.pairs import batches
from t2t_repro.decoding.score import score_file, score_pairs
from t2t_repro.decoding.translate import Translator
from t2t_repro.errors import UserError
from t2t_repro.text import SubwordTextEncoder


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


def test_learned_positions_are_not_overrun(trained, translator, tmp_path):
    oracle = trained("learned_positions")
    most = oracle.hparams.max_length
    targets = [5] * (most - 1) + [1]
    (score,) = score_pairs(oracle.engine, [([3, 1], targets)])
    assert np.isfinite(score.log_prob) and score.tokens == most
    (tmp_path / "long").write_text("w3\t" + "w5 " * most + "\n")
    made = Translator(oracle.engine, translator().encoders)
    with pytest.raises(UserError):
        score_file(made, tmp_path / "long", tmp_path / "out")


def test_a_file(base, translator, tmp_path, monkeypatch):
    monkeypatch.setattr(score_module, "WINDOW", 2)
    source, out, details = (tmp_path / name for name in ("in", "out", "out.jsonl"))
    source.write_text(" w3 w4\tw5 \nw9\tw6 w7 w8\n\tw5\nw3\t\n")
    made = translator("batch_size=1")
    whole = score_file(made, source, out, json_file=details)
    rows = [[float(value) for value in line.split("\t")] for line in out.read_text().splitlines()]
    records = [json.loads(line) for line in details.read_text().splitlines()]
    pairs = [([3, 4, 1], [5, 1]), ([9, 1], [6, 7, 8, 1]), ([1], [5, 1]), ([3, 1], [1])]
    for row, record, score in zip(rows, records, score_pairs(base.engine, pairs), strict=True):
        np.testing.assert_allclose(row, [score.mean, -score.log_prob], atol=2e-6)
        assert record["tokens"] == score.tokens
        np.testing.assert_allclose(record["log_prob"], score.log_prob, atol=2e-6)
        np.testing.assert_allclose(record["mean_negative_log_likelihood"], score.mean, atol=2e-6)
    assert (records[0]["source"], records[0]["target"]) == ("w3 w4", "w5")
    assert whole.tokens == 9
    np.testing.assert_allclose(whole.log_prob, -sum(row[1] for row in rows), atol=1e-5)
    exact = tmp_path / "exact"
    score_file(translator("batch_size=1", t2t_exact=True), source, exact)
    assert exact.read_text().splitlines() == [line.split("\t")[0] for line in open(out)]


@pytest.mark.parametrize("text", ["", "w3\tw4\nw3 w4\n", "w3\tw4\tw5\n", "w3\tword\n"])
def test_bad_lines(translator, tmp_path, text):
    (tmp_path / "in").write_text(text)
    with pytest.raises(UserError):
        score_file(translator(), tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def attended(model, inputs, targets):
    """The source token that each target token looks at most, by the model's own weights."""
    batch = {"inputs": np.array([inputs]), "targets": np.array([targets])}
    layer = max(model.hparams.decoder_layers - 2, 0)
    weights = np.asarray(model.attention_weights(batch)[f"decoder/layer_{layer}/encdec_attention"])
    return weights[0, :, :, : len(inputs) - 1].mean(axis=0).argmax(axis=1).tolist()


@pytest.mark.parametrize(
    "text", ["the red\u00a0dog runs", "the\u3000red dog", "the  red dog runs in"]
)
def test_words_are_parted_by_ascii_blanks_as_in_pharaohs_format(text):
    encoder = SubwordTextEncoder.build_from_generator(["the red dog runs in the park"] * 9, 60)
    words = pairs_module.words_of(encoder, encoder.encode(text))
    assert sorted(set(words)) == list(range(len(text.encode().split())))
    assert words == sorted(words)


def test_each_token_is_aligned_to_what_it_looks_at(base):
    pairs = [([5, 7, 9, 11, 1], [3, 9, 4]), ([30, 1], [5, 6, 1]), ([8, 3, 1], []), ([1], [4])]
    links = base.engine.align(pairs, None)
    looks = attended(base.model, *pairs[0]), attended(base.model, *pairs[1])[:2]
    for link, looked in zip(links, looks, strict=False):
        assert link == " ".join(f"{i}-{j}" for i, j in sorted(zip(looked, range(9), strict=False)))
    assert links[2:] == ["", ""]

"""Candidates are counted in pairs."""

import numpy as np
import pytest

from t2t_repro.data import candidates
from t2t_repro.errors import UserError
from t2t_repro.text import shortlist
from t2t_repro.text.subword import SubwordTextEncoder

RESERVED = ["<pad>_", "<EOS>_", *"\\_u;0123456789"]
FIRST = len(RESERVED)
WORDS = 12
ENCODERS = {
    "inputs": SubwordTextEncoder.from_subtokens(
        [*RESERVED, *(f"s{i}_" for i in range(WORDS)), "x_"]
    ),
    "targets": SubwordTextEncoder.from_subtokens(
        [*RESERVED, "the_", "x_", *(f"t{i}_" for i in range(WORDS))]
    ),
}
THE, X, TARGETS = FIRST, FIRST + 1, FIRST + 2


def pairs(count):
    """Sentences in which s3 is t3 and so on, in another order, and an article without source."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        words = rng.choice(WORDS, rng.integers(3, 7), replace=False)
        yield {
            "inputs": [*(FIRST + words).tolist(), 1],
            "targets": [*(TARGETS + rng.permutation(words)).tolist(), THE, 1],
        }


@pytest.mark.parametrize("block", [candidates._BLOCK, 900])
def test_each_word_has_its_translation_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(candidates, "_BLOCK", block)
    found = candidates.shortlist_of(pairs(300), ENCODERS, best=1, frequent=1)
    for i in range(WORDS):
        row = found.targets[found.begins[FIRST + i] : found.begins[FIRST + i + 1]]
        assert row.tolist() == [TARGETS + i]
    assert found.always.tolist() == [1, THE]  # the end, and the most frequent
    x = FIRST + WORDS
    assert found.targets[found.begins[x] : found.begins[x + 1]].tolist() == [X]  # its own name
    cover = candidates.coverage(found, list(pairs(20)))
    assert cover.share == 1 and cover.tokens > 80
    assert "100.00% of " in str(cover) and "of dev are among" in str(cover)
    assert candidates.coverage(found, [{"inputs": [FIRST, 1], "targets": [X, 1]}]).share == 0.5


def test_of_a_very_long_pair_the_beginning_is_counted():
    sizes = [
        len(targets.ids)
        for _, targets in candidates._blocks([{"inputs": [9] * 30_000, "targets": [8] * 40_000}])
    ]
    assert sizes == [candidates._LONGEST]


def test_the_best_come_first():
    found = candidates.shortlist_of(pairs(300), ENCODERS, best=3, frequent=0)
    assert found.always.tolist() == [1]
    row = found.targets[found.begins[FIRST] : found.begins[FIRST + 1]].tolist()
    assert len(row) == 3 and TARGETS in row and row == sorted(row)


def test_what_was_counted_is_none_for_a_vocabulary_that_was_extended(tmp_path):
    path = tmp_path / "shortlist"
    found = candidates.shortlist_of(pairs(3), ENCODERS, best=1, frequent=1)
    path.write_text(found.text(ENCODERS))
    assert shortlist.read(path, ENCODERS).digest == found.digest
    longer = {
        side: SubwordTextEncoder.from_subtokens([*encoder.all_subtoken_strings, "y_", "z_"])
        for side, encoder in ENCODERS.items()
    }
    with pytest.raises(UserError, match="y_"):
        shortlist.read(path, longer)


def test_without_pairs_there_is_nothing_to_count():
    with pytest.raises(UserError):
        candidates.shortlist_of([], ENCODERS, best=1, frequent=1)

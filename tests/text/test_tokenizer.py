"""Words and the signs between them."""

import json
import pathlib
import sys
import unicodedata

import pytest

from t2t_repro.text import tokenizer

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "text"
ROWS = json.loads((GOLDEN / "subword_encode.json").read_text(encoding="utf-8"))["rows"]


def test_tokens_equal_tensor2tensors():
    assert len(ROWS) == 244
    for row in ROWS:
        assert tokenizer.encode(row["text"]) == row["tokens"]
        assert tokenizer.decode(row["tokens"]) == row["text"]


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("", []),
        (" ", [" "]),
        (" a", [" ", "a"]),
        ("a b ", ["a", "b", " "]),
        ("a  b", ["a", "  ", "b"]),
        ("a_1", ["a", "_", "1"]),
        ("Dude - that's so cool.", ["Dude", " - ", "that", "'", "s", "so", "cool", "."]),
    ],
)
def test_only_a_single_blank_between_words_is_implied(text, tokens):
    assert tokenizer.encode(text) == tokens


def test_tokens_are_counted_in_order():
    counts = tokenizer.count_tokens(["b a, b", "", "c a"])
    assert list(counts.items()) == [("b", 2), ("a", 2), (", ", 1), ("c", 1)]


def test_words_are_the_categories_l_and_n():
    characters = [chr(i) for i in range(sys.maxunicode + 1)]
    words = [run for run in tokenizer.encode("".join(characters)) if run[0].isalnum()]
    assert list("".join(words)) == [c for c in characters if unicodedata.category(c)[0] in "LN"]

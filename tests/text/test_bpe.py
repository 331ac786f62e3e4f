"""Byte pairs that are learnt of text."""

from t2t_repro.text import bpe
from t2t_repro.text.encoders import NUM_RESERVED_TOKENS
from t2t_repro.text.sentence_piece import SentencePieceEncoder

WORDS = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
SPECIAL = 257  # unknown text, and the bytes


def learnt(path, texts, merges):
    return bpe.learn(path, texts, merges), SentencePieceEncoder(path)


def test_the_first_merges_are_those_of_the_paper_that_brought_them(tmp_path):
    """Sennrich et al. 2016, figure 1; that a character ends a word is none."""
    number, encoder = learnt(tmp_path / "a.model", WORDS, 4)
    pieces = encoder.all_subtoken_strings[NUM_RESERVED_TOKENS + SPECIAL :]
    made = [piece for piece in pieces if len(piece.removesuffix("\u2581")) > 1]
    assert number == len(made) == 4 and made == ["es", "est\u2581", "lo", "low"]
    assert encoder.decode_list(encoder.encode("lowest")) == ["low", "est\u2581"]


def test_text_comes_out_as_it_went_in(tmp_path):
    lines = ["Der Hund (bellt), beißt nicht: 3.50 Mark!", "the dog that barks does not bite"] * 40
    _, encoder = learnt(tmp_path / "a.model", lines, 60)
    for text in (*lines[:2], "", "Neue Wörter, 12 % & 語 \U0001f600"):
        assert encoder.decode(encoder.encode(text)) == text
    pieces = encoder.decode_list(encoder.encode("語"))
    assert pieces[:3] == ["<0xE8>", "<0xAA>", "<0x9E>"]  # no text had it
    with_comma = [piece for piece in encoder.all_subtoken_strings if "," in piece]
    assert with_comma and not any(any(map(str.isalnum, piece)) for piece in with_comma)


def test_a_short_text_has_fewer_and_the_same_text_the_same(tmp_path):
    number, encoder = learnt(tmp_path / "a.model", ["a b ab"], 3700)
    assert number < 3 and encoder.decode(encoder.encode("ab a")) == "ab a"
    learnt(tmp_path / "b.model", ["a b ab"], 3700)
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()

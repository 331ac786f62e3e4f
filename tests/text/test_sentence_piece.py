"""SentencePiece models behind the two reserved ids, in Python and inside a graph."""

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import NUM_RESERVED_TOKENS
from t2t_repro.text.sentence_piece import SentencePieceEncoder, learn_bpe
from tests.text.pieces import train

TEXTS = [
    "a cab had a bad egg",
    "",
    " ",
    "  deaf  cabbage ",
    "zebra 😀 é",
    "a\tb\nc",
    r"A Fee; _x_ \u",
]
# What SentencePiece numbers otherwise in each.
MODELS = [
    {"model_type": "unigram"},
    {"model_type": "bpe", "pad_id": 3},
    {"model_type": "bpe", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    {"model_type": "unigram", "bos_id": -1, "eos_id": -1, "byte_fallback": True},
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda given: "-".join(map(str, given.values())))
def encoder(request, tmp_path_factory):
    size = 320 if request.param.get("byte_fallback") else 40
    path = tmp_path_factory.mktemp("pieces") / "own.model"
    return SentencePieceEncoder(train(path, size, **request.param))


def test_pieces_follow_the_reserved_ids(encoder):
    pieces = encoder.all_subtoken_strings
    assert pieces[:2] == ("<pad>", "<EOS>") and encoder.vocab_size == len(pieces) > 35
    assert not {"<s>", "</s>"} & set(pieces) and pieces.count("<unk>") == 1
    for text in TEXTS:
        ids = encoder.encode(text)
        assert all(1 < i < encoder.vocab_size for i in ids)
        assert "".join(encoder.decode_list(ids)) == "".join(pieces[i] for i in ids)
    assert encoder.decode(encoder.encode("a cab had a bad egg")) == "a cab had a bad egg"


def test_ids_that_are_no_pieces_say_nothing(encoder):
    ids = encoder.encode("bad egg")
    assert encoder.decode([0, *ids, 1, -7, encoder.vocab_size]) == "bad egg"
    assert encoder.decode([]) == encoder.decode([1, 0]) == ""
    assert encoder.decode_list([0, 1, -1, encoder.vocab_size]) == ["<pad>", "<EOS>", "", ""]


def test_the_graph_gives_the_same_ids_and_texts(encoder):
    import tensorflow as tf

    from t2t_repro.text import graph

    inside = graph.graph_encoder(encoder)
    ids = [encoder.encode(text) for text in TEXTS]
    assert inside.encode(tf.constant(TEXTS)).to_list() == ids
    ids.append([0, *ids[0], 1, encoder.vocab_size])
    texts = inside.decode(tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)).numpy()
    assert [text.decode() for text in texts] == [encoder.decode(row) for row in ids]
    labels = inside.subtokens(tf.constant([[5, 1, 0]])).numpy()[0]
    assert [label.decode() for label in labels] == [encoder.decode_list([5])[0], "<EOS>", ""]
    assert inside.encode(tf.constant([], tf.string)).to_list() == []


@pytest.mark.parametrize("content", [b"\n", b"\n\x05\n\x03abc", b"\n\xff\xff\xff\xff\xff garbage"])
def test_a_file_that_is_no_model_is_named(tmp_path, content):
    (tmp_path / "own.model").write_bytes(content)
    with pytest.raises(UserError):
        SentencePieceEncoder(tmp_path / "own.model")


WORDS = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
SPECIAL = 257  # unknown text, and the bytes


def learnt(path, texts, merges):
    return learn_bpe(path, texts, merges), SentencePieceEncoder(path)


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

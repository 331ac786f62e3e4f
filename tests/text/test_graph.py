"""The encoding inside a graph gives the ids and the texts of the encoder in Python."""

import json
import pathlib
import string

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.text.graph import GraphSubwords, one_line, strip

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "text"
RESERVED = ["<pad>_", "<EOS>_"]
ESCAPES = list("\\_u;0123456789")
BLANKS = "".join(c for c in map(chr, range(0x110000)) if c.isspace())
HARD = [
    *["", " ", "   ", "  a  b  ", " a", "a ", " .", "a . b", "a _ b", "\\_u;", r"\8364; \u \\"],
    *["\x00", "a\x00b", "a \x00 b", "".join(map(chr, range(32))), "\r\n\n", "a\x85b\u2028c"],
    *["😀 👩\u200d👩\u200d👧 e\u0301", "\ufeffa", "a\ufeff", "\U0010ffff", "\ufffd"],
    "你好 ١٢٣ Ⅷ ½",
    *["<pad> <EOS>", "<pad>_", "\u0378", "\U000323b0 \U0001123f", BLANKS + "a" + BLANKS],
    *["a" * 10_000, "ab " * 3_333, "!?" * 5_000, "é" * 10_000, "_" * 10_000],
]


def vocabulary(*more):
    return SubwordTextEncoder.from_subtokens([*RESERVED, *ESCAPES, *more])


LETTERS = string.ascii_lowercase.replace("u", "")
PLAIN = vocabulary(*LETTERS, " ", ".", "the_", "th", "he_", " _", ". _")


def in_graph(encoder):
    """The two functions, traced for batches of any size and rows of any length."""
    module = GraphSubwords(encoder)
    texts, ids = tf.TensorSpec([None], tf.string), tf.RaggedTensorSpec([None, None], tf.int32)
    encode = tf.function(module.encode, input_signature=[texts])
    decode = tf.function(module.decode, input_signature=[ids])

    def decoded(rows):
        rows = tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)
        return [text.decode() for text in decode(rows).numpy()]

    return lambda texts: encode(tf.constant(texts, tf.string)).to_list(), decoded


PLAIN_ENCODE, PLAIN_DECODE = in_graph(PLAIN)
quickly = settings(deadline=None, max_examples=30)


def test_ids_and_texts_equal_tensor2tensors():
    subtokens = json.loads((GOLDEN / "subword_encode_vocab.json").read_text(encoding="utf-8"))
    golden = json.loads((GOLDEN / "subword_encode.json").read_text(encoding="utf-8"))
    size, rows = golden["vocab_size"], golden["rows"]
    encode, decode = in_graph(
        SubwordTextEncoder.from_subtokens([subtokens.get(str(i), "") for i in range(size)])
    )
    assert len(rows) == 244
    ids = encode([row["text"] for row in rows])
    assert [row["ids"] for row in rows] == ids
    assert [row["decoded"] for row in rows] == decode(ids)


@pytest.mark.parametrize(
    "encoder",
    [
        PLAIN,
        SubwordTextEncoder(GOLDEN / "built_vocab.2048.subwords"),
        vocabulary("ab", "b", "xa_"),  # "a" and "x" within longer subtokens alone
        vocabulary("\x00", "a", "a\x00b_", "\x00b", "b"),
        vocabulary("\n", "a\n_", "", "__14", "😀", "", "\U0010ffff"),
    ],
)
def test_hard_texts(encoder):
    encode, decode = in_graph(encoder)
    ids = encode(HARD)
    for text, row in zip(HARD, ids, strict=True):
        assert row == encoder.encode(text), text[:40]
    assert decode(ids) == HARD
    texts = ["aba", "ab xa bax", "\x00b\x00", "é\n", "a\n", "the <pad>_"]
    assert encode(texts) == [encoder.encode(text) for text in texts]


@quickly
@given(st.lists(st.text(), max_size=4))
def test_any_text(texts):
    ids = PLAIN_ENCODE(texts)
    assert ids == [PLAIN.encode(text) for text in texts]
    assert PLAIN_DECODE(ids) == texts


@quickly
@given(st.lists(st.lists(st.integers(-2, PLAIN.vocab_size + 1), max_size=20), max_size=4))
def test_whatever_a_model_writes(ids):
    assert PLAIN_DECODE(ids) == [PLAIN.decode(row) for row in ids]


def test_escapes():
    spelled = [r"\8364;_", r"\u\\_", r"\12_", r"\9999999999;_", r"\55296;_", r"\1114112;_"]
    spelled += [r"\0000000065;_", r"\0;_", r"\00;_", r"\\65;_", r"\\\65;_", r"\;_"]
    spelled += ["a__b_", "a_b", "___", r"\0;\98;a_c_"]
    ids = [[PLAIN.all_subtoken_strings.index(c) for c in text] for text in spelled]
    assert PLAIN_DECODE(ids) == [PLAIN.decode(row) for row in ids]


def test_bytes_that_are_no_text_strip_and_one_line():
    assert PLAIN_ENCODE([b"\xff a"]) == [PLAIN.encode("\ufffd a")]
    texts = [*HARD, BLANKS + "a b" + BLANKS]
    stripped = [text.decode() for text in strip(tf.constant(texts)).numpy()]
    assert stripped == [text.strip() for text in texts]
    assert one_line(tf.constant(["a\r\n\nb\n"])).numpy() == [b"a b "]


def test_an_encoder_of_another_kind():
    class Lower(SubwordTextEncoder):
        def encode(self, text):
            return super().encode(text.lower())

    for encoder in (ByteTextEncoder(), Lower.from_subtokens(PLAIN.all_subtoken_strings)):
        with pytest.raises(UserError, match=type(encoder).__name__):
            GraphSubwords(encoder)

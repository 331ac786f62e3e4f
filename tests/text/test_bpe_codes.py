"""BPE codes give the pieces of subword-nmt, in Python and inside a graph."""

import itertools

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import bpe_codes
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from tests.text.codes import CODES, WORDS, learned


@pytest.fixture
def encoder(tmp_path):
    path = tmp_path / "codes"
    path.write_text(learned(), encoding="utf-8")
    return SentencePieceEncoder(path, bpe_codes.model_of(path))


def applied(word: str, codes: str) -> list[str]:
    """Returns the pieces of a word, by the definition: the first merge that is there, again."""
    merges = [tuple(line.split(" ")) for line in codes.splitlines()[1:]]
    parts = [*word[:-1], f"{word[-1]}</w>"]
    while ranks := [merges.index(pair) for pair in itertools.pairwise(parts) if pair in merges]:
        pair, at = merges[min(ranks)], 0
        while at < len(parts) - 1:
            if tuple(parts[at : at + 2]) == pair:
                parts[at : at + 2] = ["".join(pair)]
            at += 1
    return [part.removesuffix("</w>") + ("" if part.endswith("</w>") else "@@") for part in parts]


def pieces(encoder: SentencePieceEncoder, text: str) -> list[str]:
    marked = encoder.decode_list(encoder.encode(text))
    return [p[:-1] if p.endswith("\u2581") else f"{p}@@" for p in marked]


def test_the_pieces_are_those_of_the_merges(encoder):
    tried = {*WORDS, *(one[:3] + other[1:] for one in WORDS for other in WORDS)}
    codes = learned()
    tried = {word for word in tried if set(word) <= set(codes)}
    assert len(tried) > 60
    for word in sorted(tried):
        assert pieces(encoder, word) == applied(word, codes), word


def test_what_apply_bpe_gives(tmp_path):
    """Recorded: subword-nmt 0.3.8, apply-bpe -c CODES."""
    (tmp_path / "codes").write_text(CODES)
    encoder = SentencePieceEncoder(tmp_path / "codes", bpe_codes.model_of(tmp_path / "codes"))
    for text, expected in (
        ("lower slowest", "lower s@@ lowest"),
        ("newer low owl", "newe@@ r lo@@ w o@@ w@@ l"),
        ("weest estest", "we@@ e@@ st e@@ s@@ t@@ e@@ st"),
    ):
        assert " ".join(pieces(encoder, text)) == expected
        assert encoder.decode(encoder.encode(text)) == text


def test_what_no_code_has_is_spelled_by_its_bytes_and_comes_back(encoder):
    for text in ("lo\u03a9w \U0001f600 low", "\u03a9", "", "l\tow"):
        ids = encoder.encode(text)
        assert "<unk>" not in encoder.decode_list(ids) and encoder.decode(ids) == text
    assert encoder.decode(encoder.encode("  low   slow ")) == "low slow"
    assert encoder.decode([*encoder.encode("low"), 1, 0]) == "low"


def test_text_that_is_written_as_a_special_piece_stays_text(tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\n<un k\n<unk >\n<0x41 >\n< unk></w>\n")
    encoder = SentencePieceEncoder(tmp_path / "codes", bpe_codes.model_of(tmp_path / "codes"))
    for text in ("<unk> <unk>s <0x41>", "<0x41>A<unk>"):
        ids = encoder.encode(text)
        assert encoder.decode(ids) == text and "<unk>" not in encoder.decode_list(ids)


def test_the_graph_gives_the_same_ids_and_texts(encoder):
    import tensorflow as tf

    from t2t_repro.text import graph

    texts = [" ".join(WORDS), "lo\u03a9w \U0001f600", "", " low  slow "]
    ids, inside = [encoder.encode(text) for text in texts], graph.of(encoder)
    assert inside.encode(tf.constant(texts)).to_list() == ids
    written = inside.decode(tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)).numpy()
    assert [text.decode() for text in written] == [encoder.decode(row) for row in ids]


def test_a_sign_of_sentencepiece_in_the_codes_is_a_blank_as_in_any_text(tmp_path):
    (tmp_path / "codes").write_text(f"{CODES}l \u2581\n\u2581 o</w>\n", encoding="utf-8")
    (tmp_path / "plain").write_text(CODES)
    assert bpe_codes.model_of(tmp_path / "codes") == bpe_codes.model_of(tmp_path / "plain")


@pytest.mark.parametrize(
    "text, message",
    [
        ("#version: 0.1\nl o\n", "the line '#version: 0.2'. Received: '#version: 0.1' in"),
        ("l o\n", "begin with the line '#version: 0.2'. Received: 'l o' in"),
        ("#version: 0.2\n", "a merge a line. Received: none in"),
        ("#version: 0.2\nl o\nlo w 17\n", "'lo w 17' on line 3 of .*codes. Write them by subw"),
        ("#version: 0.2\nl o\0\n", r"'l o\\x00' on line 2 of"),
        ("#version: 0.2\nl\n", "'l' on line 2 of"),
        ("#version: 0.2\nl</w> o\n", "'l</w> o' on line 2 of"),
    ],
)
def test_what_are_no_codes_is_named(tmp_path, text, message):
    path = tmp_path / "codes"
    path.write_text(text)
    assert bpe_codes.are_codes(path)
    with pytest.raises(UserError, match=message):
        bpe_codes.model_of(path)


@pytest.mark.parametrize("text", ["'<pad>_'\n'<EOS>_'\n", "'a b'\n", "a_\n", "", "\n\x05"])
def test_subwords_and_models_are_no_codes(tmp_path, text):
    (tmp_path / "file").write_text(text)
    assert not bpe_codes.are_codes(tmp_path / "file")

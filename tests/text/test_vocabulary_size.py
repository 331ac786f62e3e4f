import functools
import random

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import vocabulary_size
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.tokenizer import count_tokens
from t2t_repro.text.vocabulary_size import VocabularySize, check_extension, is_extended, supported


def text(lines, seed=3):
    """Lines of words that are drawn from 3,000, a few of them often."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 9))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [" ".join(draw.choices(words, weights, k=7)) + "." for _ in range(lines)]


def build(path, lines, asked=None, is_t2t=False, repeated=1.0):
    """Builds; returns the encoder and what is known of it."""
    how = {"max_subtoken_length": 200, "reserved_tokens": RESERVED_TOKENS}
    counts = count_tokens(lines)
    vocabulary_size.build(path, asked, counts, repeated=repeated, is_t2t=is_t2t, named=True, **how)
    return SubwordTextEncoder(path), VocabularySize.read(path)


def t2t(lines, size):
    build_from = SubwordTextEncoder.build_from_generator
    return build_from(lines, size, max_subtoken_length=200).all_subtoken_strings


def test_more_text_supports_more_subwords():
    sizes = [supported(10**power) for power in range(12)]
    assert sizes == sorted(sizes) and (sizes[0], sizes[-1]) == (500, 2**15)
    assert (supported(1_087_379), supported(1_200_000_000)) == (4000, 2**15)


def test_a_text_of_more_different_words_than_captions_supports_more():
    of_captions = {111_245: 4_256, 559_335: 11_072, 1_119_336: 16_131, 3_258_321: 28_046}
    for size, kinds in of_captions.items():
        assert supported(size, kinds) == supported(size)
    assert 1.4 * supported(2_123_914) < supported(2_123_914, 48_230) < 8000
    assert supported(2_123_914, 100) == supported(2_123_914)
    assert supported(10**6, 10**7) == 2**15


def test_the_size_is_chosen_by_the_text_and_said(tmp_path):
    encoder, known = build(tmp_path / "vocab", text(4000))
    assert known.asked is None and known.made == encoder.vocab_size
    assert known.made == 1068 < supported(153_000) and "1,068" in known.reason
    assert "146,877" in known.reason and " 2,237 " in known.reason
    assert build(tmp_path / "few", text(100))[0].vocab_size < 450  # of which each occurs ten times
    assert " 1 " in build(tmp_path / "clauses", ["今天天气很好", "我们去公园 now"])[1].reason


def test_a_size_that_is_asked_for_is_made_as_t2t_makes_it(tmp_path):
    lines = text(2000)
    encoder, known = build(tmp_path / "vocab", lines, asked=900)
    assert encoder.all_subtoken_strings == t2t(lines, 900) and abs(known.made - 900) < 30
    _, known = build(tmp_path / "all", lines, asked=2**15)
    assert known.made == 1862 and "731" in known.reason


def test_text_that_is_repeated_supports_no_more(tmp_path):
    lines = text(1000)
    once, known = build(tmp_path / "once", lines)
    again, repeated = build(tmp_path / "again", lines * 20, repeated=20.0)
    assert again.all_subtoken_strings == once.all_subtoken_strings and repeated == known
    _, known = build(tmp_path / "asked", lines, asked=3000)
    asked, repeated = build(tmp_path / "asked again", lines * 20, asked=3000, repeated=20.0)
    assert asked.all_subtoken_strings == t2t(lines * 20, 3000)
    assert repeated.reason == known.reason


def test_few_subwords_of_much_text(tmp_path):
    lines = ["of the cat and a dog, and so on and so forth"] * 3000
    as_t2t, _ = build(tmp_path / "t2t", lines, asked=21, is_t2t=True)
    ours, known = build(tmp_path / "ours", lines, asked=21)
    assert known.made == ours.vocab_size < as_t2t.vocab_size  # T2T's least count is 1,000 at most


def test_what_is_known_is_of_the_file_as_it_was_built(tmp_path):
    path = tmp_path / "vocab"
    build(path, text(50))
    assert VocabularySize.read(path)
    path.write_text(path.read_text() + "'x'\n")
    assert VocabularySize.read(path) is None
    path.unlink()
    assert VocabularySize.read(path) is None


PIECES = [*"<pad>_ <EOS>_ bad_ egg".split(), *"abcdefgh\\_u;0123456789"]
COUNTS = {"cabbage": 40, "cabbages": 12, "é": 30, "bad": 99, "ñ": 3, "deaf": 11, "egg": 7}


@pytest.fixture
def old(tmp_path):
    encoder = SubwordTextEncoder.from_subtokens(PIECES)
    encoder.store_to_file(tmp_path / "old.subwords")
    return encoder


def extended(folder, size):
    """Returns the path of the vocabulary, and its encoder."""
    path = folder / "vocab.new.0.subwords"
    vocabulary_size.extend(path, folder / "old.subwords", size, COUNTS, None)
    (path,) = folder.glob("vocab.new.*.subwords")
    return path, SubwordTextEncoder(path)


def test_new_subwords_come_behind_by_what_they_save(old, tmp_path):
    _, found = extended(tmp_path, 34)
    pieces = list(found.all_subtoken_strings)
    assert pieces[: len(PIECES)] == PIECES and len(pieces) <= 34
    assert pieces[len(PIECES)] == "é" and not {"ñ", "s"} & set(pieces) - {"s"}
    assert len(found.encode("cabbage")) < len(old.encode("cabbage"))
    for text in ("bad egg", "cabbages, é and ñ!"):
        assert found.decode(found.encode(text)) == text
    assert found.encode("bad")[0] == old.encode("bad")[0] == 2
    assert list(extended(tmp_path, 28)[1].all_subtoken_strings) == pieces[:28]
    with pytest.raises(UserError, match="--vocab_from"):
        check_extension(old, 26)


def test_what_is_built_is_known_again(old, tmp_path):
    parent = tmp_path / "old.subwords"
    assert not is_extended(tmp_path / "vocab.new.0.subwords", parent, 34)
    path, encoder = extended(tmp_path, 34)
    known = VocabularySize.read(path)
    assert known.asked == 34 and known.made == encoder.vocab_size
    of_parent = functools.partial(is_extended, path, parent)
    assert of_parent(34) and not of_parent(35)
    old.store_to_file(parent, add_single_quotes=False)
    assert of_parent(34)
    SubwordTextEncoder.from_subtokens([*PIECES[:3], "gab", *PIECES[4:]]).store_to_file(parent)
    assert not of_parent(34)

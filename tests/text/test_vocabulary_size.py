import random

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import vocabulary_size
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.vocabulary import count_tokens
from t2t_repro.text.vocabulary_size import Text, VocabularySize, is_extended


def text(lines, seed=3):
    """Lines of words that are drawn from 3,000, a few of them often."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 9))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [" ".join(draw.choices(words, weights, k=7)) + "." for _ in range(lines)]


def build(path, lines, asked=None, is_t2t=False, repeated=1.0):
    """Builds; returns the encoder and what is known of it."""
    vocabulary_size.build(
        path,
        asked,
        "--vocab_size",
        count_tokens(lines),
        repeated=repeated,
        is_t2t=is_t2t,
        named=True,
        max_subtoken_length=200,
        reserved_tokens=RESERVED_TOKENS,
    )
    return SubwordTextEncoder(path), VocabularySize.of(path)


def test_more_text_supports_more_subwords():
    sizes = [vocabulary_size.supported(10**power) for power in range(12)]
    assert sizes == sorted(sizes) and (sizes[0], sizes[-1]) == (500, 2**15)
    captions, wmt = vocabulary_size.supported(1_087_379), vocabulary_size.supported(1_200_000_000)
    assert (captions, wmt) == (4000, 2**15)


def test_a_text_of_more_different_words_than_captions_supports_more():
    of_captions = {111_245: 4_256, 559_335: 11_072, 1_119_336: 16_131, 3_258_321: 28_046}
    for size, kinds in of_captions.items():
        assert vocabulary_size.supported(size, kinds) == vocabulary_size.supported(size)
    news = vocabulary_size.supported(2_123_914, 48_230)
    assert 1.4 * vocabulary_size.supported(2_123_914) < news < 8000
    assert vocabulary_size.supported(2_123_914, 100) == vocabulary_size.supported(2_123_914)
    assert vocabulary_size.supported(10**6, 10**7) == 2**15


def test_a_text_is_its_words_their_kinds_and_its_bytes():
    assert Text.of(count_tokens(["a cat, a käse", "a 7"])) == Text(words=6, kinds=4, size=14)


def test_the_size_is_chosen_by_the_text_and_said(tmp_path):
    encoder, known = build(tmp_path / "vocab", text(4000))
    assert known.asked is None and known.made == encoder.vocab_size
    assert known.supported == known.made < vocabulary_size.supported(153_000)
    assert 900 < known.made
    assert "28,000" in known.reason and "2,237" in known.reason
    few, _ = build(tmp_path / "few", text(100))
    assert few.vocab_size < 450  # of which each occurs ten times


def test_a_size_that_is_asked_for_is_made_as_t2t_makes_it(tmp_path):
    lines = text(2000)
    encoder, known = build(tmp_path / "vocab", lines, asked=900)
    t2t = SubwordTextEncoder.build_from_generator(
        iter(lines), 900, max_subtoken_length=200, reserved_tokens=RESERVED_TOKENS
    )
    assert encoder.all_subtoken_strings == t2t.all_subtoken_strings
    assert abs(known.made - 900) < 30
    _, known = build(tmp_path / "all", lines, asked=2**15)
    assert known.made < 4000 and known.supported < 1000


def test_text_that_is_repeated_supports_no_more(tmp_path):
    lines = text(1000)
    once, known = build(tmp_path / "once", lines)
    again, repeated = build(tmp_path / "again", lines * 20, repeated=20.0)
    assert again.all_subtoken_strings == once.all_subtoken_strings and repeated == known
    _, known = build(tmp_path / "asked", lines, asked=3000)
    asked, repeated = build(tmp_path / "asked again", lines * 20, asked=3000, repeated=20.0)
    t2t = SubwordTextEncoder.build_from_generator(
        iter(lines * 20), 3000, max_subtoken_length=200, reserved_tokens=RESERVED_TOKENS
    )
    assert asked.all_subtoken_strings == t2t.all_subtoken_strings
    assert repeated.supported == known.supported


def test_few_subwords_of_much_text(tmp_path):
    lines = ["of the cat and a dog, and so on and so forth"] * 3000
    t2t, known = build(tmp_path / "t2t", lines, asked=21, is_t2t=True)
    ours, known = build(tmp_path / "ours", lines, asked=21)
    assert ours.vocab_size < t2t.vocab_size  # T2T's least count is 1,000 at most
    assert known.made == ours.vocab_size


@pytest.mark.parametrize("change", ["'x'\n", None])
def test_what_is_known_is_of_the_file_as_it_was_built(tmp_path, change):
    path = tmp_path / "vocab"
    build(path, text(50))
    assert VocabularySize.of(path)
    if change:
        path.write_text(path.read_text() + change)
    else:
        path.unlink()
    assert VocabularySize.of(path) is None


PIECES = [*"<pad>_ <EOS>_ bad_ egg".split(), *"abcdefgh\\_u;0123456789"]
COUNTS = {"cabbage": 40, "cabbages": 12, "é": 30, "bad": 99, "ñ": 3, "deaf": 11, "egg": 7}


def test_new_subwords_come_behind_by_what_they_save():
    old = SubwordTextEncoder.from_subtokens(PIECES)
    found = vocabulary_size.extended(old, 34, COUNTS)
    pieces = list(found.all_subtoken_strings)
    assert pieces[: len(PIECES)] == PIECES and len(pieces) <= 34
    assert pieces[len(PIECES)] == "é" and not {"ñ", "s"} & set(pieces) - {"s"}
    assert len(found.encode("cabbage")) < len(old.encode("cabbage"))
    for text in ("bad egg", "cabbages, é and ñ!"):
        assert found.decode(found.encode(text)) == text
    assert found.encode("bad")[0] == old.encode("bad")[0] == 2
    few = vocabulary_size.extended(old, 28, COUNTS)
    assert list(few.all_subtoken_strings) == pieces[:28]
    with pytest.raises(UserError, match="--vocab_from"):
        vocabulary_size.extended(old, 26, COUNTS)


def test_what_is_built_is_known_again(tmp_path):
    old, path = tmp_path / "old.subwords", tmp_path / "vocab.new.0.subwords"
    SubwordTextEncoder.from_subtokens(PIECES).store_to_file(old)
    assert not is_extended(path, old, 34)
    vocabulary_size.build_extended(path, old, 34, COUNTS, None)
    (path,) = tmp_path.glob("vocab.new.*.subwords")
    assert is_extended(path, old, 34) and not is_extended(path, old, 35)
    SubwordTextEncoder.from_subtokens(PIECES).store_to_file(old, add_single_quotes=False)
    assert is_extended(path, old, 34)
    known = VocabularySize.of(path)
    assert known.asked == 34 and known.made == SubwordTextEncoder(path).vocab_size
    SubwordTextEncoder.from_subtokens([*PIECES[:3], "gab", *PIECES[4:]]).store_to_file(old)
    assert not is_extended(path, old, 34)

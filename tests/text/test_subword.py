"""The subword encoder: tensor2tensor's ids, its files, and files that are none."""

import collections
import gzip
import json
import pathlib
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.text import SubwordTextEncoder, subword

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "text"
RESERVED = ["<pad>_", "<EOS>_"]
ESCAPES = list("\\_u;0123456789")


def _golden(name):
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wmt32k():
    """A vocabulary of 33,708, of which only what can match in the 244 texts is filled in."""
    subtokens = _golden("subword_encode_vocab.json")
    size = _golden("subword_encode.json")["vocab_size"]
    return SubwordTextEncoder.from_subtokens([subtokens.get(str(i), "") for i in range(size)])


ENCODER = SubwordTextEncoder.from_subtokens(
    [*RESERVED, *ESCAPES, *string.ascii_lowercase.replace("u", ""), " ", ".", "the_", "th", "he_"]
)


def test_ids_equal_tensor2tensors(wmt32k):
    rows = _golden("subword_encode.json")["rows"]
    assert len(rows) == 244 and wmt32k.vocab_size == 33708
    for row in rows:
        assert wmt32k.encode(row["text"]) == row["ids"]
        assert wmt32k.decode(row["ids"]) == row["decoded"] == row["text"]


def test_the_longest_subtoken_is_taken_first():
    def pieces(text):
        return ENCODER.decode_list(ENCODER.encode(text))

    assert pieces("the then he") == ["the_", "th", "e", "n", "_", "he_"]
    assert pieces("a_b") == ["a", "_", "\\", "u", "_", "b", "_"]
    assert pieces("\\") == ["\\", "\\", "_"]
    assert pieces("é\n") == [*r"\233;_", *r"\10;_"]
    assert ENCODER.decode_list(ENCODER.encode_without_tokenizing("a. a")) == [*"a. a_"]


@pytest.mark.parametrize(
    "spelled, text",
    [
        (r"\8364;_", "€"),
        (r"\u\\_", "_\\"),
        (r"\12_", r"\12"),
        (r"\9999999999;_", "\u3013"),
        (r"\55296;_", "\u3013"),  # half a surrogate pair, which no file can hold
        ("a__b_", "a b"),
        ("a_b", "a b"),
    ],
)
def test_what_a_model_may_write_decodes(spelled, text):
    ids = [ENCODER.all_subtoken_strings.index(c) for c in spelled]
    assert ENCODER.decode(ids) == text


def test_reserved_and_unknown_ids():
    assert ENCODER.decode([0, ENCODER.vocab_size, -1, 1]) == "<pad><EOS>"
    assert ENCODER.decode([1, 0], strip_extraneous=True) == ""
    assert ENCODER.decode_list([0, 10**6]) == ["<pad>_", ""]


def test_the_cache_is_bounded_by_characters_and_ids(monkeypatch):
    monkeypatch.setattr(subword, "_CACHE_SIZE", 12)
    encoder = SubwordTextEncoder.from_subtokens([*RESERVED, *ESCAPES])
    for words in ("1 2 3 4 5 1 2", "7" * 13, "1"):
        assert encoder.decode(encoder.encode(words)) == words
        assert sum(len(token) + len(ids) for token, ids in encoder._cache.items()) <= 12
    assert "1" in encoder._cache
    ids = encoder.encode("1")
    ids.append(7)
    assert encoder.encode("1") == ids[:-1]


def test_files_with_and_without_quotes(tmp_path):
    path = tmp_path / "vocab"
    ENCODER.store_to_file(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "'<pad>_'" and lines[-1] == "" and len(lines) == ENCODER.vocab_size + 1
    assert SubwordTextEncoder(path).all_subtoken_strings == ENCODER.all_subtoken_strings

    path.write_text("".join(f'"{line[1:-1]}"  \r\n' for line in lines[:-1]), encoding="utf-8")
    assert SubwordTextEncoder(path).all_subtoken_strings == ENCODER.all_subtoken_strings

    ENCODER.store_to_file(path, add_single_quotes=False)
    plain = SubwordTextEncoder(path)
    blank = ENCODER.all_subtoken_strings.index(" ")
    assert plain.all_subtoken_strings[blank] == ""  # as tensor2tensor reads it
    assert plain.vocab_size == ENCODER.vocab_size
    assert plain.decode(plain.encode("a  b. c")) == "a  b. c"
    assert [file.name for file in tmp_path.iterdir()] == ["vocab"]


def test_a_character_known_only_within_longer_subtokens_is_escaped():
    encoder = SubwordTextEncoder.from_subtokens([*RESERVED, *ESCAPES, "ab", "b"])
    assert encoder.decode_list(encoder.encode("aba")) == ["ab", *r"\97;", "_"]
    assert encoder.decode(encoder.encode("aba")) == "aba"


def test_files_that_are_no_vocabulary(tmp_path):
    path = tmp_path / "vocab"
    ENCODER.store_to_file(path)
    with open(path, "a", encoding="utf-8") as file:
        file.write("'the_'\n")
    with pytest.raises(UserError, match=f"44 and {ENCODER.vocab_size + 1} "):
        SubwordTextEncoder(path)
    path.write_text("the\na\n0\n", encoding="utf-8")  # cannot spell
    with pytest.raises(UserError):
        SubwordTextEncoder(path)
    with pytest.raises(UserError):
        SubwordTextEncoder.from_subtokens(["a", "a"])


@pytest.fixture(scope="module")
def multi30k_counts():
    """How often each token occurs in train.en and train.de of Multi30k."""
    with gzip.open(GOLDEN / "multi30k_token_counts.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.parametrize("name", ["512", "2048", "8192", "from_generator_4096"])
def test_built_vocabularies_equal_tensor2tensors(name, multi30k_counts, tmp_path):
    if name.isdecimal():
        encoder = SubwordTextEncoder.build_to_target_size(int(name), multi30k_counts, 1, 1000)
    else:  # one token on a line, as often as it occurs: the same counts as from the captions
        lines = (token for token, count in multi30k_counts.items() for _ in range(count))
        encoder = SubwordTextEncoder.build_from_generator(lines, 4096)
    encoder.store_to_file(tmp_path / "vocab")
    expected = GOLDEN / f"built_vocab.{name}.subwords"
    assert (tmp_path / "vocab").read_bytes() == expected.read_bytes()


MATCHES = SubwordTextEncoder.from_subtokens(
    [*RESERVED, *ESCAPES, *"abcd", "ab", "bc", "cd", "abc", "bcd"]
)


def cuts_of(word, rate):
    """Returns {subtokens: probability} of a word, by the definition."""
    if not word:
        return {(): 1.0}
    fitting = [
        word[:n] for n in range(len(word), 0, -1) if word[:n] in MATCHES.all_subtoken_strings
    ]
    found, left = {}, 1.0
    for subtoken in fitting:
        taken = left if len(subtoken) == 1 else left * (1 - rate)
        left -= taken
        for rest, probability in cuts_of(word[len(subtoken) :], rate).items():
            found[subtoken, *rest] = found.get((subtoken, *rest), 0) + taken * probability
    return found


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.7, 0.99999])
def test_words_are_resegment_as_often_as_the_definition_says(rate):
    ids, draw, times = [*MATCHES.encode("abcd"), 1], random.Random(3).random, 3000
    counts = collections.Counter(tuple(MATCHES.resegment(ids, rate, draw)) for _ in range(times))
    expected = cuts_of("abcd_", rate)
    found = {tuple(MATCHES.decode_list(cut[:-1])): n / times for cut, n in counts.items()}
    assert {cut[-1] for cut in counts} == {1} and found.keys() <= expected.keys()
    for cut, probability in expected.items():
        assert found.get(cut, 0) == pytest.approx(probability, abs=0.04)


@given(st.text(max_size=30), st.floats(0, 0.999), st.integers(0, 99))
def test_text_that_is_resegment_is_the_same_text(text, rate, seed):
    for encoder in (ENCODER, MATCHES):
        ids = [*encoder.encode(text), 1]
        assert encoder.decode([*ids, 0], strip_extraneous=True) == encoder.decode(ids[:-1]) == text
        cut = encoder.resegment(ids, rate, random.Random(seed).random)
        assert encoder.decode(cut[:-1]) == text and cut[-1] == 1
        assert encoder.resegment(ids, 0.0, random.Random(seed).random) == ids


def test_a_subtoken_whose_first_character_is_none_is_not_skipped():
    encoder = SubwordTextEncoder.from_subtokens([*RESERVED, *ESCAPES, "ab"])
    ids = encoder.encode("ab")
    assert encoder.resegment(ids, 0.9, lambda: 0.0) == ids

"""Building vocabularies, against a second implementation that does what tensor2tensor does."""

import collections
import random

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.text.escaping import ESCAPE_CHARACTERS, escape_token
from t2t_repro.text.tokenizer import count_tokens

RESERVED = ["<pad>", "<EOS>"]


def naive_subtokens(counts, min_count, reserved, longest, iterations):
    """Count every substring, then take the counts of long ones off their prefixes."""
    alphabet = {c for token in [*counts, *reserved] for c in token} | ESCAPE_CHARACTERS
    alphabet -= {"\n"}
    min_count = max(min_count, 1)
    escaped = [(escape_token(token, alphabet), count) for token, count in counts.items()]
    escaped_reserved = [escape_token(token, alphabet) for token in reserved]
    vocabulary = alphabet
    for _ in range(iterations):
        found = collections.Counter()
        for token, count in escaped:
            start = 0
            while start < len(token):
                stop = len(token) if longest is None else min(len(token), start + longest - 1)
                for end in range(start + 1, stop + 1):
                    found[token[start:end]] += count
                sizes = range(len(token) - start, 0, -1)
                start += next(n for n in sizes if token[start : start + n] in vocabulary)
        ranked = []
        for subtoken in sorted((s for s in found if found[s] >= min_count), key=len, reverse=True):
            count = found[subtoken]
            if count >= min_count:
                if subtoken not in alphabet:
                    ranked.append((count, subtoken))
                for length in range(1, len(subtoken)):
                    found[subtoken[:length]] -= count
        ranked += [(found.get(c, 0), c) for c in alphabet]
        subtokens = escaped_reserved + [s for _, s in sorted(ranked, reverse=True)]
        vocabulary = set(subtokens)
    return subtokens


def naive_search(target, counts, low, high, *arguments):
    middle = (low + high) // 2
    subtokens = naive_subtokens(counts, middle, *arguments)
    miss = abs(len(subtokens) - target)
    if miss * 100 < target or low >= high or middle < 2:
        return subtokens
    if len(subtokens) > target:
        other = naive_search(target, counts, middle + 1, high, *arguments)
    else:
        other = naive_search(target, counts, low, middle - 1, *arguments)
    return other if abs(len(other) - target) < miss else subtokens


ALPHABETS = ["ab", "abc_\\u;1", "abcdefgh ,.", "aé北😀 -0\u2028\n", "<pad>EOS "]


def corpus(seed):
    """Lines of words that share stems and endings, in one of the alphabets."""
    dice = random.Random(seed)
    alphabet = ALPHABETS[seed % len(ALPHABETS)]
    parts = ["".join(dice.choices(alphabet, k=dice.randint(1, 6))) for _ in range(15)]
    return [
        " ".join("".join(dice.choices(parts, k=dice.randint(1, 3))) for _ in range(8))
        for _ in range(dice.choice([1, 5, 60]))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_same_as_the_naive_builder(seed, tmp_path):
    dice = random.Random(seed + 1000)
    # Whole lines as tokens, as for encode_without_tokenizing.
    counts = (collections.Counter if seed % 4 == 3 else count_tokens)(corpus(seed))
    target = dice.choice([1, 30, 60, 100, 150, 10000])
    low, high = sorted(dice.choices([0, 1, 2, 3, 5, 10, 50, 300], k=2))
    longest = dice.choice([None, None, 2, 3, 5, 12])
    reserved = dice.choice([RESERVED, [*RESERVED, "<sep>", "<a_b>"], []])
    iterations = dice.choice([1, 2, 4, 4])

    how = longest, reserved, iterations
    encoder = SubwordTextEncoder.build_to_target_size(target, counts, low, high, *how)
    expected = naive_search(target, counts, low, high, reserved, longest, iterations)
    assert encoder.all_subtoken_strings == tuple(expected)

    encoder.store_to_file(tmp_path / "vocab")
    stored = (tmp_path / "vocab").read_bytes()
    assert stored == "".join(f"'{s}'\n" for s in expected).encode("utf-8")
    again = SubwordTextEncoder(tmp_path / "vocab")
    for token in counts:
        ids = again.encode_without_tokenizing(token)
        assert ids == encoder.encode_without_tokenizing(token)
        assert again.decode(ids) == token


def test_a_reserved_token_matches_in_text_where_no_count_put_it():
    # "<sep>" is one token here, as in no text that the tokenizer has cut.
    counts = {"<sep>": 1, "<se": 50, "x<sep>": 3}
    reserved = [*RESERVED, "<sep>"]
    encoder = SubwordTextEncoder.build_to_target_size(60, counts, 5, 5, reserved_tokens=reserved)
    expected = naive_search(60, counts, 5, 5, reserved, None, 4)
    assert encoder.all_subtoken_strings == tuple(expected)


def test_long_tokens_are_no_trouble_with_a_bound():
    token = "".join(random.Random(0).choices("天地玄黃宇宙洪荒", k=20000))
    encoder = SubwordTextEncoder.build_to_target_size(
        500, {token: 1}, 1, 1000, max_subtoken_length=6
    )
    assert 400 < encoder.vocab_size < 600
    assert encoder.decode(encoder.encode(token)) == token


def test_what_has_two_ids_or_no_token_is_refused():
    for counts, reserved in (({}, RESERVED), ({"ab": 9}, [*RESERVED, "ab"])):
        with pytest.raises(UserError):
            SubwordTextEncoder.build_to_target_size(50, counts, 2, 8, reserved_tokens=reserved)

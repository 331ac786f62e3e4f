"""Small BPE codes for the tests."""

import collections
import itertools

# Recorded: subword-nmt 0.3.8, learn-bpe -s 8 --min-frequency 1.
CODES = "#version: 0.2\nw e\nl o\ns t</w>\nlo we\nn e\nne we\nlowe st</w>\nlowe r</w>\n"
WORDS = "low lower lowest slow slower slowest newest widest owl willow hello blow wow eeee".split()


def learned(merges: int = 25) -> str:
    """Returns codes of these words: the most frequent pair, again and again."""
    words = [[*word[:-1], f"{word[-1]}</w>"] for word in WORDS]
    codes = ["#version: 0.2"]
    for _ in range(merges):
        pairs = collections.Counter(p for word in words for p in itertools.pairwise(word))
        one, other = max(pairs, key=lambda pair: (pairs[pair], pair))
        codes.append(f"{one} {other}")
        for word in words:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == (one, other):
                    word[at : at + 2] = [one + other]
                at += 1
    return "\n".join(codes) + "\n"

"""Split text into words and the signs between them, such that joining gives the text back.

A token is a longest run of letters and digits (Unicode categories L and N), or a longest run of
everything else. A single space between two words is implied and makes no token; at the very
beginning or end of the text it does. `"Dude - that's so cool."` becomes
`["Dude", " - ", "that", "'", "s", "so", "cool", "."]`.
"""

import re
from collections.abc import Iterable, Sequence

# Scripts that put no space between words: signs that are words, and alphabets (Thai to Lao,
# Burmese, Khmer).
SIGNS = "\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
LETTERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
SINGLE = re.compile(f"[{LETTERS}{SIGNS}]")
# [^\W_] is str.isalnum(), which holds for exactly the categories L and N.
_RUNS = re.compile(r"[^\W_]+|[\W_]+")


def encode(text: str) -> list[str]:
    """Returns the tokens of `text`. `decode` undoes it exactly, for every string."""
    runs = _RUNS.findall(text)
    if len(runs) < 3:
        return runs
    return [runs[0], *[run for run in runs[1:-1] if run != " "], runs[-1]]


def decode(tokens: Sequence[str]) -> str:
    """Returns the text of tokens, none of which may be empty: a space goes between two words."""
    pieces = []
    after_word = False
    for token in tokens:
        is_word = token[0].isalnum()
        if after_word and is_word:
            pieces.append(" ")
        pieces.append(token)
        after_word = is_word
    return "".join(pieces)


def count_tokens(lines: Iterable[str]) -> dict[str, int]:
    """Returns how often each token of the lines occurs, in the order of first occurrence."""
    counts: dict[str, int] = {}
    for line in lines:
        for token in encode(line):
            counts[token] = counts.get(token, 0) + 1
    return counts

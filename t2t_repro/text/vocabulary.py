"""What a vocabulary is built from: some lines of files, and how often each token occurs."""

import os
from collections.abc import Iterable, Iterator

from t2t_repro.text import raw, tokenizer

FILE_BYTE_BUDGET = 1e6


def count_tokens(lines: Iterable[str]) -> dict[str, int]:
    """Returns how often each token occurs, in the order of first occurrence."""
    counts: dict[str, int] = {}
    for line in lines:
        for token in tokenizer.encode(line):
            counts[token] = counts.get(token, 0) + 1
    return counts


def sample_lines(
    paths: Iterable[str | os.PathLike[str]], file_byte_budget: float = FILE_BYTE_BUDGET
) -> Iterator[str]:
    """Yields stripped lines of each file, evenly spread, of about `file_byte_budget` characters.

    These are the lines that tensor2tensor takes: all of a file below twice the budget until the
    budget is spent, else one and then `size / budget / 2` left out, and so on.
    """
    for path in paths:
        skip = int(_text_size(path) / file_byte_budget / 2)
        left, skipped = file_byte_budget, 0
        for line in raw.stripped_lines(path):
            if skipped < skip:
                skipped += 1
                continue
            if left <= 0:
                break
            left -= len(line)
            skipped = 0
            yield line


def _text_size(path: str | os.PathLike[str]) -> int:
    """Returns the size of the text in bytes; a gzipped file is read for it."""
    if not os.fspath(path).endswith(".gz"):
        return os.path.getsize(path)
    return sum(len(line) for line in raw.raw_lines(path))

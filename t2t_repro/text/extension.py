"""A vocabulary of subwords with more of them behind its own, for a text that it cuts too small.

The ids of the old ones stay, so that a model that knows them goes on with its rows. New are the
characters that the text has and the vocabulary spells by numbers, then the subwords of the text's
own vocabulary that save most: how often each occurs, times the old subwords that it stands for but
one.
"""

import pathlib
from collections import Counter
from collections.abc import Mapping

from t2t_repro.errors import UserError
from t2t_repro.text import transfer, vocabulary_size
from t2t_repro.text.subword import SubwordTextEncoder

_SEEN = 10  # how often what is new must occur at least
_MORE = 2  # times as many are looked at


def extended(
    old: SubwordTextEncoder,
    size: int,
    counts: Mapping[str, int],
    max_subtoken_length: int | None = None,
) -> SubwordTextEncoder:
    """Returns `old` with at most so many subwords behind its own that there are `size`.

    Args:
        old: the vocabulary.
        size: how many subwords there shall be in all, at most.
        counts: the tokens of the text and how often each occurs.
        max_subtoken_length: as `SubwordTextEncoder.build_to_target_size`'s.

    Raises:
        UserError: if it has as many already.
    """
    check_size(old, size)
    pieces = list(old.all_subtoken_strings)
    occurring: Counter[str] = Counter()
    for token, count in counts.items():
        for character in set(token) - old.alphabet - {"\n"}:
            occurring[character] += count
    new = sorted((c for c in occurring if occurring[c] >= _SEEN), key=lambda c: (-occurring[c], c))
    characters = new[: size - len(pieces)]
    spelled = old.alphabet | set(characters)
    own = SubwordTextEncoder.build_to_target_size(
        _MORE * size, counts, _SEEN, 1000, max_subtoken_length=max_subtoken_length
    )
    known = {*pieces, *characters}
    more = [p for p in own.all_subtoken_strings if p and p not in known and spelled >= set(p)]
    union = SubwordTextEncoder.from_subtokens([*pieces, *characters, *more])
    seen: Counter[int] = Counter()
    for token, count in counts.items():
        for i in union.encode_without_tokenizing(token):
            seen[i] += count
    parts = transfer.parts(union, old)
    start = len(pieces) + len(characters)
    saved = {
        p: seen[i] * (len(parts[i]) - 1) for i, p in enumerate(more, start) if seen[i] >= _SEEN
    }
    best = sorted((p for p in saved if saved[p]), key=lambda p: (-saved[p], p))
    return SubwordTextEncoder.from_subtokens([*pieces, *characters, *best][:size])


def check_size(old: SubwordTextEncoder, size: int) -> None:
    """Refuses a size that leaves no room for new subwords.

    Raises:
        UserError: saying how many there are.
    """
    if size <= old.vocab_size:
        raise UserError(
            f"Expected --vocab_size above the {old.vocab_size:,} subwords of --vocab_from, which "
            f"it extends. Received: {size}. Leave it out to take that vocabulary as it is."
        )


def build(
    path: pathlib.Path,
    old: pathlib.Path,
    size: int,
    counts: Mapping[str, int],
    max_subtoken_length: int | None,
) -> None:
    """Writes `extended` of a vocabulary file, and what is known of it."""
    before = SubwordTextEncoder(old)
    after = extended(before, size, counts, max_subtoken_length)
    lengths = [
        sum(n * len(encoder.encode_without_tokenizing(token)) for token, n in counts.items())
        for encoder in (before, after)
    ]
    reason = (
        f"{before.vocab_size:,} are those of {old}, {after.vocab_size - before.vocab_size:,} are "
        f"new, with which the text has {1 - lengths[1] / max(lengths[0], 1):.0%} fewer subwords"
    )
    vocabulary_size.write(path, after, size, after.vocab_size, counts, reason)


def is_built(path: pathlib.Path, old: pathlib.Path, size: int) -> bool:
    """Whether `path` is what `build` writes of `old` for a size."""
    known = vocabulary_size.VocabularySize.of(path)
    if not known or known.asked != size:
        return False
    pieces = SubwordTextEncoder(old).all_subtoken_strings
    return SubwordTextEncoder(path).all_subtoken_strings[: len(pieces)] == pieces

"""How many subwords a text supports; builds vocabularies of that size, and extends others.

A subword is learned from its occurrences. With too many of them most are whole words that occur a
few times, and a word that the training text does not have falls into characters.

Little text wants few: Gowda and May 2020 (arXiv 2004.02334) find
the best translations with the largest vocabulary of which 95% occurs 100 times or more, about 1,000
symbols for 30,000 pairs, 4,000 to 16,000 for 500,000 and 32,000 to 64,000 for 4.5 million; Sennrich
and Zhang 2019 (arXiv 1905.11901) 2,000 for 100,000 words; Ding et al. 2019
(arXiv 1905.10453) lose 3 to 4 BLEU by a wrong number alone. Araabi and Monz 2020
(arXiv 2011.02266) find 5,000 to 15,000 merges for 5,000 to 80,000
pairs. benchmarks/RESULTS.md has what was measured here.
"""

import dataclasses
import functools
import math
import os
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, sha256, write_json
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.tokenizer import SINGLE
from t2t_repro.text.vocabulary import sized

T2T_SIZE = 2**15  # of a text problem that does not say it
# Text in bytes, and subwords for it: measured on 10,000 pairs of captions, and T2T's for WMT.
_LITTLE, _FOR_LITTLE = 1.1e6, 4000
_MUCH, _FOR_MUCH = 1.1e9, T2T_SIZE
# Those captions have so many different words, which grow as this power of their bytes (Heaps' law).
_KINDS_OF_LITTLE, _GROWTH = 16_000, 0.56
_LEAST = 500
_SEEN = 10  # how often a subword must occur at least, where its number is chosen here
_MORE = 2  # times as many as are wanted are looked at for an extension
_T2T_MOST = 1000  # the highest minimum count that T2T tries


@dataclasses.dataclass(frozen=True)
class VocabularySize:
    """The record of a built vocabulary, in a file beside it.

    Attributes:
        sha256: of its file.
        asked: the requested number of subwords; None: as many as the text supports.
        made: how many there are.
        reason: why there are so many, in words.
    """

    sha256: str
    asked: int | None
    made: int
    reason: str

    @classmethod
    def read(cls, path: pathlib.Path) -> "VocabularySize | None":
        """Returns the record of a vocabulary; None: it was not built here, or has changed."""
        try:
            known = schema.read(_beside(path), cls)
        except (OSError, UserError):
            return None
        return known if path.exists() and known.sha256 == sha256(path) else None


def supported(size: int, kinds: int = 0) -> int:
    """Returns how many subwords a text supports: a power of its size.

    A text with many different words counts as larger, since it has more to spell.

    Args:
        size: its bytes in UTF-8.
        kinds: how many different words it has; 0: unknown.
    """
    exponent = math.log(_FOR_MUCH / _FOR_LITTLE) / math.log(_MUCH / _LITTLE)
    like = _LITTLE * (kinds / _KINDS_OF_LITTLE) ** (1 / _GROWTH)
    many = _FOR_LITTLE * (max(size, like, 1) / _LITTLE) ** exponent
    return min(max(100 * round(many / 100), _LEAST), _FOR_MUCH)


def build(
    path: pathlib.Path,
    asked: int | None,
    counts: Mapping[str, int],
    *,
    repeated: float = 1.0,
    is_t2t: bool,
    named: bool,
    max_subtoken_length: int | None,
    reserved_tokens: Sequence[str],
) -> None:
    """Builds a vocabulary and writes it, with its record.

    Args:
        path: its file, "vocab.NAME.SIZE.subwords".
        asked: about how many subwords; None: as many as the text supports.
        counts: the tokens of the text and how often each occurs.
        repeated: how often the text has each pair; repetition supports no more subwords.
        is_t2t: whether to build T2T's vocabulary, which has more subwords than requested if each
            occurs a thousand times.
        named: whether SIZE stays as it is; else it becomes the number of subwords.
        max_subtoken_length: as `SubwordTextEncoder.build_to_target_size`'s; the next too.
        reserved_tokens: tokens to be given the first ids.
    """
    once = {token: max(1, round(count / repeated)) for token, count in counts.items()}
    # A token of a script without spaces is a clause, and nearly every one another.
    words = sum(token[0].isalnum() and not SINGLE.search(token) for token in once)
    size = sum(len(token.encode("utf-8", "surrogatepass")) * n for token, n in once.items())
    fits = supported(size, words)
    # A number that is asked for is made as T2T makes it.
    target, of, least = (asked, counts, 1) if asked else (fits, once, _SEEN)
    build_from = functools.partial(
        SubwordTextEncoder.build_to_target_size,
        max_subtoken_length=max_subtoken_length,
        reserved_tokens=reserved_tokens,
    )
    encoder, highest = build_from(target, of, least, _T2T_MOST), max(of.values(), default=0)
    if encoder.vocab_size > 1.01 * target and highest > _T2T_MOST and not is_t2t:
        fewer = build_from(target, of, _T2T_MOST, highest)
        encoder = min(encoder, fewer, key=lambda e: abs(e.vocab_size - target))
    if not asked:
        fits = min(fits, encoder.vocab_size)
    elif encoder.vocab_size > fits:
        fits = min(fits, build_from(fits, once, _SEEN, _T2T_MOST).vocab_size)
    reason = f"{size:,} bytes with {words:,} distinct words are enough for {fits:,} subwords"
    if asked:
        reason = f"{asked:,} were requested. {reason}"
        if encoder.vocab_size < 0.9 * asked:
            reason += "; a larger vocabulary cannot be built from this text"
    _write(path, encoder, asked, reason, named)


def _write(
    path: pathlib.Path,
    encoder: SubwordTextEncoder,
    asked: int | None,
    reason: str,
    named: bool = False,
) -> None:
    """Writes a vocabulary and its record, in the place of one of another size."""
    if not named:
        for other in sized(path):
            other.unlink()
            _beside(other).unlink(missing_ok=True)
        stem, _, kind = path.name.rsplit(".", 2)
        path = path.with_name(f"{stem}.{encoder.vocab_size}.{kind}")
    whole = path.with_name(path.name + INCOMPLETE)
    encoder.store_to_file(whole)
    known = VocabularySize(sha256(whole), asked, encoder.vocab_size, reason)
    write_json(_beside(path), dataclasses.asdict(known))
    os.replace(whole, path)  # last: a kill before it leaves no vocabulary of which nothing is known


def check_extension(old: SubwordTextEncoder, size: int) -> None:
    """Refuses a size that leaves no room for new subwords.

    Raises:
        UserError: saying how many there are.
    """
    if size <= (n := old.vocab_size):
        raise UserError(
            f"Expected --vocab_size > {n:,} (vocabulary size of --vocab_from). Received: {size}."
        )


def extend(
    path: pathlib.Path,
    parent: pathlib.Path,
    size: int,
    counts: Mapping[str, int],
    max_subtoken_length: int | None,
) -> None:
    """Builds a vocabulary that extends another and writes it, with its record.

    The ids of the old subwords stay, so that a model keeps its rows. After them come the characters
    that the text has and the old ones spell by numbers, then the subwords of the text's own
    vocabulary that save most: how often each occurs, times the old subwords that it stands for but
    one.

    Args:
        path: its file, "vocab.NAME.SIZE.subwords".
        parent: the file of the other.
        size: the most subwords in all.
        counts: the tokens of the text and how often each occurs.
        max_subtoken_length: as `SubwordTextEncoder.build_to_target_size`'s.
    """
    old = SubwordTextEncoder(parent)
    occurring: Counter[str] = Counter()
    for token, count in counts.items():
        for character in set(token) - old.alphabet - {"\n"}:
            occurring[character] += count
    new = sorted((c for c in occurring if occurring[c] >= _SEEN), key=lambda c: (-occurring[c], c))
    pieces = [*old.all_subtoken_strings, *new[: size - old.vocab_size]]
    known, spelled = set(pieces), old.alphabet.union(pieces[old.vocab_size :])
    own = SubwordTextEncoder.build_to_target_size(
        _MORE * size, counts, _SEEN, _T2T_MOST, max_subtoken_length=max_subtoken_length
    )
    more = [p for p in own.all_subtoken_strings if p and p not in known and spelled >= set(p)]
    union = SubwordTextEncoder.from_subtokens([*pieces, *more])
    seen: Counter[int] = Counter()
    for token, count in counts.items():
        for i in union.encode_without_tokenizing(token):
            seen[i] += count
    saved = {
        piece: seen[i] * (len(old.cut(piece)) - 1)
        for i, piece in enumerate(more, len(pieces))
        if seen[i] >= _SEEN
    }
    best = sorted((p for p in saved if saved[p]), key=lambda p: (-saved[p], p))
    encoder = SubwordTextEncoder.from_subtokens([*pieces, *best][:size])
    reason = f"The first {old.vocab_size:,} subwords are those of {parent}"
    _write(path, encoder, size, reason)


def is_extended(path: pathlib.Path, parent: pathlib.Path, size: int) -> bool:
    """Returns whether `path` is the result of `extend` for `parent` and a size."""
    known = VocabularySize.read(path)
    if not known or known.asked != size:
        return False
    pieces = SubwordTextEncoder(parent).all_subtoken_strings
    return SubwordTextEncoder(path).all_subtoken_strings[: len(pieces)] == pieces


def _beside(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{path.name}.json")

"""tensor2tensor's subword encoder: any text as pieces of words from a vocabulary of fixed size.

Text is split into tokens (tokenizer.py), each token is spelled in the vocabulary's alphabet with
a `_` at its end (escaping.py), and the spelling is cut into subtokens from left to right, always
taking the longest one that fits. Nothing is lost: `decode(encode(text)) == text` for every text.

The ids and the vocabulary files equal tensor2tensor's.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from t2t_repro.errors import UserError
from t2t_repro.text import tokenizer
from t2t_repro.text.encoders import PieceEncoder, check_unique, read_vocabulary, write_vocabulary
from t2t_repro.text.escaping import (
    ESCAPE_CHARACTERS,
    escape_character,
    escape_token,
    unescape_token,
)

_CACHE_SIZE = 2**21  # characters of tokens, and ids of theirs, that are remembered: some 60 MB


class SubwordTextEncoder(PieceEncoder):
    """Text to subtoken ids and back. The first two subtokens spell the reserved <pad> and <EOS>.

    Attributes:
        all_subtoken_strings: the vocabulary in the order of its ids.
        alphabet: the characters that need no escape; the newline always has one.
    """

    def __init__(self, filename: str | os.PathLike[str]):
        """Reads a vocabulary file: one subtoken on each line, in quotes or without."""
        super().__init__()
        lines = read_vocabulary(filename)
        self._set_subtokens([_unquote(line) for line in lines], os.fspath(filename))

    @classmethod
    def from_subtokens(cls, subtokens: Iterable[str]) -> "SubwordTextEncoder":
        """Returns the encoder of a vocabulary in memory. An empty subtoken only takes up an id."""
        encoder = cls.__new__(cls)
        PieceEncoder.__init__(encoder)
        subtokens = list(subtokens)
        check_unique(subtokens, "the list of subtokens")
        encoder._set_subtokens(subtokens, "the list of subtokens")
        return encoder

    def _set_subtokens(self, subtokens: list[str], source: str) -> None:
        self.all_subtoken_strings = tuple(subtokens)
        self._ids = {subtoken: i for i, subtoken in enumerate(subtokens) if subtoken}
        missing = sorted(ESCAPE_CHARACTERS - self._ids.keys())
        if missing:
            raise UserError(
                "Expected a subword vocabulary with each of the characters "
                f"{''.join(sorted(ESCAPE_CHARACTERS))} as a subtoken: they spell characters that "
                f"have no subtoken. Received: {source}, without {' '.join(missing)}. Make the "
                "vocabulary with t2t-datagen."
            )
        self.alphabet = frozenset(c for subtoken in subtokens for c in subtoken)
        # The longest subtoken that begins with a character bounds the search for a match.
        self._longest: dict[str, int] = {}
        for subtoken in self._ids:
            first = subtoken[0]
            self._longest[first] = max(self._longest.get(first, 0), len(subtoken))
        self._cache = _Cache(self)

    def encode(self, text: str) -> list[int]:
        cache = self._cache
        return [i for token in tokenizer.encode(text) for i in cache[token]]

    def encode_without_tokenizing(self, token: str) -> list[int]:
        """Returns the ids of `token` as one token, whatever characters it has.

        For text that the caller has cut into tokens. `decode` of several of them puts a blank
        between two that begin with letters or digits, and nothing elsewhere.
        """
        return list(self._cache[token])

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Returns the text of `ids`. Ids outside the vocabulary decode to nothing."""
        spelled = "".join(self.decode_list(self._strip(ids, strip_extraneous)))
        tokens = [unescape_token(part) for part in spelled.split("_") if part]
        return tokenizer.decode([token for token in tokens if token])

    def resegment(self, ids: Iterable[int], rate: float, draw: Callable[[], float]) -> list[int]:
        """Returns ids of the same text, with tokens cut into other subtokens.

        MaxMatch-Dropout (Hiraoka 2022, https://arxiv.org/abs/2209.04126), which is BPE-dropout
        (Provilkov et al. 2020, https://arxiv.org/abs/1910.13267) for the longest match: from left
        to right, from the longest to the shortest, a subtoken that fits is skipped with the
        probability `rate`; one of a single character is taken. The reserved ids stay.

        Args:
            ids: what `encode` returned, and reserved ones.
            rate: in [0, 1).
            draw: returns numbers from [0, 1).
        """
        cut: list[int] = []
        pieces: list[str] = []
        for i in ids:
            if i < self.num_reserved_ids:
                cut += self.cut("".join(pieces), rate, draw)
                cut.append(i)
                pieces.clear()
                continue
            pieces.append(self.all_subtoken_strings[i])
            if pieces[-1].endswith("_"):  # the end of a token
                cut += self.cut("".join(pieces), rate, draw)
                pieces.clear()
        return cut + self.cut("".join(pieces), rate, draw)

    def store_to_file(
        self, filename: str | os.PathLike[str], add_single_quotes: bool = True
    ) -> None:
        """Writes a vocabulary file, complete or not at all.

        Without quotes, blanks at the end of a subtoken are lost when the file is read. It still
        encodes every text, but not always to the same ids.
        """
        quote = "'" if add_single_quotes else ""
        lines = (f"{quote}{subtoken}{quote}" for subtoken in self.all_subtoken_strings)
        write_vocabulary(filename, lines)

    @classmethod
    def build_from_generator(
        cls,
        generator: Iterable[str],
        target_size: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] | None = None,
    ) -> "SubwordTextEncoder":
        """Returns a vocabulary of about `target_size` subtokens, built from lines of text."""
        return cls.build_to_target_size(
            target_size,
            tokenizer.count_tokens(generator),
            min_val=1,
            max_val=1000,
            max_subtoken_length=max_subtoken_length,
            reserved_tokens=reserved_tokens,
        )

    @classmethod
    def build_to_target_size(
        cls,
        target_size: int,
        token_counts: Mapping[str, int],
        min_val: int,
        max_val: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] | None = None,
        num_iterations: int = 4,
    ) -> "SubwordTextEncoder":
        """Returns a vocabulary of about `target_size` subtokens, built from the counts of tokens.

        A subtoken is kept when it occurs often enough; how often is found by bisection.

        Args:
          token_counts: tokens, as tokenizer.encode cuts them, and how often each occurs.
          min_val: the lowest minimum count to try.
          max_val: the highest minimum count to try.
          max_subtoken_length: subtokens have fewer characters than this (as in tensor2tensor).
            Set it for languages without blanks, whose tokens are whole clauses: time and memory
            grow with the square of a token's length otherwise.
          reserved_tokens: begins with <pad> and <EOS>; tokens to be given the first ids.
          num_iterations: how many times the text is cut anew with the subtokens found so far.
        """
        from t2t_repro.text import builder

        return cls.from_subtokens(
            builder.build_to_target_size(
                target_size,
                token_counts,
                min_val,
                max_val,
                max_subtoken_length=max_subtoken_length,
                reserved_tokens=reserved_tokens,
                num_iterations=num_iterations,
            )
        )

    def cut(
        self, escaped: str, rate: float = 0, draw: Callable[[], float] = lambda: 1
    ) -> list[int]:
        """Returns the ids of an escaped token: the longest subtokens, from left to right.

        `rate` and `draw` are those of `resegment`.
        """
        ids_of, longest = self._ids, self._longest
        ids: list[int] = []
        start, length = 0, len(escaped)
        while start < length:
            end = min(length, start + longest.get(escaped[start], 0))
            taken = 0
            while end > start:
                if escaped[start:end] in ids_of:
                    taken = taken or end  # by default the longest, as where no single one is there
                    if not rate or end - start == 1 or draw() >= rate:
                        taken = end
                        break
                end -= 1
            if taken:
                ids.append(ids_of[escaped[start:taken]])
                start = taken
            else:
                # In a file that tensor2tensor did not write, or wrote without quotes, a character
                # may occur only within longer subtokens. tensor2tensor stops here.
                ids += self.cut(escape_character(escaped[start]))
                start += 1
        return ids


class _Cache(dict[str, list[int]]):
    """The ids of the tokens seen last; looks those of another one up."""

    def __init__(self, encoder: SubwordTextEncoder):
        super().__init__()
        self._encoder, self._size = encoder, 0

    def __missing__(self, token: str) -> list[int]:
        encoder = self._encoder
        ids = encoder.cut(escape_token(token, encoder.alphabet))
        size = len(token) + len(ids)
        if self._size + size > _CACHE_SIZE:
            self.clear()
            self._size = 0
        if size <= _CACHE_SIZE:
            self[token] = ids
            self._size += size
        return ids


def _unquote(line: str) -> str:
    """Returns the subtoken on a line of a vocabulary file; some files put them in quotes."""
    line = line.rstrip()
    if line[:1] == line[-1:] and line[:1] in ("'", '"'):
        return line[1:-1]
    return line

"""The base of all encoders, and the simple ones: numbers, bytes, and tokens of a fixed list.

Every encoder keeps id 0 for padding and id 1 for the end of a sequence. `encode` never appends
the end, and `decode` writes the two out as <pad> and <EOS> unless `strip_extraneous` cuts them off.
"""

import os
from collections.abc import Callable, Iterable

from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw

PAD = "<pad>"
EOS = "<EOS>"
RESERVED_TOKENS = (PAD, EOS)
NUM_RESERVED_TOKENS = len(RESERVED_TOKENS)
PAD_ID, EOS_ID = 0, 1


class TextEncoder:
    """Ids written out as numbers: "0 3 1" is [2, 5, 3]. What the algorithmic problems use."""

    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS):
        self.num_reserved_ids = num_reserved_ids

    @property
    def vocab_size(self) -> int:
        """Returns how many ids there are. Numbers have no bound, so the problem must say it."""
        raise NotImplementedError(f"{type(self).__name__}: define vocab_size in a subclass.")

    def encode(self, text: str) -> list[int]:
        return [int(word) + self.num_reserved_ids for word in text.split()]

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        return " ".join(self.decode_list(self._strip(ids, strip_extraneous)))

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Returns one string for each id, to show what the model sees."""
        return [
            RESERVED_TOKENS[i] if 0 <= i < self.num_reserved_ids else str(i - self.num_reserved_ids)
            for i in ids
        ]

    def _strip(self, ids: Iterable[int], strip_extraneous: bool) -> list[int]:
        """Cuts the reserved ids off the end, if asked to."""
        ids = list(ids)
        while strip_extraneous and ids and 0 <= ids[-1] < self.num_reserved_ids:
            ids.pop()
        return ids


class PieceEncoder(TextEncoder):
    """Pieces of words. `all_subtoken_strings` is the vocabulary in the order of its ids."""

    all_subtoken_strings: tuple[str, ...]

    @property
    def vocab_size(self) -> int:
        return len(self.all_subtoken_strings)

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Returns a piece for each id, "" for one outside the vocabulary."""
        pieces = self.all_subtoken_strings
        return [pieces[i] if 0 <= i < len(pieces) else "" for i in ids]


class ByteTextEncoder(TextEncoder):
    """The bytes of the UTF-8 text."""

    @property
    def vocab_size(self) -> int:
        return 2**8 + self.num_reserved_ids

    def encode(self, text: str) -> list[int]:
        return [byte + self.num_reserved_ids for byte in text.encode("utf-8")]

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Returns the text; bytes that are not UTF-8 become U+FFFD."""
        pieces = [self._bytes(i) for i in self._strip(ids, strip_extraneous)]
        return b"".join(pieces).decode("utf-8", "replace")

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        return [self._bytes(i).decode("ascii", "backslashreplace") for i in ids]

    def _bytes(self, i: int) -> bytes:
        if 0 <= i < self.num_reserved_ids:
            return RESERVED_TOKENS[i].encode("ascii")
        return bytes([i - self.num_reserved_ids])


class ShiftedEncoder:
    """Another library's tokenizer, with its ids moved behind 0, which pads, and 1, which ends.

    Args:
        encode: makes ids of a text, from 0 on, without an end of its own.
        decode: makes a text of a list of such ids.
        vocab_size: how many of them there are.
    """

    def __init__(self, encode: Callable, decode: Callable, vocab_size: int):
        self.encode = lambda text: [int(i) + NUM_RESERVED_TOKENS for i in encode(text)]
        self.decode = lambda ids: decode([int(i) - NUM_RESERVED_TOKENS for i in ids if i > EOS_ID])
        self.vocab_size = vocab_size + NUM_RESERVED_TOKENS


class TokenTextEncoder(TextEncoder):
    """Tokens between blanks, numbered by their place in a list or in a file of one per line.

    A file holds the reserved tokens itself, on its first two lines. To a list they are added.
    """

    def __init__(
        self,
        vocab_filename: str | os.PathLike[str] | None,
        reverse: bool = False,
        vocab_list: Iterable[str] | None = None,
        replace_oov: str | None = None,
        num_reserved_ids: int = NUM_RESERVED_TOKENS,
    ):
        """
        Args:
          vocab_filename: the file; None when `vocab_list` is given.
          reverse: write sequences from right to left.
          replace_oov: the token to encode instead of one that is not in the vocabulary.
        """
        super().__init__(num_reserved_ids)
        self._reverse = reverse
        self._replace_oov = replace_oov
        if vocab_filename is not None:
            self._tokens = [line.strip() for line in read_vocabulary(vocab_filename)]
        else:
            tokens = [token for token in vocab_list or () if token not in RESERVED_TOKENS]
            check_unique(tokens, "vocab_list")
            self._tokens = [*RESERVED_TOKENS, *tokens]
        self._ids = {token: i for i, token in enumerate(self._tokens)}

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        tokens = text.split()
        if self._replace_oov is not None:
            tokens = [t if t in self._ids else self._replace_oov for t in tokens]
        ids = [self._ids[token] for token in tokens]
        return ids[::-1] if self._reverse else ids

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Returns a token for each id, and ID_n for an id n that the vocabulary does not have."""
        size = len(self._tokens)
        tokens = [self._tokens[i] if 0 <= i < size else f"ID_{i}" for i in ids]
        return tokens[::-1] if self._reverse else tokens

    def store_to_file(self, filename: str | os.PathLike[str]) -> None:
        write_vocabulary(filename, self._tokens)


def read_vocabulary(path: str | os.PathLike[str]) -> list[str]:
    """Returns the lines of a vocabulary file, no two of which may be the same."""
    lines = list(raw.lines(path))
    check_unique(lines, os.fspath(path))
    return lines


def write_vocabulary(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Writes a line for each entry. The file appears when it is complete."""
    with writing(path) as file:
        file.writelines(line + "\n" for line in lines)


def check_unique(entries: Iterable[str], source: str) -> None:
    """Refuses a vocabulary with two ids for one string. Empty entries only take up ids."""
    first: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        if entry and entry in first:
            raise UserError(
                f"Expected each vocabulary entry once. Received: {entry!r} on lines {first[entry]} "
                f"and {number} of {source}. Make the vocabulary again with t2t-datagen. If a model "
                f"was trained with it, make line {first[entry]} empty instead (tensor2tensor uses "
                "the later line). Do not delete the line: this would shift all later ids."
            )
        first.setdefault(entry, number)

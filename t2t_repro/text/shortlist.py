"""A lexical shortlist: which target tokens may stand for a source token in a translation.

Its file is the vmap.txt that CTranslate2 reads: lines "source TAB targets", blanks between targets,
under the names of token_names.py. In the last, behind the empty source, stand those that are always
candidates: without it a file is not whole.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
from typing import Any

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import EOS_ID, PAD_ID
from t2t_repro.text.token_names import tokens_of

_MAKE = "t2t-shortlist writes one for a run and its vocabulary."


@dataclasses.dataclass(frozen=True, eq=False)
class Shortlist:
    """The candidates of each source token, by ids.

    Attributes:
        begins: int64 (source ids + 1,): where the candidates of an id begin in `targets`.
        targets: int32: the candidates, those of an id in order.
        always: int32: what is a candidate in every sentence; the end is one of them.
        size: how many target ids there are.
    """

    begins: np.ndarray
    targets: np.ndarray
    always: np.ndarray
    size: int

    @classmethod
    def of(cls, candidates: list[list[int]], always: list[int], size: int) -> "Shortlist":
        """Returns one of lists, the first for source id 0; the end is added to `always`."""
        rows = [sorted(set(row)) for row in candidates]
        begins = np.cumsum([0, *map(len, rows)])
        targets = np.array([i for row in rows for i in row], "int32")
        return cls(begins, targets, np.array(sorted({*always, EOS_ID}), "int32"), size)

    @property
    def digest(self) -> str:
        """Two shortlists of the same digest are the same."""
        arrays = self.begins.tobytes(), self.targets.tobytes(), self.always.tobytes()
        return hashlib.sha256(b"|".join(arrays)).hexdigest()

    def among(self, inputs: np.ndarray) -> np.ndarray:
        """Returns bool (B, target ids): what is a candidate in sentences int32 (B, S)."""
        found = np.zeros((len(inputs), self.size), bool)
        rows, columns = np.nonzero(inputs)
        tokens = inputs[rows, columns]
        counts = np.diff(self.begins)[tokens]
        before = np.cumsum(counts) - counts
        at = np.repeat(self.begins[tokens] - before, counts) + np.arange(counts.sum())
        found[np.repeat(rows, counts), self.targets[at]] = True
        found[:, self.always] = True
        return found

    def text(self, encoders: dict[str, Any]) -> str:
        """Returns the file of it, for {"inputs": TextEncoder, "targets": TextEncoder}."""
        sources, targets = names(encoders)
        lines = []
        for source, begin, end in zip(sources, self.begins[:-1], self.begins[1:], strict=True):
            if begin < end:
                lines.append(f"{source}\t" + " ".join(targets[i] for i in self.targets[begin:end]))
        always = " ".join(targets[i] for i in self.always)
        return "\n".join([*lines, f"\t{always}\n"])


def read(path: str | os.PathLike, encoders: dict[str, Any]) -> Shortlist:
    """Returns the shortlist of a file, which a process parses once while it stays as it is.

    Args:
        path: the file.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}: whose names it must have.

    Raises:
        UserError: if there is no such file, or it is none for this vocabulary.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"Expected a file with a shortlist. Received: {os.fspath(path)!r}, which is none. "
            f"{_MAKE}"
        )
    status = os.stat(path)
    both = encoders["inputs"], encoders["targets"]
    return _unchanged(os.fspath(path), status.st_size, status.st_mtime_ns, *both)


@functools.lru_cache(maxsize=4)
def _unchanged(path: str, size: int, modified: int, inputs: Any, targets: Any) -> Shortlist:
    del size, modified  # part of the cache's key
    both = names({"inputs": inputs, "targets": targets})
    numbers = tuple({name: i for i, name in enumerate(side)} for side in both)
    candidates: list[list[int]] = [[] for _ in both[0]]
    always: list[int] = []
    try:
        lines = pathlib.Path(path).read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"Expected a file with a shortlist, in UTF-8. Received: {path} ({error}). {_MAKE}"
        ) from None
    if len(lines) < 2 or lines[-1] or not lines[-2].startswith("\t"):
        raise UserError(
            f"Expected {path} to end with the line of those that are always candidates: a tab, and "
            f"subwords. Received: {''.join(lines[-2:])[-60:]!r}. The file is not whole, or is no "
            f"shortlist. {_MAKE}"
        )
    for number, line in enumerate(lines[:-1], 1):
        source, tab, others = line.partition("\t")
        try:
            if not tab:
                raise KeyError(line[:60])
            row = candidates[numbers[0][source]] if source else always
            row += [numbers[1][name] for name in others.split(" ")]
        except KeyError as error:
            raise UserError(
                f"Expected in line {number} of {path} a subword of the vocabulary, a tab, and "
                f"subwords that may translate it. Received: {error.args[0]!r}. {_MAKE}"
            ) from None
    # t2t-shortlist has what both sides name, also padding, which nobody else counts.
    lacking = [name for name, row in zip(both[0], candidates, strict=True) if not row]
    lacking = [name for name in lacking if name in numbers[1]]
    if candidates[PAD_ID] and lacking:
        raise UserError(
            f"Expected in {path} a line for each subword that both sides of the vocabulary have. "
            f"Received: none for {len(lacking)} of them, such as {lacking[0]!r}: it is of a "
            f"smaller vocabulary. {_MAKE}"
        )
    return Shortlist.of(candidates, always, len(both[1]))


def names(encoders: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Returns the names of the source ids and of the target ids.

    Raises:
        UserError: if a side has no vocabulary.
    """
    try:
        sizes = [encoders[side].vocab_size for side in ("inputs", "targets")]
    except NotImplementedError:
        raise UserError(
            "Expected a problem with a vocabulary, to which a shortlist belongs. Received: one of "
            "numbers. Leave the shortlist out."
        ) from None
    return tokens_of(encoders["inputs"], sizes[0]), tokens_of(encoders["targets"], sizes[1])

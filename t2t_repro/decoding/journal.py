"""Output files that grow piece by piece, and that a killed program goes on with.

While they grow their names end in ".incomplete". Beside the first lies a journal, a small JSON
file: what job they belong to, how many lines of it are done, and how many bytes each file had then.
Bytes are on the disk before the journal counts them, so that a kill at any moment leaves a journal
that is true; whatever lies behind its counts is cut off.
"""

import contextlib
import dataclasses
import errno
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TextIO

from t2t_repro import schema
from t2t_repro.files import INCOMPLETE, behind_links, is_stream, naming, writing

JOURNAL = INCOMPLETE + ".json"  # behind the name of the first file


@contextlib.contextmanager
def growing(
    paths: Sequence[str | os.PathLike], job: dict[str, Any], report: Callable[[str], None]
) -> Iterator["GrowingFiles | Streams"]:
    """Files that get their names when the block ends; if it fails, the next call goes on.

    Where one of them is a pipe or a device, nothing tells what has passed through it, and the next
    call begins anew.

    Args:
        paths: the files. Their folders are made where there are none.
        job: all that decides what the files will hold, as JSON can say it. What an earlier call
            has left counts only if it did the same job.
        report: is told why remains do not count.
    """
    with contextlib.ExitStack() as stack:
        if any(map(is_stream, paths)):
            yield Streams([stack.enter_context(writing(path)) for path in paths])
            return
        files = GrowingFiles(paths, job)
        files.open(stack, report)
        try:
            yield files
        except BaseException:
            if not files.lines:
                files.remove()
            raise
        files.finish()


class Streams:
    """What `growing` yields where it cannot go on: `lines` are done before, which are none."""

    lines: int = 0
    state: Any = None

    def __init__(self, files: Sequence[TextIO]):
        self._files = files

    def add(self, texts: Sequence[str], lines: int, state: Any = None) -> None:
        """Writes its text to each file."""
        for file, text in zip(self._files, texts, strict=True):
            file.write(text)
            file.flush()

    def remove(self) -> None:
        """What a stream was given cannot be taken back."""


class GrowingFiles:
    """What `growing` yields: `lines` are done; `state` is what was given with the last of them."""

    def __init__(self, paths: Sequence[str | os.PathLike], job: dict[str, Any]):
        self.paths = [behind_links(path) for path in paths]
        self.unfinished = [path.with_name(path.name + INCOMPLETE) for path in self.paths]
        self.journal = self.paths[0].with_name(self.paths[0].name + JOURNAL)
        self.lines, self.state = 0, None  # type: int, Any
        self._job: dict[str, Any] = json.loads(json.dumps(job))  # tuples become lists
        self._sizes = [0] * len(self.paths)
        self._whole = False
        self._files: list[BinaryIO] = []

    def open(self, stack: contextlib.ExitStack, report: Callable[[str], None]) -> None:
        """Opens the files behind what is done; `stack` closes them."""
        for path in self.paths:
            if path.is_dir():  # found before the work is done, not after it
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
            path.parent.mkdir(parents=True, exist_ok=True)
        reason = self._read_journal()
        if reason:
            report(f"{self.unfinished[0]} is of no use, {reason}. Beginning anew.")
        if self._whole:
            return
        self._files = [stack.enter_context(_opened(path)) for path in self.unfinished]
        for file, size in zip(self._files, self._sizes, strict=True):
            file.truncate(size)
        self._write_journal()

    def add(self, texts: Sequence[str], lines: int, state: Any = None) -> None:
        """Appends its text to each file; from then on a kill loses none of it.

        Args:
            texts: one for each file.
            lines: how many lines of the source were done for them.
            state: what the job must know to go on, as JSON can say it.
        """
        for path, file, text in zip(self.paths, self._files, texts, strict=True):
            with naming(path):
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
        self._sizes = [file.tell() for file in self._files]
        self.lines, self.state = self.lines + lines, state
        self._write_journal()

    def finish(self) -> None:
        """Gives the files their names. The journal says before that they are whole."""
        self._whole = True
        self._write_journal()
        for unfinished, path in zip(self.unfinished, self.paths, strict=True):
            if unfinished.exists():  # if not, a run that was killed here has renamed it
                os.replace(unfinished, path)
        self.journal.unlink(missing_ok=True)

    def remove(self) -> None:
        """Leaves nothing behind."""
        for path in (*self.unfinished, self.journal):
            path.unlink(missing_ok=True)

    def _write_journal(self) -> None:
        told = _Told(self._job, self.lines, self._sizes, self.state, self._whole)
        with writing(self.journal) as file:
            json.dump(dataclasses.asdict(told), file, indent=1)
            file.flush()
            os.fsync(file.fileno())

    def _read_journal(self) -> str:
        """Takes over what the journal says; returns why it does not count, or ""."""
        if not self.journal.exists():
            return "it has no journal" if max(map(_size, self.unfinished)) > 0 else ""
        try:
            told = schema.read(self.journal, _Told)
            job, sizes, whole = told.job, told.bytes, told.whole
            names = {name for name in {**job, **self._job} if job.get(name) != self._job.get(name)}
            if names:
                return f"it was made with another {', '.join(sorted(names))}"
            pairs = zip(self.unfinished, self.paths, sizes, strict=True)
            if not all(_size(a) >= n or (whole and _size(b) == n) for a, b, n in pairs):
                return "it has been cut"
            self.lines, self.state = told.lines, told.state
        except ValueError:
            return f"{self.journal.name} cannot be read"
        self._sizes, self._whole = sizes, whole
        return ""


@dataclasses.dataclass
class _Told:
    """What the journal holds."""

    job: dict[str, Any]
    lines: int
    bytes: list[int]
    state: Any
    whole: bool


def _size(path: pathlib.Path) -> int:
    return path.stat().st_size if path.exists() else -1


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[BinaryIO]:
    """Opens a file; on a full disk closing fails as the writing did, and what is raised is this."""
    with naming(path), open(path, "ab") as file:
        yield file

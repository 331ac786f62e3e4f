"""The files of a decoding: their names, what is read of them, and how they grow.

While a file grows its name ends in ".incomplete". Beside the first lies a small JSON file: what
decoding they belong to, how many lines are done, and how many bytes each file had then. A killed
decoding goes on behind these.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, is_stream, naming, resolve_links, write_text_atomic, writing
from t2t_repro.run_directory import RunConfig
from t2t_repro.text import raw


def output_name(base: str, config: RunConfig, settings: DecodeHParams) -> str:
    """Returns the name that tensor2tensor gives to a run's translations of `base`."""
    ending = f"beam{settings.beam_size}.alpha{settings.alpha}.decodes"
    of_run = f"{config.hparams.model}.{config.hparams_set}.{config.problem}"
    return base if ending in base else f"{base}.{of_run}.{ending}"


def sides(target: str | os.PathLike) -> dict[str, str]:
    """Returns {"inputs": path, "targets": path}: what `translate_examples` writes beside a file."""
    if is_stream(target):
        return {}
    base = os.fspath(target).rpartition(".")[0] or os.fspath(target)
    return {name: f"{base}.{name}" for name in ("inputs", "targets")}


def best_translations(
    target: str | os.PathLike, settings: DecodeHParams, *, of_examples: bool = False
) -> Iterator[str]:
    """Yields the best translation of each sentence: no other beams, no scores, no alignments.

    Args:
        target: what `translate_file` has written as text.
        settings: how.
        of_examples: `translate_examples` has written it.
    """
    if of_examples:
        for line in islice(raw.lines(target), 0, None, settings.top_beams):
            yield line.rpartition("\t")[0] if settings.shows_scores else line
        return
    columns = settings.top_beams > 1 or settings.shows_scores or settings.return_alignments
    for line in raw.lines(target):
        yield line.partition("\t")[0] if columns else line


def count_and_digest(path: str | os.PathLike, most: int = -1) -> tuple[int, str]:
    """Returns how many lines a file has, and their SHA-256; reads it once while it stays as it is.

    Args:
        path: UTF-8 text, plain or `.gz`.
        most: look at so many lines; -1: at all.

    Raises:
        UserError: if there is no line, or one is not UTF-8.
    """
    status = os.stat(path)
    unchanged = status.st_ino, status.st_size, status.st_mtime_ns
    return _count_and_digest(os.fspath(path), most, unchanged)


@functools.lru_cache(maxsize=8)
def _count_and_digest(path: str, most: int, unchanged: tuple[int, ...]) -> tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    for line in islice(raw.lines(path), most if most >= 0 else None):
        digest.update(line.encode() + b"\n")
        count += 1
    if not count and most:
        raise UserError(f"Expected sentences in {path}. Received: an empty file.")
    return count, digest.hexdigest()


class Growing:
    """What `growing` yields: `lines` are done, and `state` was given with the last of them."""

    def __init__(self, files: dict[pathlib.Path, BinaryIO], record: pathlib.Path | None, told: Any):
        self.lines, self.state = told["lines"], told["state"]
        self._files, self._record, self._job = files, record, told["job"]

    def add(self, texts: Sequence[str], lines: int, state: Any = None) -> None:
        """Appends its text to each file; from then on a kill loses none of it.

        Args:
            texts: one for each file.
            lines: how many lines of the source were done for them.
            state: what the decoding must know to go on, as JSON can say it.
        """
        for (path, file), text in zip(self._files.items(), texts, strict=True):
            with naming(path):
                file.write(text.encode())
                file.flush()
                if self._record:
                    os.fsync(file.fileno())
        self.lines, self.state = self.lines + lines, state
        if self._record:
            sizes = [file.tell() for file in self._files.values()]
            told = {"job": self._job, "lines": self.lines, "bytes": sizes, "state": state}
            write_text_atomic(self._record, json.dumps(told, indent=1))


@contextlib.contextmanager
def growing(
    paths: Sequence[str | os.PathLike], job: dict[str, Any], report: Callable[[str], None]
) -> Iterator[Growing]:
    """Files that get their names when the block ends; if it fails, the next call goes on.

    Where one of them is a pipe or a device, nothing tells what has passed through it, and the next
    call begins anew.

    Args:
        paths: the files. Their folders are made where there are none.
        job: all that decides what the files will hold, as JSON has it. What an earlier call has
            left counts only if it did the same job.
        report: is told if it does not count.
    """
    told = {"job": job, "lines": 0, "bytes": [0] * len(paths), "state": None}
    with contextlib.ExitStack() as stack:
        if any(map(is_stream, paths)):
            files = {pathlib.Path(p): stack.enter_context(writing(p, "wb")) for p in paths}
            yield Growing(files, None, told)
            return
        whole = [resolve_links(path) for path in paths]
        for path in filter(pathlib.Path.is_dir, whole):  # found before the work is done
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        unfinished = [path.with_name(path.name + INCOMPLETE) for path in whole]
        record = unfinished[0].with_name(unfinished[0].name + ".json")
        if record.exists():
            told = _begun(record, job, unfinished) or told
            if not told["lines"]:
                report(f"{unfinished[0]} is not of this decoding. Beginning anew.")
        files = {}
        for path, size in zip(unfinished, told["bytes"], strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(naming(path))  # on a full disk closing fails, too
            files[path] = stack.enter_context(open(path, "ab"))
            files[path].truncate(size)
        found = Growing(files, record, told)
        try:
            yield found
        except BaseException:
            for path in () if found.lines else (*unfinished, record):
                path.unlink(missing_ok=True)
            raise
    for path, name in zip(unfinished, whole, strict=True):
        os.replace(path, name)
    record.unlink(missing_ok=True)


def _begun(record: pathlib.Path, job: dict, unfinished: list[pathlib.Path]) -> dict | None:
    """Returns what an earlier call of the same job has recorded, if its files are there."""
    try:
        told = json.loads(record.read_text())
        sizes = zip(unfinished, told["bytes"], strict=True)
        there = all(path.stat().st_size >= size for path, size in sizes)
        return told if there and told["job"] == job else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

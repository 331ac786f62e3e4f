"""Text files: lines in UTF-8, plain or .gz, two files side by side."""

import gzip
import os
import pathlib
import zlib
from collections.abc import Callable, Iterable, Iterator

from t2t_repro.errors import UserError

_BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def find(folder: str | os.PathLike, name: str) -> pathlib.Path | None:
    """Returns `name` or `name`.gz in `folder`, whichever is there; the plain file wins."""
    paths = (pathlib.Path(folder).expanduser() / (name + suffix) for suffix in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def required(folder: str | os.PathLike, name: str) -> pathlib.Path:
    """Returns what `find` finds, or raises a UserError that says what is missing and where."""
    path = find(folder, name)
    if path is None:
        raise UserError(
            f"Expected {name} (or {name}.gz) in {os.fspath(folder)!r}. Received: no such file. "
            "Put it there, or name its folder by --tmp_dir."
        )
    return path


def raw_lines(path: str | os.PathLike) -> Iterator[bytes]:
    r"""Yields a file's lines with their ends, without a leading byte order mark.

    A line ends at "\n" alone, so that line numbers agree with `sed` and `wc -l`: the other
    characters that Unicode calls line separators occur inside real sentences.
    """
    path = pathlib.Path(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            for number, line in enumerate(stream):
                yield line.removeprefix(_BYTE_ORDER_MARK) if number == 0 else line
    except _BROKEN_GZIP as error:
        raise UserError(
            f"Expected {path} to be a whole gzip file. Received: {error}. Get it again."
        ) from error


def lines(path: str | os.PathLike) -> Iterator[str]:
    r"""Yields a file's lines without their ends, "\n" or "\r\n".

    Raises:
        UserError: on a line that is not UTF-8, by number.
    """
    for number, line in enumerate(raw_lines(path), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"Expected UTF-8 text in {os.fspath(path)}. Received: byte "
                f"0x{line[error.start]:02x} at line {number}, column {error.start + 1}. Convert "
                "it: iconv -f ISO-8859-1 -t UTF-8."
            ) from error
        yield text.removesuffix("\n").removesuffix("\r")


def stripped_lines(
    path: str | os.PathLike,
    *,
    may_be_blank: bool = False,
    read: Callable[[str | os.PathLike], Iterable[str]] = lines,
) -> Iterator[str]:
    """Yields a file's lines as T2T reads samples: stripped. Empty lines are kept.

    Args:
        path: the file.
        may_be_blank: accept empty lines alone, which is what a model writes that has not learned.
        read: yields the samples of the file.

    Raises:
        UserError: as `lines` does, or if the file has no line, or empty ones alone.
    """
    count, any_text = 0, False
    for line in read(path):
        text = line.strip()
        count, any_text = count + 1, any_text or bool(text)
        yield text
    if not any_text and not (may_be_blank and count):
        received = f"{count} empty lines" if count else "an empty file"
        raise UserError(f"Expected text in {os.fspath(path)}. Received: {received}.")


def parallel_lines(
    inputs_path: str | os.PathLike,
    targets_path: str | os.PathLike,
    *,
    may_be_blank: bool = False,
    read_inputs: Callable[[str | os.PathLike], Iterable[str]] = lines,
) -> Iterator[dict[str, str]]:
    """Yields {"inputs": line, "targets": line} of two files of equally many lines.

    An empty line is a sample like any other, as in T2T: nothing but the end of sentence.

    Args:
        inputs_path, targets_path: the files.
        may_be_blank: see `stripped_lines`.
        read_inputs: yields the samples of `inputs_path`.

    Raises:
        UserError: if the counts differ: both counts, and the first line without a partner; or as
            `stripped_lines` does.
    """
    sources = stripped_lines(inputs_path, may_be_blank=may_be_blank, read=read_inputs)
    targets = stripped_lines(targets_path, may_be_blank=may_be_blank)
    count = 0
    while True:
        source, target = next(sources, None), next(targets, None)
        if source is None or target is None:
            break
        count += 1
        yield {"inputs": source, "targets": target}
    if source is None and target is None:
        return
    longer, rest = (inputs_path, sources) if target is None else (targets_path, targets)
    shorter = targets_path if target is None else inputs_path
    total = count + 1 + sum(1 for _ in rest)
    first = (source if target is None else target) or ""
    raise UserError(
        f"Expected as many lines in {os.fspath(inputs_path)} as in {os.fspath(targets_path)}. "
        f"Received: {os.fspath(longer)} has {total} lines, {os.fspath(shorter)} has {count}. The "
        f"first line without a partner is line {count + 1} of {os.fspath(longer)}: {first[:60]!r}."
    )


def count_parallel_lines(inputs_path: str | os.PathLike, targets_path: str | os.PathLike) -> int:
    """Returns the number of pairs; reads both files to the end and raises as `parallel_lines`."""
    return sum(1 for _ in parallel_lines(inputs_path, targets_path))

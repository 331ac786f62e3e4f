"""Text files: lines in UTF-8, plain or .gz, two files side by side."""

import codecs
import contextlib
import functools
import gzip
import itertools
import os
import pathlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from t2t_repro.errors import UserError

_BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
_BREAKS = re.compile(r"[\r\n]+")
_SEGMENT = re.compile(r"^<seg[^>]*>(.*)</seg>$")
_MARKUP = re.compile(r"\s*<(\?xml|!doctype|(src|ref|tst)set|mteval|seg|tmx|xliff)\b", re.IGNORECASE)
FILE_BYTE_BUDGET = 1e6  # of `sample_lines`


def find(folder: str | os.PathLike, name: str) -> pathlib.Path | None:
    """Returns `name` or `name`.gz in `folder`, whichever is there; the plain file wins."""
    paths = (pathlib.Path(folder).expanduser() / (name + suffix) for suffix in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def find_all(folder: str | os.PathLike, names: Iterable[str]) -> list[str]:
    """Returns what `find` finds of several names."""
    paths = (find(folder, name) for name in names)
    return [os.fspath(path) for path in paths if path]


def required(folder: str | os.PathLike, name: str) -> pathlib.Path:
    """Returns what `find` finds, or raises a UserError that says what is missing and where."""
    path = find(folder, name)
    if path is None:
        raise UserError(
            f"Expected {name} (or {name}.gz) in {os.fspath(folder)!r}. Received: no such file. Put "
            "the file there, or give its folder with --tmp_dir."
        )
    return path


@contextlib.contextmanager
def opened(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Opens a file, plain or .gz, to read its bytes.

    Raises:
        UserError: on a gzip file that is broken, also while it is read.
    """
    open_file: Callable[..., Any] = gzip.open if os.fspath(path).endswith(".gz") else open
    try:
        with open_file(path, "rb") as stream:
            yield stream
    except _BROKEN_GZIP as error:
        raise UserError(
            f"Expected {os.fspath(path)} to be intact gzip. Received: {error}. Get the file again."
        ) from error


def raw_lines(path: str | os.PathLike) -> Iterator[bytes]:
    r"""Yields a file's lines with their ends, without a leading byte order mark.

    A line ends at "\n" alone, so that line numbers agree with `sed` and `wc -l`: the other
    characters that Unicode calls line separators occur inside real sentences.

    Raises:
        UserError: on gzip that is broken.
    """
    with opened(path) as stream:
        yield from (line.removeprefix(codecs.BOM_UTF8) for line in itertools.islice(stream, 1))
        yield from stream


def lines(path: str | os.PathLike) -> Iterator[str]:
    r"""Yields a file's lines without their ends, "\n" or "\r\n".

    Of WMT's SGML (.sgm, .sgml) they are the texts of its <seg>, as they stand; tensor2tensor's
    compile_data and sacreBLEU read them so too.

    Raises:
        UserError: on a line that is not UTF-8, by number; on a file that begins as markup, or as
            UTF-16 without its mark.
    """
    is_sgml = os.fspath(path).lower().removesuffix(".gz").endswith((".sgm", ".sgml"))
    for number, line in enumerate(raw_lines(path), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            # What Windows adds to ISO-8859-1, such as curly quotes, are control characters there.
            raise UserError(
                f"Expected UTF-8 text in {os.fspath(path)}. Received: byte "
                f"0x{line[error.start]:02x} at line {number}, column {error.start + 1}. If the "
                "file is an archive, unpack it. Otherwise convert its encoding: iconv -f "
                "WINDOWS-1252 -t UTF-8, or -f UTF-16 if the byte is in line 1."
            ) from error
        if is_sgml:
            yield from _SEGMENT.findall(text.strip())
        elif number == 1 and (_MARKUP.match(text) or 4 * text.count("\0") > len(text)):
            raise UserError(
                f"Expected plain text in {os.fspath(path)}. Received: {text[:60]!r}. SGML: name "
                "the file .sgm. XML: extract its text. UTF-16: iconv -f UTF-16LE -t UTF-8."
            )
        else:
            yield text.removesuffix("\n").removesuffix("\r")


def joined(text: str) -> str:
    """Returns the lines of a text as one, with one space in the place of breaks and their blanks.

    Not by one pattern of blanks and breaks, whose search goes back at each blank.
    """
    return " ".join(filter(None, map(str.strip, _BREAKS.split(text))))


def stripped_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yields a file's lines as T2T reads samples: stripped. Empty lines are kept.

    Raises:
        UserError: as `lines` does, or if the file has no line, or empty ones alone.
    """
    return (line.strip() for line in _checked(path))


def _checked(
    path: str | os.PathLike,
    may_be_blank: bool = False,
    read: Callable[[str | os.PathLike], Iterable[str]] = lines,
) -> Iterator[str]:
    """Yields a file's lines unchanged; `may_be_blank`: all may be empty."""
    count, any_text = 0, False
    for line in read(path):
        count, any_text = count + 1, any_text or not (not line or line.isspace())
        yield line
    if not any_text and not (may_be_blank and count):
        received = f"{count} empty lines" if count else "an empty file"
        raise UserError(f"Expected text in {os.fspath(path)}. Received: {received}.")


def parallel_lines(
    inputs_path: str | os.PathLike,
    targets_path: str | os.PathLike,
    *,
    may_be_blank: bool = False,
    strip: bool = True,
    read_inputs: Callable[[str | os.PathLike], Iterable[str]] = lines,
) -> Iterator[dict[str, str]]:
    """Yields {"inputs": line, "targets": line} of two files of equally many lines.

    An empty line is a sample like any other, as in T2T: nothing but the end of sentence.

    Args:
        inputs_path, targets_path: the files.
        may_be_blank: accept only empty lines, as an untrained model may write.
        strip: remove the blanks at both ends of a line.
        read_inputs: yields the samples of `inputs_path`.

    Raises:
        UserError: if the counts differ: both counts, and the first line without a partner; or as
            `stripped_lines` does.
    """
    sources = _checked(inputs_path, may_be_blank, read_inputs)
    targets = _checked(targets_path, may_be_blank)
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets), start=1):
        if source is None or target is None:
            path, rest = (inputs_path, sources) if target is None else (targets_path, targets)
            raise UserError(
                f"Expected equally many lines in {os.fspath(inputs_path)} and "
                f"{os.fspath(targets_path)}. Received: {number + sum(1 for _ in rest)} lines in "
                f"{os.fspath(path)}, {number - 1} in the other file. First line without a partner: "
                f"{(source or target or '')[:60]!r}."
            )
        if strip:
            source, target = source.strip(), target.strip()
        yield {"inputs": source, "targets": target}


def count_parallel_lines(inputs_path: str | os.PathLike, targets_path: str | os.PathLike) -> int:
    """Returns the number of pairs; raises as `parallel_lines`.

    A process reads both files once, unless they change.
    """
    status = [os.stat(path) for path in (inputs_path, targets_path)]
    seen = tuple((entry.st_ino, entry.st_size, entry.st_mtime_ns) for entry in status)
    return _count_unchanged(os.fspath(inputs_path), os.fspath(targets_path), seen)


@functools.lru_cache(maxsize=16)  # by what was `seen` of the files, too
def _count_unchanged(inputs_path: str, targets_path: str, seen: tuple) -> int:
    return sum(1 for _ in parallel_lines(inputs_path, targets_path))


def sample_lines(
    paths: Iterable[str | os.PathLike], file_byte_budget: float = FILE_BYTE_BUDGET
) -> Iterator[str]:
    """Yields stripped lines of each file, evenly spread, of about `file_byte_budget` characters.

    These are the lines that tensor2tensor takes: all of a file below twice the budget until the
    budget is spent, else one and then `size / budget / 2` left out, and so on.
    """
    for path in paths:
        is_packed = os.fspath(path).endswith(".gz")  # it is read for the size of its text
        size = sum(map(len, raw_lines(path))) if is_packed else os.path.getsize(path)
        step = int(size / file_byte_budget / 2) + 1
        left = file_byte_budget
        for line in itertools.islice(stripped_lines(path), step - 1, None, step):
            if left <= 0:
                break
            left -= len(line)
            yield line

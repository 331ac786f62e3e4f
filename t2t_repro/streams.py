"""A program's streams: what is printed is printed, or lost, and the work goes on."""

import errno
import io
import os
import stat
import sys


def prepare() -> None:
    """Lets whatever is printed be printed, in the letters that a stream has, or not at all.

    A stdin that is closed is empty.
    """
    # A file opened later would get the number of a stream that is closed, and what is printed.
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(spare)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if stream is getattr(sys, f"__{name}__"):
                setattr(sys, name, _without_reader(stream))


def _without_reader(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Returns a stream that goes on where its reader has left, such as head, or a terminal."""
    stream.flush()
    raw = _Unread(stream.fileno(), "w", closefd=False)
    buffered = isinstance(stream.buffer, io.BufferedWriter)  # not so under PYTHONUNBUFFERED
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if buffered else raw,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Unread(io.FileIO):
    """A pipe or terminal that becomes /dev/null where nobody reads it: a line must end no run."""

    def write(self, data, /):
        try:
            return super().write(data)
        except OSError as error:
            is_file = stat.S_ISREG(os.fstat(self.fileno()).st_mode)
            if error.errno not in (errno.EPIPE, errno.EIO) or is_file:
                raise
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, self.fileno())
            os.close(sink)
            return super().write(data)

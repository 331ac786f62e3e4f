"""Small text files as lists of lines, with errors that name file and line."""

import gzip
import zlib
from pathlib import Path

from t2t_repro.errors import UserError


def read_lines(path: str | Path) -> list[str]:
    """Returns the lines of a UTF-8 file, plain or `.gz`, without their line ends.

    Only "\\n" and "\\r\\n" end a line, so that line numbers agree with `sed` and `wc -l`: the other
    characters that Unicode calls line separators occur inside real sentences.
    """
    content = Path(path).read_bytes()
    if str(path).endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise UserError(
                f"{path}: expected a whole gzip file. Received: one that does not unpack "
                f"({error}). Fetch it again."
            ) from error
    lines = []
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], 1):
        try:
            lines.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: expected UTF-8. Received: byte 0x{line[error.start]:02x} "
                f"at column {error.start + 1}. Convert the file, for example with "
                "iconv -f ISO-8859-1 -t UTF-8."
            ) from error
    return lines

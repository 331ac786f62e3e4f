import gzip

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text.lines import read_lines


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "f.txt"
    path.write_bytes("a\u2028b\x85\r\n\n c \nlast".encode())
    assert read_lines(path) == ["a\u2028b\x85", "", " c ", "last"]
    path.write_bytes(b"")
    assert read_lines(path) == []
    path.write_bytes(b"\n")
    assert read_lines(path) == [""]


def test_gzip(tmp_path):
    path = tmp_path / "f.txt.gz"
    path.write_bytes(gzip.compress("ä\nb\n".encode()))
    assert read_lines(str(path)) == ["ä", "b"]
    path.write_bytes(gzip.compress(b"a\n")[:-6])
    with pytest.raises(UserError, match=r"f\.txt\.gz: expected a whole gzip file"):
        read_lines(path)


def test_what_is_not_utf8_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "f.txt"
    path.write_bytes(b"good\nM\xe4rz\n")
    with pytest.raises(UserError, match=r"f\.txt, line 2: expected UTF-8.*byte 0xe4 at column 2"):
        read_lines(path)

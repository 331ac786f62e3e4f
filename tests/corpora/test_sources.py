import gzip

import pytest

from t2t_repro.corpora import sources
from t2t_repro.errors import UserError


def test_maybe_download_copies_once(tmp_path):
    (tmp_path / "source").write_text("first")
    path = sources.maybe_download(tmp_path / "raw", "copy", str(tmp_path / "source"))
    (tmp_path / "source").write_text("second")
    assert path == sources.maybe_download(tmp_path / "raw", "copy", str(tmp_path / "source"))
    assert open(path).read() == "first"
    with pytest.raises(UserError):
        sources.maybe_download(tmp_path, "other", "ftp://localhost:1/other")


def test_a_gzip_file_is_unpacked_by_whatever_name_and_one_that_is_cut_short_named(tmp_path):
    packed = gzip.compress(b"text\n" * 99)
    (tmp_path / "whole").write_bytes(packed)
    sources.gunzip_file(tmp_path / "whole", tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == b"text\n" * 99
    (tmp_path / "cut.gz").write_bytes(packed[:-9])
    with pytest.raises(UserError, match="cut.gz"):
        sources.gunzip_file(tmp_path / "cut.gz", tmp_path / "other")
    assert not (tmp_path / "other").exists()

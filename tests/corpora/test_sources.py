import pytest

from t2t_repro.corpora import sources
from t2t_repro.errors import UserError


def test_maybe_download_copies_once(tmp_path):
    (tmp_path / "source").write_text("first")
    path = sources.maybe_download(tmp_path / "raw", "copy", str(tmp_path / "source"))
    (tmp_path / "source").write_text("second")
    assert path == sources.maybe_download(tmp_path / "raw", "copy", str(tmp_path / "source"))
    assert open(path).read() == "first"
    with pytest.raises(UserError, match="Cannot download ftp://"):
        sources.maybe_download(tmp_path, "other", "ftp://localhost:1/other")

"""What the tests of packages written for tensor2tensor share."""

import sys

import pytest

from t2t_repro.interop import usr_dir


@pytest.fixture
def load(tmp_path):
    """Writes a package and loads it; returns the warnings. What was found meanwhile is gone."""

    def load(init, name="mine", **modules):
        folder = tmp_path / name
        folder.mkdir()
        for file, text in {"__init__": init, **modules}.items():
            (folder / f"{file}.py").write_text(text)
        said: list[str] = []
        usr_dir.load(str(folder), said.append)
        usr_dir.load(str(folder), said.append)
        return said

    yield load
    assert not [name for name in sys.modules if name.partition(".")[0] == "tensor2tensor"]

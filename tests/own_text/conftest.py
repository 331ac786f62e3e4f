"""Programs that leave files alone, and requests for t2t-own-text."""

import pytest

from t2t_repro import process
from t2t_repro.corpora.request import RawText
from t2t_repro.own_text import plan, stages
from t2t_repro.own_text.request import OwnTextRequest
from tests.own_text.left_files import Stages


@pytest.fixture
def programs(monkeypatch):
    made = Stages()
    monkeypatch.setattr(process, "program", made)
    monkeypatch.setattr(stages.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(plan.preset, "has_gpu", lambda: False)
    return made


@pytest.fixture
def request_of(tmp_path):
    """Returns a factory of requests for 40 pairs."""
    for side in ("en", "de"):
        (tmp_path / side).write_text("".join(f"{side} {i}\n" for i in range(40)))
    raw = RawText(train_source=str(tmp_path / "en"), train_target=str(tmp_path / "de"))

    def make(**more):
        return OwnTextRequest(raw=raw, output_dir=str(tmp_path / "out"), **more)

    return make

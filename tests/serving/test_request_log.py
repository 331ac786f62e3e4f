"""What the request log says of an answer."""

import json
import os

import pytest
from starlette.testclient import TestClient

from t2t_repro.errors import UserError
from t2t_repro.serving import app
from t2t_repro.serving.request_log import RequestLog
from t2t_repro.serving.requests import Limits
from tests.serving.conftest import served

LIMITS = Limits(max_sentence_tokens=20)
ASKED = {"inputs": ["It is left as it is. Not this.", "ok"]}


@pytest.mark.parametrize("texts", [False, True])
def test_a_line_for_each_answer(model, tmp_path, texts):
    path = tmp_path / "log"
    path.write_text('{"older": 1}\n')
    with TestClient(app.create(served(model), LIMITS, RequestLog(path, texts))) as client:
        client.post("/translate", json=ASKED)
        client.post("/translate", json={"q": "ä", "source": "en", "target": "de"})
        client.post("/translate", content=b"secret")
        path.rename(tmp_path / "rotated")
        client.get("/secret")
    lines = [json.loads(line) for line in (tmp_path / "rotated").read_text("utf-8").splitlines()]
    assert lines[0] == {"older": 1}
    for line in lines[1:]:
        assert line.pop("time").endswith("+00:00") and 0 < line.pop("seconds") < 20
    usual = {"path": "/translate", "status": 200, "model": "en-de"}
    both = {**usual, "sentences": 3, "characters": 31, "flags": ["copy"]}
    one = {**usual, "sentences": 1, "characters": 1, "flags": []}
    if texts:
        both["inputs"] = ASKED["inputs"]
        both["translations"] = ["IT IS LEFT AS IT IS.", "NOT THIS.", "OK"]
        one |= {"inputs": ["ä"], "translations": ["Ä"]}
    assert lines[1:] == [both, one, {"path": "/translate", "status": 400}]
    (last,) = path.read_text("utf-8").splitlines()
    assert json.loads(last)["path"] == "other" and "secret" not in last


def test_a_log_that_cannot_be_written_any_more(model, tmp_path, caplog):
    log = RequestLog(tmp_path / "log")
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    with TestClient(app.create(served(model), LIMITS, log)) as client:
        assert client.post("/translate", json={"inputs": "a"}).status_code == 200
    assert "log cannot be written: Is a directory." in caplog.text


def test_a_line_that_a_full_disk_cut_short_takes_no_other_along(tmp_path):
    path = tmp_path / "log"
    path.write_text('{"path": "/tran')
    log = RequestLog(path)
    log.write("/healthz", 200, 0.5, {"n": 1})
    log.write("/healthz", 503, 0.5, {"n": 2})
    torn, *lines = path.read_text().splitlines()
    assert torn == '{"path": "/tran' and [json.loads(line)["n"] for line in lines] == [1, 2]


def test_a_log_that_goes_to_a_pipe(tmp_path):
    read, write = os.pipe()
    log = RequestLog(f"/dev/fd/{write}")
    log.write("/healthz", 200, 0.5, {})
    os.close(write)
    with open(read) as file:
        assert json.loads(file.read())["status"] == 200


def test_a_log_that_would_destroy_a_model(tmp_path):
    path = tmp_path / "saved_model.pb"
    path.write_bytes(b"graph")
    with pytest.raises(UserError, match="--request_log"):
        RequestLog(path, models={"--model=x": tmp_path})
    assert path.read_bytes() == b"graph"

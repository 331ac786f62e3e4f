"""The application, without a network and without a model."""

import re

import pytest
from starlette.testclient import TestClient

from t2t_repro.serving import app
from t2t_repro.serving.request import ServerRequest
from tests.serving.conftest import served

LIMITS = ServerRequest(max_sentences=4, max_sentence_tokens=20, timeout_s=20.0)


@pytest.fixture
def client(model):
    with TestClient(app.create(served(model), LIMITS), raise_server_exceptions=False) as client:
        yield client


def translations(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"]


def test_one_sentence_and_many(client):
    (one,) = translations(client.post("/translate", json={"inputs": "a man"}))
    best = {"translation": "A MAN", "score": -0.25}
    of_the_sentence = {"input": "a man", **best, "n_best": [best]}
    assert one == {**of_the_sentence, "sentences": [of_the_sentence]}
    many = translations(client.post("/translate", json={"inputs": ["b", "", "b"], "n_best": 3}))
    assert [m["input"] for m in many] == ["b", "", "b"]
    assert many[0]["n_best"] == [{"translation": "B", "score": n} for n in (-0.25, None)]
    assert translations(client.post("/translate", json={"inputs": []})) == []


def test_lines_and_sentences_are_translated_in_their_places(client, model):
    body = {"inputs": ["Mr. X sings. Who knows?\n\n so do we ", " \n"], "n_best": 2}
    text, blank = translations(client.post("/translate", json=body))
    assert text["translation"] == "MR. X SINGS. WHO KNOWS?\n\nSO DO WE"
    assert [s["input"] for s in text["sentences"]] == ["Mr. X sings.", "Who knows?", "so do we"]
    assert [len(s["n_best"]) for s in text["sentences"]] == [2, 2, 2]
    assert text["score"] is text["n_best"][0]["score"] is None and len(text["n_best"]) == 1
    assert text["n_best"][0]["translation"] == text["translation"]
    assert (blank["translation"], blank["score"], blank["sentences"]) == ("\n", None, [])
    body = {"inputs": "Who sings? We do.\nAll", "split": False}
    (whole,) = translations(client.post("/translate", json=body))
    assert (whole["translation"], len(whole["sentences"])) == ("WHO SINGS? WE DO.\nALL", 1)


def test_attention(client, model):
    asked = {"inputs": "a b c", "targets": "x y"}
    answer = client.post("/attention", json=asked)
    tokens = {"source_tokens": ["a", "b", "c"], "target_tokens": ["x", "y"]}
    weights = {"weights": [[0.25] * 3] * 2}
    assert answer.json() == {"input": "a b c", "translation": "x y"} | tokens | weights
    assert client.post("/attention", json={**asked, "targets": "x " * 49}).status_code == 200
    for side, text, sentence in (("targets", "X " * 25, 2), ("inputs", "a " * 20, 1)):
        answer = client.post("/attention", json={**asked, side: text})
        assert answer.status_code == 413 and f"sentence {sentence}" in answer.json()["error"]
    model.has_attention = False
    assert client.post("/attention", json=asked).status_code == 501


@pytest.mark.parametrize(
    "method, path, body, status, name",
    [
        ("POST", "/translate", b"\xff\xfe\x00", 400, "JSON"),
        ("POST", "/translate", b"[1]", 400, "object"),
        ("POST", "/translate", b'{"inputs": ["a", 1]}', 400, "inputs"),
        ("POST", "/translate", b'{"inputs": "\\ud800"}', 400, "JSON"),
        ("POST", "/translate", b'{"inputs": "a", "beams": 2}', 400, "beams"),
        ("POST", "/translate", b'{"inputs": "a", "n_best": 4}', 400, "n_best"),
        ("POST", "/translate", b'{"inputs": "a", "n_best": true}', 400, "n_best"),
        ("POST", "/translate", b'{"inputs": "a", "split": 1}', 400, "split"),
        ("POST", "/translate", b'{"inputs": "a", "model": "fr-en"}', 400, "model"),
        ("POST", "/translate", b'{"inputs": "%s"}' % (b"a.\\n" * 9), 413, "4 sentences"),
        ("POST", "/attention", b"{}", 400, "inputs"),
        ("GET", "/translate", b"", 405, ""),
        ("GET", "/nothing", b"", 404, ""),
    ],
)
def test_errors_are_json_with_a_status(client, method, path, body, status, name):
    answer = client.request(method, path, content=body)
    assert answer.status_code == status
    assert name in answer.json()["error"]
    assert client.get("/healthz").json()["status"] == "ok"
    assert translations(client.post("/translate", json={"inputs": "a"}))[0]["translation"] == "A"


def test_metrics_count(client):
    client.post("/translate", json={"inputs": ["a", "b"]})
    client.post("/translate", content=b"no")
    client.get("/secret/1"), client.get("/secret/2")
    lines = client.get("/metrics").text.splitlines()
    for line in (
        't2t_requests_total{path="/translate",status="200"} 1.0',
        't2t_requests_total{path="/translate",status="400"} 1.0',
        't2t_requests_total{path="other",status="404"} 2.0',
        't2t_request_seconds_count{path="/translate"} 2.0',
        "t2t_queue_length 0.0",
        't2t_sentences_total{model="en-de"} 2.0',
        't2t_batch_size_sum{kind="translate",model="en-de"} 2.0',
    ):
        assert line in lines
    assert not any("secret" in line for line in lines)


def test_health_says_what_is_served_and_that_it_stops(model):
    client = TestClient(app.create(served(model), LIMITS))
    with client:
        answer = client.get("/healthz")
        assert answer.status_code == 200
        named = {"name": "en-de", "source": "en", "target": "de", "sha256": "5ab1", "step": 7}
        decoded = {"problem": "text2text_tmpdir", "beam_size": 3, "alpha": 0.6, "attention": True}
        limits = {"max_sentences": 4, "max_sentence_tokens": 20, "timeout_s": 20.0}
        assert answer.json() == {"status": "ok", "models": [named | decoded], "limits": limits}


def test_pages_of_an_origin_that_was_named_may_ask(model):
    settings = ServerRequest(cors_origin=["https://there"])
    with TestClient(app.create(served(model), settings)) as client:
        for origin, allowed in (("https://there", "https://there"), ("https://else", None)):
            answer = client.post("/translate", json={"inputs": "a"}, headers={"Origin": origin})
            assert answer.headers.get("access-control-allow-origin") == allowed
        asks = {"Origin": "https://there", "Access-Control-Request-Method": "POST"}
        assert client.options("/translate", headers=asks).status_code == 200


def test_the_page_asks_nobody_else(client):
    answer = client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert '<html lang="en">' in answer.text and "http" not in answer.text
    assert re.findall(r'(?:src|href)="(.*?)"', answer.text) == ["data:,", "openapi.json"]
    assert not re.search(r"<[^>]+ (style|on\w+)=", answer.text)
    policy = answer.headers["content-security-policy"]
    assert re.match(r"default-src 'none'; script-src 'sha256-[^ ]{44}'; style-src 'sha256", policy)
    assert "unsafe" not in policy and "connect-src 'self'" in policy
    for path in ("/healthz", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == policy
        assert headers["x-content-type-options"] == "nosniff"

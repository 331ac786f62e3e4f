"""The application, without a network and without a model."""

import asyncio
import gc
import re
import threading

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from t2t_repro.serving import app
from t2t_repro.serving.request import ServerRequest
from tests.serving.conftest import FakeModel, served

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


def test_each_request_has_its_own_model(model):
    other = FakeModel()
    with TestClient(app.create(served(model, other), LIMITS)) as client:
        client.post("/translate", json={"inputs": ["a", "b"], "model": "de-en"})
        client.post("/translate", json={"inputs": "c"})
        client.post("/attention", json={"inputs": "d", "targets": "e", "model": "de-en"})
        assert [m["name"] for m in client.get("/healthz").json()["models"]] == ["en-de", "de-en"]
        metrics = client.get("/metrics").text
        for name, count in (("en-de", 1.0), ("de-en", 2.0)):
            assert f't2t_sentences_total{{model="{name}"}} {count}' in metrics
            assert f't2t_batch_size_sum{{kind="translate",model="{name}"}} {count}' in metrics
    assert model.batches == [["c"]]
    assert [len(batch) for batch in other.batches] == [2, 1]


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
        ("POST", "/translate", b"[" * 1900, 400, "JSON"),
        ("POST", "/translate", b"[1]", 400, "object"),
        ("POST", "/translate", b'{"inputs": ["a", 1]}', 400, "inputs"),
        ("POST", "/translate", b'{"inputs": "\\ud800"}', 400, "JSON"),
        ("POST", "/translate", b'{"inputs": "a", "beams": 2}', 400, "beams"),
        ("POST", "/translate", b'{"inputs": "a", "n_best": 4}', 400, "n_best"),
        ("POST", "/translate", b'{"inputs": "a", "n_best": true}', 400, "n_best"),
        ("POST", "/translate", b'{"inputs": "a", "split": 1}', 400, "split"),
        ("POST", "/translate", b'{"inputs": "a", "model": "fr-en"}', 400, "model"),
        ("POST", "/translate", b'{"inputs": "%s"}' % (b"a " * 30), 413, "20 tokens"),
        ("POST", "/translate", b'{"inputs": [%s]}' % b",".join([b'""'] * 5), 413, "4 sentences"),
        ("POST", "/translate", b'{"inputs": "%s"}' % (b"a.\\n" * 9), 413, "4 sentences"),
        ("POST", "/translate", b" " * 1_000_001, 413, "1000000 bytes"),
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


def test_a_body_that_does_not_say_how_long_it_is(client):
    answer = client.post("/translate", content=(b" " * 400_000 for _ in range(3)))
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_sentence_that_cannot_be_computed(client, caplog):
    answer = client.post("/translate", json={"inputs": ["a", "poison"]})
    assert answer.status_code == 500 and "error" in answer.json()
    assert "RuntimeError: no" in caplog.text
    assert translations(client.post("/translate", json={"inputs": "a"}))[0]["translation"] == "A"


def running(model, limits, test, **batching):
    """Runs `test(client, application)` on an event loop, where requests go on side by side."""

    async def run():
        application = app.create(served(model), limits, **batching)
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            try:
                return await test(client, application)
            finally:
                model.go.set()

    answer = asyncio.run(run())
    gc.collect()  # now asyncio complains of errors that nobody looked at
    return answer


async def until(event: threading.Event):
    assert await asyncio.to_thread(event.wait, 20)


def test_a_full_queue_is_503_and_says_when_to_try_again(model):
    model.go.clear()

    async def test(client, application):
        first = asyncio.ensure_future(client.post("/translate", json={"inputs": "a"}))
        await until(model.began)
        second = asyncio.ensure_future(client.post("/translate", json={"inputs": ["b", "c"]}))
        while "t2t_queue_length 2.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.01)
        refused = await client.post("/translate", json={"inputs": "d"})
        model.go.set()
        return refused, await first, await second

    refused, first, second = running(model, LIMITS, test, max_queue=2, batch_timeout=0.0)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert [t["translation"] for t in translations(first) + translations(second)] == ["A", "B", "C"]


def test_no_answer_in_time_is_504_and_what_waited_is_not_computed(model, caplog):
    model.go.clear()

    async def test(client, application):
        body = {"inputs": "a"}
        answers = await asyncio.gather(*(client.post("/translate", json=body) for _ in range(3)))
        model.go.set()
        return answers, await client.post("/translate", json={"inputs": "after"})

    limits = ServerRequest(timeout_s=0.3)
    answers, after = running(model, limits, test, max_batch_size=1, batch_timeout=0.0)
    assert [answer.status_code for answer in answers] == [504] * 3
    assert translations(after)[0]["translation"] == "AFTER"
    assert model.batches == [["a"], ["after"]]
    assert caplog.text == ""


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
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (503, "stopping")
    assert client.post("/translate", json={"inputs": "a"}).status_code == 503


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

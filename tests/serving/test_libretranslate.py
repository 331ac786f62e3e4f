"""LibreTranslate's protocol: as its own client speaks it, and as it is documented."""

import io
import urllib.request

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from t2t_repro.serving import app
from t2t_repro.serving.request import ServerRequest
from tests.serving.conftest import FakeModel, served

LIMITS = ServerRequest(max_sentences=4, max_sentence_tokens=20)
UNSURE = {"language": "en", "confidence": 0.0}


@pytest.fixture
def client(model):
    with TestClient(app.create(served(model, FakeModel()), LIMITS)) as client:
        yield client


def test_its_client(client, monkeypatch):
    def urlopen(asked, timeout=None):
        method = asked.get_method()
        answer = client.request(method, asked.selector, content=asked.data, headers=asked.headers)
        return io.BytesIO(answer.content)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    api = LibreTranslateAPI("http://testserver/", api_key="any")
    text = "A man & a dog.\n\nWho sings?"
    assert api.translate(text, "en", "de") == text.upper()
    assert api.detect("Who sings?\nA man sings.")[0]["language"] == "en"
    german, english = api.languages()
    assert client.post("/languages", content=b"api_key=any").json() == [german, english]
    assert german == {"code": "de", "name": "German", "targets": ["en"]}
    assert english == {"code": "en", "name": "English", "targets": ["de"]}


@pytest.mark.parametrize(
    "asked, answer",
    [
        ({"q": "a b"}, {"translatedText": "A B"}),
        ({"q": ["a b", ""]}, {"translatedText": ["A B", ""]}),
        ({"q": []}, {"translatedText": []}),
        ({"q": "a b", "alternatives": 1}, {"translatedText": "A B", "alternatives": ["A B"]}),
        ({"q": "a", "format": "text", "api_key": ""}, {"translatedText": "A"}),
        ({"q": "a", "format": ""}, {"translatedText": "A"}),
        ({"q": "a", "format": None}, {"translatedText": "A"}),
        ({"q": ["1"], "source": "auto"}, {"translatedText": ["1"], "detectedLanguage": [UNSURE]}),
    ],
)
def test_what_it_documents(client, asked, answer):
    asked = {"source": "en", "target": "de", **asked}
    assert client.post("/translate", json=asked).json() == answer


@pytest.mark.parametrize("form", ["data", "files", "params"])
def test_the_forms_of_its_clients(client, form):
    """Urlencoded, multipart as a browser's FormData, and a query string without a body."""
    asked = {"q": "ä &q=b\nc", "source": "en", "target": "de", "format": ""}
    if form == "files":  # a value without a file's name
        asked = {name: (None, value) for name, value in asked.items()}
    assert client.post("/translate", **{form: asked}).json() == {"translatedText": "Ä &Q=B\nC"}
    assert client.post("/detect", **{form: {"q": asked["q"]}}).json()[0]["language"] in ("de", "en")


@pytest.mark.parametrize(
    "query, body",
    [
        ("?source=en&target=de", {"data": {"q": "ä"}}),
        ("?source=en", {"files": {"q": (None, "ä"), "target": (None, "de")}}),
        ("", {"content": '\ufeff{"q": "ä", "source": "en", "target": "de"}'.encode()}),
    ],
)
def test_values_in_two_places_and_a_byte_order_mark(client, query, body):
    assert client.post(f"/translate{query}", **body).json() == {"translatedText": "Ä"}


@pytest.mark.parametrize(
    "asked, status, name",
    [
        ({"target": "fr"}, 400, "target"),
        ({"source": None}, 400, "source"),
        ({"q": [1]}, 400, "q"),
        ({"format": "html"}, 400, "format"),
        ({"alternatives": -1}, 400, "alternatives"),
        ({"q": ["a"] * 5}, 413, "4 sentences"),
        ({"q": "a " * 20}, 413, "20 tokens"),
    ],
)
def test_what_is_refused(client, asked, status, name):
    answer = client.post("/translate", json={"q": "a", "source": "en", "target": "de", **asked})
    assert answer.status_code == status
    assert name in answer.json()["error"]


GERMAN, ENGLISH = "Wer singt denn da so schön?", "Who is it that sings there?"


def test_a_language_is_one_of_those_that_are_served(client):
    for text, first, second in ((GERMAN, "de", "en"), (ENGLISH, "en", "de")):
        for asked in ({"json": {"q": text, "api_key": ""}}, {"data": {"q": text}}):
            best, other = client.post("/detect", **asked).json()
            assert (best["language"], other["language"]) == (first, second)
            assert best["confidence"] > 90 and best["confidence"] + other["confidence"] > 99.8
    assert client.post("/detect", json={"q": "12 - 3"}).json() == []
    for body in (b"{}", b'{"q": ["a"]}', b'{"q": "\\ud800"}'):
        assert client.post("/detect", content=body).status_code == 400


@pytest.mark.parametrize("text, found", [(GERMAN, "de"), (ENGLISH, "en"), ("1 + 2", "de")])
def test_the_source_of_several_models_is_found(text, found):
    pairs = [("de", "fr"), ("en", "fr"), ("xx", "fr"), ("fr", "de")]
    with TestClient(app.create(served(*[FakeModel()] * 4, pairs=pairs), LIMITS)) as client:
        answer = client.post("/translate", json={"q": text, "source": "auto", "target": "fr"})
        assert answer.json()["detectedLanguage"]["language"] == found
        assert (answer.json()["detectedLanguage"]["confidence"] > 80) == (text != "1 + 2")
        answer = client.post("/translate", json={"q": text, "source": "auto", "target": "en"})
        assert answer.status_code == 400

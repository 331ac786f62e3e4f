"""The description is that of what is served."""

import dataclasses
import html
import json
import re
import shlex

import pytest
from starlette.testclient import TestClient

from t2t_repro.provenance import Golden
from t2t_repro.serving import app
from t2t_repro.serving.requests import Limits
from tests.provenances import recorded
from tests.serving.conftest import FakeModel, served

PAGES = {"/", "/docs", "/openapi.json"}


@pytest.fixture
def client(model):
    with TestClient(app.create(served(model, FakeModel()), Limits(max_sentences=7))) as client:
        yield client


def fields(schema, value, where="the answer"):
    """Checks that objects have the properties of their schema, and the required ones."""
    for each in schema.get("anyOf", schema.get("oneOf", [])):
        if set(each.get("required", [])) <= set(value if isinstance(value, dict) else []):
            fields(each, value, where)
            return
    if schema.get("type") == "array":
        for one in value:
            fields(schema["items"], one, f"{where}[]")
    if schema.get("type") == "object":
        assert set(schema["required"]) <= value.keys() <= schema["properties"].keys(), where
        for name, one in value.items():
            fields(schema["properties"][name], one, f"{where}.{name}")


def test_examples_are_sentences_of_the_model(model):
    """A sentence in the language that it reads: of any other the answer is nonsense."""
    golden = (Golden("ein ganz langer satz", "A LONG ONE", -1.0), Golden("l'eau", "L'EAU", -2.0))
    record = recorded("saved_model", golden=golden)
    (de_en,) = served(model)
    with TestClient(app.create([dataclasses.replace(de_en, record=record)], Limits())) as client:
        paths = client.get("/openapi.json").json()["paths"]
        shown = client.get("/docs").text
    for path, expected in (
        ("/translate", {"inputs": "l'eau"}),
        ("/attention", {"inputs": "l'eau", "targets": "L'EAU"}),
        ("/detect", {"q": "l'eau"}),
    ):
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        assert content["example"] == expected
    assert shlex.quote(json.dumps({"inputs": "l'eau"})) in html.unescape(shown)


def test_every_path_is_described_and_answers_its_example_so(client):
    said = client.get("/openapi.json").json()
    routes = {route.path: route.methods - {"HEAD"} for route in client.app.routes}
    paths = {path: {m.upper() for m in methods} for path, methods in said["paths"].items()}
    assert {path: routes[path] for path in routes.keys() - PAGES} == paths
    assert said["openapi"] == "3.1.0" and "en-de, de-en" in said["info"]["description"]
    for path, methods in said["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            answer = client.request(method, path, json=content and content["example"])
            assert answer.status_code == 200, path
            ((media, of),) = operation["responses"]["200"]["content"].items()
            assert answer.headers["content-type"].startswith(media)
            if of["schema"]:
                assert answer.json()
                fields(of["schema"], answer.json())
            if content:
                fields(content["schema"], content["example"])
    libre = said["paths"]["/translate"]["post"]["responses"]["200"]["content"]["application/json"]
    asked = {"q": ["a b"], "source": "auto", "target": "de", "alternatives": 1}
    fields(libre["schema"], client.post("/translate", json=asked).json())
    error = said["paths"]["/detect"]["post"]["responses"]["default"]["content"]["application/json"]
    fields(error["schema"], client.post("/detect", json={}).json())


def test_it_has_the_numbers_of_this_server(client):
    said = client.get("/openapi.json").json()["paths"]["/translate"]["post"]
    schema = said["requestBody"]["content"]["application/json"]["schema"]["anyOf"][0]["properties"]
    assert schema["n_best"]["maximum"] == FakeModel.beam_size and "7 sentences" in said["summary"]
    assert schema["model"] == {"type": "string", "enum": ["en-de", "de-en"], "default": "en-de"}


def test_the_page_says_it_and_loads_nothing(client):
    answer = client.get("/docs")
    page = answer.text
    for path in client.get("/openapi.json").json()["paths"]:
        assert f" {path}</code></h2>" in page
    assert '<a href="docs">' in client.get("/").text
    assert not re.search(r"<script|src=|url\(", page)
    assert set(re.findall(r'href="([^"]*)"', page)) == {"data:,", "openapi.json", "./"}
    assert "<pre>curl http://testserver/languages</pre>" in page
    odd = client.get("/docs", headers={"Host": "a.b:81"}).text
    assert "<pre>curl http://a.b:81/languages</pre>" in odd
    assert "<b>" not in client.get("/docs", headers={"Host": "<b>"}).text
    assert "n_best</code></td><td>integer, 1 to 3; default 1</td>" in page
    assert answer.headers["content-security-policy"].count("'sha256-") == 3

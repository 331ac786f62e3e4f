"""What is refused of what clients send, and with which words."""

import json

import pytest
import sentencex

from t2t_repro.errors import UserError
from t2t_repro.serving.requests import (
    AttentionRequest,
    Limits,
    Refused,
    TranslateRequest,
    check_lengths,
    json_object,
)
from tests.serving.conftest import served

LIMITS = Limits(max_sentences=3, max_sentence_tokens=20)


def read(body, models, limits):
    return TranslateRequest.of(json_object(body), models, limits)


def refused(call, *args):
    with pytest.raises(Refused) as caught:
        call(*args)
    return caught.value.status, caught.value.message


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"inputs": "one"}, ([["one"]], 1, None)),
        ({"inputs": ["a", ""], "n_best": 3}, ([["a"], []], 3, None)),
        ({"inputs": [], "alpha": 1}, ([], 1, 1.0)),
        ({"inputs": "😀\x00", "alpha": 0.5}, ([["😀\x00"]], 1, 0.5)),
        ({"inputs": "Ab ab. Cd cd.\ne"}, ([["Ab ab.", "Cd cd.", "e"]], 1, None)),
        ({"inputs": "Ab ab. Cd cd.\ne", "split": False}, ([["Ab ab. Cd cd.\ne"]], 1, None)),
    ],
)
def test_a_request(model, body, expected):
    asked = TranslateRequest.of(body, served(model), LIMITS)
    assert ([text.sentences for text in asked.inputs], asked.n_best, asked.alpha) == expected


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "Expected a JSON object in UTF-8. Received: Expecting value"),
        (b"A man is sleeping.", "Expected a JSON object in UTF-8. Received: Expecting value"),
        (b'{"inputs": "a"', "Expected a JSON object in UTF-8"),
        (bytes(range(128, 256)), "Expected a JSON object in UTF-8. Received: 'utf-8' codec"),
        (b"[" * 100_000, "Expected a JSON object in UTF-8. Received: maximum recursion"),
        (b"9" * 5000, "Expected a JSON object in UTF-8. Received: Exceeds the limit"),
        (b'["a"]', "Expected a JSON object. Received: a list."),
        (b"{}", 'Expected "inputs", a string or a list of strings. Received: null.'),
        (b'{"inputs": 5}', "Received: 5."),
        (b'{"inputs": {"a": 1}}', "Received: an object."),
        (b'{"inputs": ["a", 1]}', "Received: a list."),
        (b'{"inputs": "a", "nbest": 2}', "Received: \"nbest\". Did you mean 'n_best'?"),
        (b'{"inputs": "a", "%s": 2}' % (b"x" * 300), f'Received: "{"x" * 99}....'),
        (b'{"inputs": "a", "n_best": 0}', 'Expected "n_best", a number from 1 to 3, the beams'),
        (b'{"inputs": "a", "n_best": 4}', "Received: 4."),
        (b'{"inputs": "a", "n_best": true}', "Received: true."),
        (b'{"inputs": "a", "n_best": "2"}', 'Received: "2".'),
        (b'{"inputs": "a", "alpha": -1}', 'Expected "alpha", a number from 0 to 10. Received: -1'),
        (b'{"inputs": "a", "alpha": NaN}', "Received: NaN."),
        (b'{"inputs": "a", "alpha": false}', "Received: false."),
        (b'{"inputs": "a", "alpha": null}', "Received: null."),
        (b'{"inputs": "a", "model": "fr-en"}', 'Expected "model", one of en-de. Received: "fr'),
        (b'{"inputs": "a", "model": ["en-de"]}', "one of en-de. Received: a list."),
        (b'{"inputs": "a", "split": 1}', 'Expected "split", true or false. Received: 1.'),
        (b'{"inputs": "a\\ud83d"}', "Expected text in Unicode. Received: half of a surrogate"),
    ],
)
def test_a_request_that_is_not_right(model, body, message):
    status, said = refused(read, body, served(model), LIMITS)
    assert status == 400
    assert message in said and len(said) < 400


def test_an_export_with_one_alpha(model):
    model.any_alpha = False
    body = b'{"inputs": "a", "alpha": 0.6}'
    status, said = refused(read, body, served(model), LIMITS)
    assert (status, said.partition(" Leave")[0]) == (
        400,
        'Expected no "alpha": 0.6 is fixed in this export. Received: 0.6.',
    )


def test_too_much(model, monkeypatch):
    for inputs, received in (
        (["a"] * 4, "4"),
        ([""] * 4, "4"),
        ("a\nb\nc\nd", "4"),
        (["Ab ab. Cd cd.", "e\nf"], "more"),
        (["Ab ab. Cd cd. Ef ef. Gh gh.", "i"], "more"),
    ):
        body = json.dumps({"inputs": inputs}).encode()
        assert refused(read, body, served(model), LIMITS) == (
            413,
            "Expected at most 3 sentences in a request. "
            f"Received: {received}. Send them in several.",
        )
    pieces, segment = [], sentencex.segment
    monkeypatch.setattr(
        sentencex, "segment", lambda language, text: pieces.append(text) or segment(language, text)
    )
    body = json.dumps({"inputs": ["Ab ab. " * 5000, "Cd cd."]}).encode()
    assert refused(read, body, served(model), LIMITS)[0] == 413
    assert sum(map(len, pieces)) < 10_000  # of 35,000, and nothing of the next
    check_lengths([20, 1], 20)
    assert refused(check_lengths, [20, 21], 20) == (
        413,
        "Expected sentences of at most 20 tokens. Received: 21 tokens in sentence 2. Split it.",
    )


def test_attention(model):
    models = served(model, model)
    asked = {"inputs": "a", "targets": "b", "model": "de-en"}
    assert AttentionRequest.of(asked, models) == AttentionRequest(models[1], "a", "b")
    for body, message in [
        (b'{"inputs": "a"}', 'Expected "targets", a string. Received: null.'),
        (b'{"inputs": ["a"], "targets": "b"}', 'Expected "inputs", a string. Received: a list.'),
        (b'{"inputs": "a", "target": "b"}', 'Expected "inputs", "targets", "model" only. Received'),
        (b'{"inputs": "a", "targets": "\\udfff"}', "half of a surrogate pair"),
    ]:
        status, said = refused(AttentionRequest.of, json.loads(body), models)
        assert status == 400 and message in said


def test_sentences_are_no_longer_than_the_model_reads(model):
    assert Limits.of(served(model), None).max_sentence_tokens == 50
    assert Limits.of(served(model), 12, max_sentences=5) == Limits(
        max_sentence_tokens=12, max_sentences=5
    )
    model.longest = 1024
    assert Limits.of(served(model), None).max_sentence_tokens == 256
    with pytest.raises(UserError, match="max_sentence_tokens"):
        Limits.of(served(model), 1025)

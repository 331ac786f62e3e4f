"""The attention page: it holds the model's own weights, and works in a real browser."""

import base64
import re

import numpy as np
import pytest

from t2t_repro.views import attention, attention_page
from tests.views.pages import content, policy_of

SOURCES = ["A_", "dog_", "</script>", "runs_", "<EOS>"]
TARGETS = ["@DATA@", "Hund_", "<EOS>"]


@pytest.fixture(scope="module")
def found():
    """Made-up weights of 2 layers of 4 heads: head 3 of layer 1 always looks one word back."""
    random = np.random.default_rng(3)
    sides = {"encoder": (SOURCES, SOURCES), "encoder-decoder": (TARGETS, SOURCES)}
    sides["decoder"] = (TARGETS, [attention.START, *TARGETS[:-1]])
    made = []
    for kind, title, _ in attention.KINDS:
        queries, keys = sides[kind]
        weights = random.random((2, 4, len(queries), len(keys)), "float32")
        if kind == "decoder":
            weights = np.tril(weights)
        weights[1, 3] = 0.01 + np.eye(len(queries), len(keys), -1)
        weights /= weights.sum(-1, keepdims=True)
        made.append(attention.Maps(kind, title, queries, keys, weights))
    return made


@pytest.fixture(scope="module")
def heads(found):
    return [head for each in found for head in attention.heads(each)]


@pytest.fixture(scope="module")
def page(found, heads):
    return attention_page.page(found, heads, "A & B <i>")


def test_it_holds_the_weights_to_a_hundred_thousandth(page, found):
    for each, stored in zip(found, content(page)["maps"], strict=True):
        shares = np.frombuffer(base64.b64decode(stored["weights"]), "<u2") / attention_page.STEPS
        np.testing.assert_allclose(shares.reshape(each.weights.shape), each.weights, atol=1e-5)
        assert (stored["queries"], stored["keys"]) == (each.queries, each.keys)
        assert (stored["layers"], stored["heads"]) == (2, 4)


def test_words_are_words_whatever_they_spell(page):
    assert '<p class="sentence">A_ dog_ &lt;/script&gt; runs_ &lt;EOS&gt;</p>' in page
    assert '<p class="sentence">@DATA@ Hund_ &lt;EOS&gt;</p>' in page


def test_nothing_else_may_run_or_load(page):
    sha = "'sha256-[A-Za-z0-9+/]{43}='"
    policy = f"default-src 'none'; script-src {sha}; style-src {sha}; base-uri 'none'"
    assert re.fullmatch(f"{policy}; form-action 'none'", policy_of(page))


SHOWN = "return [...document.querySelectorAll('#drawing line')].length"
PLACE = "return document.querySelector('figure').getBoundingClientRect().toJSON()"
ROWS = "return [...document.querySelectorAll('#overview tbody tr')].map((row) => row.innerText)"


@pytest.mark.browser
def test_it_draws_and_answers_in_chromium(browser, page, found, heads, tmp_path):
    file = tmp_path / "attention.html"
    file.write_text(page, encoding="utf-8")
    browser.open("about:blank")
    browser.requests(), browser.complaints()
    browser.open(file.as_uri())
    assert browser.run("return document.body.dataset.ready") == "true"

    def drawn(kind, layer, heads, query=slice(None), key=slice(None)):
        weights = next(each for each in found if each.kind == kind).weights
        return int((weights[layer, heads][:, query, key] >= 0.02).sum())

    every = [0, 1, 2, 3]
    assert browser.run(SHOWN) == drawn("encoder-decoder", 1, every) > 0  # the last layer's
    for side, words in (("rows", TARGETS), ("columns", SOURCES)):
        written = f"return [...document.querySelectorAll('#{side} div')].map((d) => d.textContent)"
        assert browser.run(written) == words
    browser.type("#kind", "Encoder self")
    browser.type("#layer", "0")
    assert browser.run(SHOWN) == drawn("encoder", 0, every) > 0
    assert len(browser.run(ROWS)) == 8

    browser.click('#heads [data-head="2"]')
    assert browser.run(SHOWN) == drawn("encoder", 0, [2])
    pressed = "return [...document.querySelectorAll('[aria-pressed=true]')].map((b) => b.innerText)"
    assert browser.run(pressed) == ["2"]

    weights = found[0].weights[0, 2]
    before = browser.run(PLACE)
    browser.hover('[data-side="queries"][data-index="1"]')
    assert browser.run(SHOWN) == drawn("encoder", 0, [2], query=[1])
    assert browser.run(PLACE) == before  # nothing moves under the mouse
    most = weights[1].argmax()
    assert browser.text("#said").startswith(f"dog_ looks at {SOURCES[most]} {weights[1, most]:.2f}")

    browser.hover('[data-side="keys"][data-index="3"]')
    least = weights[:, 3].argmax()
    told = f"runs_ is looked at by {SOURCES[least]} {weights[least, 3]:.2f}"
    assert browser.text("#said").startswith(told)

    # By the keyboard alone: down to the next word, over to what it looks at, and out.
    browser.hover("h1")
    browser.type('[data-side="queries"][data-index="0"]', "\ue015")
    focus = "return [document.activeElement.dataset.side, document.activeElement.dataset.index]"
    assert browser.run(focus) == ["queries", "1"]
    assert browser.text("#said").startswith("dog_ looks at")
    browser.type('[data-side="queries"][data-index="1"]', "\ue014")
    assert browser.run(focus) == ["keys", "1"]
    browser.type('[data-side="keys"][data-index="1"]', "\ue00c")
    assert browser.text("#said") == ""

    # A row of the table shows its head; another kind of attention starts with all of them.
    browser.click('#overview tr[data-layer="1"][data-head="3"] button')
    assert browser.run(SHOWN) == drawn("encoder", 1, [3])
    browser.type("#kind", "Decoder")
    assert browser.run(SHOWN) == drawn("decoder", 1, every)
    said = browser.run(ROWS)[7].split()
    assert said[-1] == heads[-1].looks_at == "previous"

    assert browser.complaints() == []
    assert browser.requests() == [file.as_uri()]

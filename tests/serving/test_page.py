"""The page in a real Chromium: `python -m pytest -m browser tests/serving`."""

import socket
import threading
import time

import pytest
import uvicorn

from t2t_repro.serving import app
from t2t_repro.serving.request import ServerRequest
from tests.serving.conftest import served

pytestmark = pytest.mark.browser
RIGHT, DOWN = "\ue014", "\ue015"


@pytest.fixture
def address(model):
    """Where the application listens, with a model that translates into capitals."""
    sock = socket.create_server(("127.0.0.1", 0))
    application = app.create(served(model), ServerRequest(max_sentence_tokens=9))
    config = uvicorn.Config(application, http="h11", ws="none", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    yield f"http://127.0.0.1:{sock.getsockname()[1]}/"
    server.should_exit = True
    thread.join(timeout=30)


@pytest.fixture
def page(browser, address):
    browser.complaints(), browser.requests()
    browser.open(address)
    yield browser
    asked = [url for url in browser.requests() if url.startswith(("http", "ws"))]
    assert asked and [url for url in asked if not url.startswith(address)] == []


def seen(browser, css, text):
    """Waits until an element is there and shows a text."""
    until, script = time.monotonic() + 20, "return document.querySelector(arguments[0])?.innerText"
    while (now := browser.run(script, css)) != text:
        assert time.monotonic() < until, f"{css} shows {now!r}, not {text!r}"
        time.sleep(0.05)


def test_a_sentence_its_translations_and_what_the_model_looks_at(page, tmp_path):
    page.type("#text", "a man sleeps")
    page.click("#go")
    seen(page, "#hypotheses li:nth-child(1)", "A MAN SLEEPS -0.250")
    assert page.text("#hypotheses li:nth-child(2)") == "A Man Sleeps no score"
    seen(page, "#heat tbody tr:nth-child(3) th", "SLEEPS")
    assert page.text("#heat thead") == "a man sleeps"
    cells = "return [...document.querySelectorAll('#heat tbody td')].map(c => c.textContent)"
    assert page.run(cells) == ["25"] * 9
    page.hover("#heat tbody tr:nth-child(2) td:nth-child(4)")
    assert page.text("#weight") == "MAN ← sleeps: 25.0 %"
    lit = page.run("return [...document.querySelectorAll('th.on')].map(h => h.textContent)")
    assert lit == ["sleeps", "MAN"]
    page.click("#hypotheses li:nth-child(2) button")
    seen(page, "#heat tbody tr:nth-child(1) th", "A")
    seen(page, "#heat tbody tr:nth-child(2) th", "Man")
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert page.complaints() == []


def test_the_keyboard_alone(page):
    page.type("#text", "b c\ue009\ue007")  # Control and Enter
    seen(page, "#hypotheses li:nth-child(1)", "B C -0.250")
    seen(page, "#heat tbody tr:nth-child(2) th", "C")
    page.run("document.querySelector('#heat tbody td[tabindex=\"0\"]').focus()")
    page.type("#heat tbody td[tabindex='0']", DOWN)
    assert page.text("#weight") == "C ← b: 25.0 %"
    page.type("#heat tbody td[tabindex='0']", RIGHT)
    assert page.text("#weight") == "C ← c: 25.0 %"
    page.type("#heat tbody td[tabindex='0']", RIGHT)  # there is no further cell
    assert page.text("#weight") == "C ← c: 25.0 %"
    assert page.run("return document.querySelectorAll('#heat [tabindex=\"0\"]').length") == 1


def test_errors_are_shown_and_the_next_sentence_is_translated(page):
    page.type("#text", "x " * 9)
    page.click("#go")
    until = time.monotonic() + 20
    while "9 tokens" not in page.text("#note") and time.monotonic() < until:
        time.sleep(0.05)
    assert "9 tokens" in page.text("#note")
    page.run("document.querySelector('#text').value = 'y'")
    page.click("#go")
    seen(page, "#hypotheses li:nth-child(1)", "Y -0.250")
    assert page.text("#note") == ""


def test_what_is_typed_is_text_and_not_markup(page):
    page.type("#text", "<img src=x onerror=alert(1)>")
    page.click("#go")
    seen(page, "#hypotheses li:nth-child(1)", "<IMG SRC=X ONERROR=ALERT(1)> -0.250")
    seen(page, "#heat tbody tr:nth-child(1) th", "<IMG")
    assert page.run("return document.images.length") == 0


def test_an_export_that_draws_no_attention(page, model):
    model.has_attention = False
    page.type("#text", "a")
    page.click("#go")
    seen(page, "#hypotheses li:nth-child(1)", "A -0.250")
    assert "attention" in page.text("#note")
    assert page.run("return document.querySelector('#map').hidden")
    assert page.complaints() == []

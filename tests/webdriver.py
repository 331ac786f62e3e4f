"""A real Chromium without a window, driven by chromedriver's own protocol (W3C WebDriver).

`python -m pytest -m browser` needs both on the PATH: Debian's packages chromium and
chromium-driver.
"""

import base64
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

# Without these a Chromium looks for updates, time and its owner by itself.
OPTIONS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --disable-dev-shm-usage
--window-size=1250,1400""".split()
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for an element's id
_BINARIES = ("chromium", "chromium-browser", "google-chrome")
_DRIVER = "chromedriver"


class Browser:
    """One page after another in one Chromium."""

    def __init__(self, address: str, binary: str, folder: pathlib.Path):
        self._base = address
        options = {"binary": binary, "args": [*OPTIONS, f"--user-data-dir={folder}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{answer['sessionId']}"

    def open(self, url: str) -> None:
        """Loads a page; returns when it has loaded."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Runs the body of a function in the page; returns what it returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def text(self, css: str) -> str:
        """Returns the text of an element as it is seen."""
        return self._call("GET", f"/element/{self._find(css)}/text")

    def click(self, css: str) -> None:
        """Clicks on an element as a person does: it must be there to be seen."""
        self._call("POST", f"/element/{self._find(css)}/click", {})

    def type(self, css: str, text: str) -> None:
        """Types into an element; "\\ue015" is arrow down, "\\ue00c" Escape, as WebDriver has it."""
        self._call("POST", f"/element/{self._find(css)}/value", {"text": text})

    def hover(self, css: str) -> None:
        """Points the mouse at an element."""
        here = {_ELEMENT: self._find(css)}
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": here}
        mouse = {"type": "pointer", "id": "mouse", "actions": [move]}
        self._call("POST", "/actions", {"actions": [mouse]})

    def screenshot(self, path: pathlib.Path) -> None:
        """Writes what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """Returns what the console has said since the last call: errors, and broken policies."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Returns the addresses that were asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]

    def close(self) -> None:
        """Ends Chromium."""
        self._call("DELETE", "")

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return self._call("POST", "/se/log", {"type": kind})

    def _find(self, css: str) -> str:
        return self._call("POST", "/element", {"using": "css selector", "value": css})[_ELEMENT]

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {json.load(error)['value']['message']}") from None


@contextlib.contextmanager
def chromium(folder: pathlib.Path) -> Iterator[Browser]:
    """Yields a new Browser that keeps its files in `folder`, and ends it.

    Raises:
        AssertionError: if Chromium or chromedriver is not installed.
    """
    binary, driver = next(filter(None, map(shutil.which, _BINARIES)), ""), shutil.which(_DRIVER)
    assert binary and driver, f"Expected {_BINARIES[0]} and {_DRIVER} on the PATH."
    process = subprocess.Popen(
        [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        said = (re.search(r"started successfully on port (\d+)", line) for line in process.stdout)
        port = next(filter(None, said))[1]
        browser = Browser(f"http://127.0.0.1:{port}", binary, folder)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()

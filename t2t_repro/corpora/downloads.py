"""Downloads that resume and show their progress.

Until it is complete, a file NAME is called NAME.incomplete, with its origin in
NAME.incomplete.json.
"""

import json
import os
import pathlib
import sys
from typing import Any

from t2t_repro import progress
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, sha256, write_json

_BLOCK = 1 << 18
_TIMEOUT = 30  # seconds without a byte


def download(url: str, path: str | os.PathLike, digest: str | None = None) -> None:
    """Downloads `url` to `path`, which appears only when it is whole.

    After a failure the received part is kept, and the next call resumes, if the server confirms
    that its file is the same.

    Args:
        url: http, https or ftp.
        path: the file.
        digest: the published SHA-256. Without one the length that the server announces must agree.

    Raises:
        UserError: if it cannot; the message names the URL, the file and the folder to put it in.
    """
    import http.client  # slow to load, and needed by few

    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + INCOMPLETE)
    by_hand = f"Download the file yourself, and save it as {path.name} in {path.parent}"
    try:
        _fetch(url, partial)
    except (OSError, http.client.HTTPException) as error:
        raise UserError(
            f"Cannot download {url} to {path}. Received: {error}. {by_hand}; or try again."
        ) from error
    found = sha256(partial) if digest else digest
    _state(partial).unlink()
    if found != digest:
        partial.unlink()
        raise UserError(
            f"Expected the file at {url} to have SHA-256 {digest}. Received: {found}. If you trust "
            f"the received file: {by_hand}."
        )
    os.replace(partial, path)


def _fetch(url: str, partial: pathlib.Path) -> None:
    """Downloads the missing rest of `partial`.

    Raises:
        OSError, http.client.HTTPException: if not all arrived.
        UserError: if the answer is a web page.
    """
    import urllib.error  # slow to load, and needed by few
    import urllib.request

    done = 0
    headers = {"User-Agent": "t2t_repro", "Accept-Encoding": "identity"}
    if partial.exists() and _state(partial).exists():
        state = json.loads(_state(partial).read_text())
        if state["url"] == url and state["validator"]:
            done = partial.stat().st_size
            headers |= {"Range": f"bytes={done}-", "If-Range": state["validator"]}
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # what is there is all of it, or more
            raise
        partial.unlink()
        return _fetch(url, partial)
    with response:
        name = partial.name.removesuffix(INCOMPLETE)
        if response.headers.get_content_type() == "text/html" and not name.endswith(".html"):
            raise UserError(
                f"Expected a file at {url}. Received: a web page. Open the URL in a browser, and "
                f"save the file as {name} in {partial.parent}."
            )
        start = done if getattr(response, "status", None) == 206 else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        if not start:
            partial.unlink(missing_ok=True)  # before the state that would not be its own
        state = {"url": url, "validator": _validator(response.headers)}
        write_json(_state(partial), state)
        print(f"Downloading {url} to {partial.parent}", file=sys.stderr, flush=True)
        with open(partial, "ab") as stream, progress.report(name, total, done=start) as advance:
            while block := response.read(_BLOCK):
                stream.write(block)
                advance(len(block))
    got = partial.stat().st_size
    if total is not None and got != total:
        raise OSError(f"the connection ended after {got:,} of {total:,} bytes")


def _validator(headers: Any) -> str:
    """Returns the version of the file at its URL; "" if the server gives none."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _state(partial: pathlib.Path) -> pathlib.Path:
    return partial.with_name(f"{partial.name}.json")

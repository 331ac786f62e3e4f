"""Downloads that go on where they stopped, are verified, and show how far they are.

While a file NAME arrives it is called NAME.incomplete, beside NAME.incomplete.json, which says what
it is a part of. Beside a whole one lies NAME.download.json: its URL, length and SHA-256.
"""

import hashlib
import json
import os
import pathlib
import sys
from typing import Any

from t2t_repro import progress, schema
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, write_text_atomic

_BLOCK = 1 << 18
_TIMEOUT = 30  # seconds without a byte


def download(url: str, path: str | os.PathLike, sha256: str | None = None) -> None:
    """Downloads `url` to `path`, which appears only when it is whole.

    What has arrived when it fails is kept, and the next call goes on from there, if the server can
    say that its file is still the same.

    Args:
        url: http, https or ftp.
        path: the file. A record of it is written beside it, see `verify`.
        sha256: the published checksum. Without one the length that the server announces must agree.

    Raises:
        UserError: if it cannot; the message names the URL, the file and the folder to put it in.
    """
    import http.client  # slow to load, and needed by few

    path = pathlib.Path(path)
    partial = path.with_name(path.name + INCOMPLETE)
    by_hand = f"Get it by hand and put it into {path.parent} as {path.name}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _fetch(url, partial)
    except (OSError, http.client.HTTPException) as error:
        kept = _kept(url, partial)
        again = f" Or repeat the command: it goes on from {kept:,} bytes." if kept else ""
        raise UserError(
            f"Cannot download {url} to {path}. Received: {error}. {by_hand}.{again}"
        ) from error
    digest = _sha256(partial)
    if sha256 is not None and digest != sha256:
        _remove(partial)
        raise UserError(
            f"Expected {url} to have SHA-256 {sha256}. Received: {digest}. {by_hand}, if you "
            "trust it."
        )
    record = {"url": url, "bytes": partial.stat().st_size, "sha256": digest}
    write_text_atomic(_record(path), json.dumps(record, indent=1) + "\n")
    os.replace(partial, path)
    _remove(partial)


def verify(path: str | os.PathLike, sha256: str | None = None) -> None:
    """Looks whether a file is still what was downloaded.

    A file that somebody put there is only compared with the published checksum: where it differs, a
    warning on stderr says so.

    Args:
        path: the file.
        sha256: its published checksum, if there is one.

    Raises:
        UserError: if the file differs from the record that `download` left beside it.
    """
    path = pathlib.Path(path)
    record = _read_json(_record(path))
    if not record and sha256 is None:
        return
    size, digest = path.stat().st_size, _sha256(path)
    if record and (size, digest) != (record.get("bytes"), record.get("sha256")):
        raise UserError(
            f"Expected {path} to be as it was downloaded: {record.get('bytes')} bytes, SHA-256 "
            f"{record.get('sha256')}. Received: {size} bytes, {digest}. Delete it and "
            f"{_record(path).name}, and try again."
        )
    if not record and digest != sha256:
        print(
            f"Warning: {path} is not the published file, which has SHA-256 {sha256}; it has "
            f"{digest}. It is used as it is.",
            file=sys.stderr,
        )


def _fetch(url: str, partial: pathlib.Path) -> None:
    """Gets what is missing of `partial`.

    Raises:
        OSError, http.client.HTTPException: if not all arrived.
        UserError: if the answer is a web page.
    """
    import urllib.error  # slow to load, and needed by few
    import urllib.request

    done, name = _kept(url, partial), partial.name.removesuffix(INCOMPLETE)
    headers = {"User-Agent": "t2t_repro", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": _read_json(_state(partial))["validator"]}
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT
        )
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the part is as long as the file, or longer
            raise
        if error.headers.get("Content-Range") != f"bytes */{done}":
            _remove(partial)
            _fetch(url, partial)
        return
    with response:
        if response.headers.get_content_type() == "text/html" and partial.stem[-5:] != ".html":
            raise UserError(
                f"Expected a file at {url}. Received: a web page. Open the URL in a browser, and "
                f"put the file into {partial.parent} as {name}."
            )
        start = done if getattr(response, "status", None) == 206 else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        if not start:
            partial.unlink(missing_ok=True)  # before the state that would not be its own
        state = {"url": url, "validator": _validator(response.headers)}
        write_text_atomic(_state(partial), json.dumps(state) + "\n")
        print(f"Downloading {url} to {partial.parent}", file=sys.stderr, flush=True)
        with open(partial, "ab") as stream, progress.report(name, total, done=start) as advance:
            while block := response.read(_BLOCK):
                stream.write(block)
                advance(len(block))
    got = partial.stat().st_size
    if total is not None and got != total:
        raise OSError(f"{got:,} of {total:,} bytes, then the end")


def _kept(url: str, partial: pathlib.Path) -> int:
    """Returns how many bytes of `url` an earlier call has left that one can go on from."""
    state = _read_json(_state(partial))
    usable = state.get("url") == url and state.get("validator") and partial.exists()
    return partial.stat().st_size if usable else 0


def _validator(headers: Any) -> str:
    """Returns what tells this file from a later one at its URL; "" if the server does not say."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _record(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{path.name}.download.json")


def _state(partial: pathlib.Path) -> pathlib.Path:
    return partial.with_name(f"{partial.name}.json")


def _remove(partial: pathlib.Path) -> None:
    partial.unlink(missing_ok=True)
    _state(partial).unlink(missing_ok=True)


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns what a record says, {} if it is not there or broken."""
    try:
        return schema.read(path, dict[str, Any])
    except (OSError, ValueError):
        return {}


def _sha256(path: pathlib.Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

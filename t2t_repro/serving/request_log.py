"""A line of JSON for each answer: when, what was asked for and how it ended, but no text."""

import datetime
import json
import logging
import os
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import append_line
from t2t_repro.outputs import check_outputs

_log = logging.getLogger(__name__)


class RequestLog:
    """The file that --request_log names; without one nothing is written.

    A line goes to whatever file has the name, so that it may be rotated at any time. Where none can
    be written the server's log says so, and the answer goes out all the same.

    Args:
        path: of the file, which is appended to.
        texts: whether what was asked and what was answered is written too.
        models: {what names it: the folder of a model}.

    Raises:
        UserError: if the file cannot be written, or lies in such a folder.
    """

    def __init__(
        self,
        path: str | os.PathLike | None = None,
        texts: bool = False,
        models: dict[str, str | os.PathLike | None] | None = None,
    ):
        self._path, self.texts = path, texts
        if path is None:
            return
        check_outputs({"--request_log": path}, models or {})
        try:
            open(path, "ab").close()
        except OSError as error:
            raise UserError(
                f"Expected --request_log, a file that can be written. Received: {path} "
                f"({error.strerror}). Name another."
            ) from error

    def write(self, path: str, status: int, seconds: float, about: dict[str, Any]) -> None:
        """Appends an answer: its path, HTTP's status, how long it took, and what else is known."""
        if self._path is None:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "path": path, "status": status, "seconds": round(seconds, 4), **about}
        try:
            append_line(self._path, json.dumps(line, ensure_ascii=False))
        except OSError as error:
            _log.error("The request log %s cannot be written: %s.", self._path, error.strerror)

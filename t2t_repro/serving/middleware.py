"""What stands around every path: the size of a request's head, headers that keep a browser safe,
metrics, and the request log; and the form of an error."""

import itertools
import time

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_repro.serving.metrics import Metrics
from t2t_repro.serving.request_log import RequestLog

ABOUT = "t2t_repro.about"  # in a request's scope: what the request log says of it
RETRY = {"Retry-After": "1"}


def error_answer(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Returns an answer that is an error."""
    return JSONResponse({"error": message}, status, headers)


TOO_MANY_CONNECTIONS = error_answer(
    503, "Expected fewer connections at once: try again.", {**RETRY, "Connection": "close"}
)


class SmallHeads:
    """Middleware: refuses a request whose path and headers are large, though they came at once.

    Args:
        app: what answers.
        most: bytes of both.
    """

    def __init__(self, app: ASGIApp, most: int):
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            parts = [
                scope["method"],
                scope["path"],
                scope["query_string"],
                *itertools.chain(*scope["headers"]),
            ]
            if sum(map(len, parts)) > self._most:
                expected = f"Expected a path and headers of at most {self._most} bytes"
                message = f"{expected}. Received: more. Send less, and text in the body."
                app = error_answer(431, message, {"Connection": "close"})
        await app(scope, receive, send)


class Observed:
    """Middleware: counts and logs each answer, and gives it the headers that keep a browser safe.

    Args:
        app: what answers.
        metrics: where to count.
        log: where to write; what a handler puts into scope[ABOUT] too.
        paths: those that are counted by name.
        policy: the Content-Security-Policy.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        log: RequestLog,
        paths: frozenset[str],
        policy: str,
    ):
        self._app, self._metrics, self._log, self._paths = app, metrics, log, paths
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, about = time.perf_counter(), 500, scope.setdefault(ABOUT, {})

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            seconds = time.perf_counter() - start
            self._metrics.request(path, status, seconds)
            self._log.write(path, status, seconds, about)

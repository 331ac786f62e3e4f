"""The application: who asks what, and in which form the answer goes back."""

import asyncio
import contextlib
import dataclasses
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_repro import __version__
from t2t_repro.errors import UserError
from t2t_repro.page_policy import page_policy
from t2t_repro.serving import libretranslate, schemas
from t2t_repro.serving.batching import Batcher, Closed, Compute, QueueFull
from t2t_repro.serving.exported import Question
from t2t_repro.serving.metrics import Metrics
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.schemas import Limits
from t2t_repro.serving.sentences import Text, Translation, Whole

CLIENT_CLOSED = 499  # nobody reads it; the metrics count it
_RETRY, _CLOSE = {"Retry-After": "1"}, {"Connection": "close"}


def create(models: Sequence[ServedModel], limits: Limits, **batching: Any) -> FastAPI:
    """Returns the application; it computes until its lifespan ends.

    Args:
        models: what translates, the first where a request names none.
        limits: what is refused.
        batching: arguments of `Batcher`.
    """
    service = _Service(models, limits, batching)
    page = resources.files("t2t_repro.serving").joinpath("page.html").read_text(encoding="utf-8")

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    # The pages that FastAPI makes of openapi.json load scripts from elsewhere.
    about: dict[str, Any] = {"title": "t2t_repro", "version": __version__}
    app = FastAPI(**about, lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.get("/", response_class=HTMLResponse)
    async def show_page() -> str:
        return page

    def post(path: str, does: Any, answer: Any, *bodies: Any) -> None:
        """Adds a path that takes a body, JSON whatever its Content-Type says."""
        each = [body.model_json_schema() for body in bodies]
        content = {"application/json": {"schema": {"anyOf": each} if len(each) > 1 else each[0]}}
        extra = {"requestBody": {"required": True, "content": content}}
        described: dict[int | str, dict[str, Any]] = {200: {"model": answer}}
        app.post(path, responses=described, openapi_extra=extra, description=does.__doc__)(does)

    post("/translate", service.translate, schemas.Translations, schemas.Translate, schemas.Libre)
    post("/attention", service.attend, schemas.Looked, schemas.Attend)
    post("/detect", service.detect, list[dict[str, Any]], schemas.Detect)
    app.get("/languages")(service.languages)
    app.get("/healthz")(service.health)
    app.get("/metrics", response_class=Response)(service.show_metrics)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "The server failed; its log says why."}, 500)

    @app.exception_handler(UserError)  # of an encoder that knows some words alone
    async def refuse_text(request: Request, error: UserError) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(404)
    @app.exception_handler(405)
    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    policy = page_policy(page, "connect-src 'self'", "img-src data:", "frame-ancestors 'none'")
    app.add_middleware(_Observed, metrics=service.metrics, policy=policy)
    return app


class _Service:
    """The endpoints."""

    def __init__(self, models: Sequence[ServedModel], limits: Limits, batching: dict[str, Any]):
        self.models, self.limits = models, limits
        self.metrics = Metrics(lambda: len(self.batcher))
        compute: dict[str, Compute] = {}
        for served in models:
            for kind in (f"translate {served.name}", f"translate {served.name}, best"):
                compute[kind] = served.model.translate
            compute[f"attention {served.name}"] = served.model.attend
        self.batcher = Batcher(compute, observe=self.metrics.batch, **batching)

    async def translate(self, request: Request) -> Response:
        """Translates texts, each line of them sentence by sentence; with "q" as LibreTranslate."""
        values = schemas.values_of(await self._body(request))
        if "q" in values:
            return JSONResponse(await self._translate_libre(request, values))
        body: schemas.Translate = schemas.checked(schemas.Translate, values)
        served = self._named(body.model)
        if body.n_best > served.model.beam_size:
            raise schemas.bad(f'"n_best" of at most {served.model.beam_size}, the model\'s beams')
        texts = schemas.split_texts(body.inputs, served.source, self.limits, body.split)
        translated = await self._translate(request, served, texts, body.n_best)
        return JSONResponse({"translations": [dataclasses.asdict(each) for each in translated]})

    async def _translate_libre(self, request: Request, values: dict[str, Any]) -> dict[str, Any]:
        asked = await asyncio.to_thread(
            libretranslate.Asked.of, values, self.models, self.limits
        )  # the first text whose language is to be found waits for the identifier
        return asked.answer(await self._translate(request, asked.served, asked.texts, asked.n_best))

    async def languages(self) -> list[dict[str, Any]]:
        """Says what is translated into what, as LibreTranslate does."""
        return libretranslate.languages(self.models)

    async def detect(self, request: Request) -> Response:
        """Says in which of the served languages a text is, the likeliest first, in percent."""
        values = schemas.values_of(await self._body(request))
        return JSONResponse(await asyncio.to_thread(libretranslate.detect, values, self.models))

    def _named(self, name: str | None) -> ServedModel:
        """The model that is asked for; the first where none is."""
        for served in self.models:
            if name in (None, served.name):
                return served
        raise schemas.bad(f'"model", one of {", ".join(each.name for each in self.models)}')

    async def _translate(
        self, request: Request, served: ServedModel, texts: list[Text], n_best: int
    ) -> list[Whole]:
        """The translation of each text."""
        sentences = [sentence for text in texts for sentence in text.sentences]
        answers: list[Any] = []
        if sentences:
            tokens = await served.count_tokens(sentences)
            schemas.check_lengths(tokens, self.limits.max_sentence_tokens)
            beams = n_best > 1
            questions = [Question(sentence, beams) for sentence in sentences]
            kind = f"translate {served.name}{'' if beams else ', best'}"
            answers = await self._compute(request, kind, questions, tokens)
        rest = iter(
            Translation.of(sentence, hypotheses[:n_best])
            for sentence, hypotheses in zip(sentences, answers, strict=True)
        )
        return [
            Whole.of_text(text, list(itertools.islice(rest, len(text.sentences)))) for text in texts
        ]

    async def attend(self, request: Request) -> Response:
        """Says what each token of a translation looks at: a weight for each source token."""
        values = schemas.values_of(await self._body(request))
        body: schemas.Attend = schemas.checked(schemas.Attend, values)
        served = self._named(body.model)
        model = served.model
        if not model.has_attention:
            raise HTTPException(501, "Expected a SavedModel with the signature 'attention'.")
        (source,) = await asyncio.to_thread(model.count_tokens, [body.inputs])
        (target,) = await asyncio.to_thread(model.count_target_tokens, [body.targets])
        schemas.check_lengths([source], self.limits.max_sentence_tokens)
        schemas.check_lengths([source, target], model.longest)
        pair = (body.inputs, body.targets)
        kind, length = f"attention {served.name}", max(source, target)
        (answer,) = await self._compute(request, kind, [pair], [length])
        return JSONResponse({"input": body.inputs, "translation": body.targets, **vars(answer)})

    async def health(self) -> JSONResponse:
        """Says whether it works: 200, or 503 when it stops; and what it serves."""
        working = self.batcher.working
        about = {
            "status": "ok" if working else "stopping",
            "models": [
                {
                    "name": served.name,
                    "source": served.source,
                    "target": served.target,
                    "sha256": served.model.sha256,
                    "problem": served.record and served.record.problem,
                    "step": served.record and served.record.step,
                    "beam_size": served.model.beam_size,
                    "alpha": served.model.alpha,
                    "attention": served.model.has_attention,
                }
                for served in self.models
            ],
            "limits": vars(self.limits),
        }
        return JSONResponse(about, 200 if working else 503)

    async def show_metrics(self) -> Response:
        """Shows metrics for Prometheus."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _body(self, request: Request) -> bytes:
        most, body = self.limits.max_body_bytes, bytearray()
        length = request.headers.get("content-length", "")
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                if not length.isdecimal() or int(length) <= most:
                    async for chunk in request.stream():
                        body += chunk
                        if len(body) > most:
                            break
                    else:
                        return bytes(body)
        except TimeoutError as error:
            message = f"Expected the whole request within {self.limits.timeout_s:g} seconds."
            raise HTTPException(408, message, _CLOSE) from error
        except ClientDisconnect as error:
            raise HTTPException(CLIENT_CLOSED, "The client left.") from error
        raise HTTPException(413, f"Expected a request of at most {most} bytes.", _CLOSE)

    async def _compute(
        self, request: Request, kind: str, payloads: Sequence[Any], tokens: list[int]
    ) -> list[Any]:
        """The results of all payloads; none is computed any more for a client that has left."""
        try:
            futures = self.batcher.submit(kind, payloads, tokens)
        except QueueFull as error:
            message = "Expected fewer requests at once: try again."
            raise HTTPException(503, message, _RETRY) from error
        except Closed as error:
            raise HTTPException(503, "The server stops.", _RETRY) from error
        work: asyncio.Future[Any] = asyncio.gather(*map(asyncio.wrap_future, futures))
        work.add_done_callback(_looked_at)
        left: asyncio.Future[Any] = asyncio.ensure_future(_disconnect(request))
        try:
            done, _ = await asyncio.wait(
                {work, left},
                timeout=self.limits.timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if work in done:
                return work.result()
        except Exception as error:  # the batcher has logged it
            message = "This could not be computed; the server's log says why."
            raise HTTPException(500, message) from error
        finally:
            for future in futures:  # now: the batcher must not begin with them
                future.cancel()
            work.cancel(), left.cancel()
        if left in done:
            raise HTTPException(CLIENT_CLOSED, "The client left.")
        message = f"Expected an answer within {self.limits.timeout_s:g} seconds. Received: none."
        raise HTTPException(504, message)


class _Observed:
    """Middleware: counts each answer, and gives it the headers that keep a browser safe.

    Args:
        app: what answers.
        metrics: where to count.
        policy: the Content-Security-Policy.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, policy: str):
        self._app, self._metrics = app, metrics
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
        start, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.request(path, status, time.perf_counter() - start)


def _looked_at(work: asyncio.Future) -> None:
    """Keeps asyncio from complaining of an error that nobody waits for any more."""
    if not work.cancelled():
        work.exception()


async def _disconnect(request: Request) -> None:
    """Returns when the client of a request, whose body was read, has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

"""The application: endpoints, answers and metrics."""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import resources
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as RoutingError
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t2t_repro import __version__
from t2t_repro.errors import UserError
from t2t_repro.page_policy import page_policy
from t2t_repro.serving import libretranslate, schemas
from t2t_repro.serving.batching import Batcher, Closed, Compute, QueueFull
from t2t_repro.serving.models import Attention, ServedModel
from t2t_repro.serving.request import ServerRequest
from t2t_repro.serving.schemas import Text, TextTranslation, Translation

MAX_BODY_BYTES = 1_000_000
_RETRY, _CLOSE = {"Retry-After": "1"}, {"Connection": "close"}
_BEST = ", best"  # in the kind of a job: the best hypothesis is enough
_FEW_CHARACTERS = 2000  # are counted in about the time that it takes to ask another thread
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def create(
    models: Sequence[ServedModel],
    settings: ServerRequest,
    stops: Callable[[], bool] = lambda: False,
    **batching: Any,
) -> FastAPI:
    """Returns the application; it computes until its lifespan ends.

    Args:
        models: those that translate; the first is the default.
        settings: limits, and the sizes of batches and queue.
        stops: whether it answers only what it was asked: clients then close their connections.
        batching: other arguments of `Batcher`.
    """
    service = _Service(models, settings, **batching)
    page = resources.files("t2t_repro.serving").joinpath("page.html").read_text(encoding="utf-8")

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    # The pages that FastAPI makes of openapi.json load scripts from elsewhere.
    about: dict[str, Any] = {"title": "t2t_repro", "version": __version__}
    app = FastAPI(**about, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.router.route_class = _Route

    @app.get("/", response_class=HTMLResponse)
    async def show_page(request: Request) -> Response:
        return HTMLResponse(page)

    def post(path: str, does: Any, answer: Any, *bodies: Any) -> None:
        """Adds a path that takes a body, JSON whatever its Content-Type says."""
        content = {"schema": {"anyOf": [body.model_json_schema() for body in bodies]}}
        body = {"requestBody": {"required": True, "content": {"application/json": content}}}
        app.post(path, responses={200: {"model": answer}}, openapi_extra=body)(does)

    answer = dict[str, list[TextTranslation]]
    post("/translate", service.translate, answer, schemas.Translate, schemas.Libre)
    post("/attention", service.attend, Attention, schemas.Attend)
    post("/detect", service.detect, list[dict[str, Any]], schemas.Detect)
    app.get("/languages")(service.languages)
    app.post("/languages", include_in_schema=False)(service.languages)  # as Argos's client asks
    app.get("/healthz")(service.health)
    app.get("/metrics", response_class=Response)(service.show_metrics)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        return _Answer({"error": "The server failed. Its log has the cause."}, 500)

    @app.exception_handler(ValidationError)  # of a body
    async def refuse_body(request: Request, error: ValidationError) -> Response:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f'"{name}": ' for name in first["loc"][:1])
        return _Answer({"error": f"{where}{first['msg']}."}, 400)

    @app.exception_handler(UserError)  # of an encoder that knows some words alone
    async def refuse_text(request: Request, error: UserError) -> Response:
        return _Answer({"error": str(error)}, 400)

    @app.exception_handler(RoutingError)  # which FastAPI's HTTPException is too
    async def refuse(request: Request, error: RoutingError) -> Response:
        return _Answer({"error": error.detail}, error.status_code, error.headers)

    policy = page_policy(page, "connect-src 'self'", "img-src data:", "frame-ancestors 'none'")
    headers = {  # what keeps a browser safe
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    if settings.cors_origin:  # pages from elsewhere may ask
        what: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origin, **what)
    app.add_middleware(_observed, metrics=service.metrics, headers=headers, stops=stops)
    return app


class _Route(APIRoute):
    """A route that hands its endpoint the request: these look for no parameters of their own."""

    def get_route_handler(self) -> Any:
        return self.endpoint


class _Answer(Response):
    """Any value as JSON, dataclasses too."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


class _Service:
    """The endpoints."""

    def __init__(self, models: Sequence[ServedModel], settings: ServerRequest, **batching: Any):
        self.models, self.settings = models, settings
        self.metrics = _Metrics(lambda: len(self.batcher))
        compute: dict[str, Compute] = {}
        for served in models:  # jobs of two kinds share no batch
            name, model = served.name, served.model
            compute[f"translate {name}"] = functools.partial(model.translate, beams=True)
            compute[f"translate {name}{_BEST}"] = functools.partial(model.translate, beams=False)
            if model.has_attention:
                compute[f"attention {name}"] = model.attend
        sizes = {name: getattr(settings, name) for name in ("max_batch_size", "max_queue")}
        self.batcher = Batcher(compute, observe=self.metrics.batch, **sizes | batching)

    async def translate(self, request: Request) -> Response:
        """Translates texts, each line of them sentence by sentence; with "q" as LibreTranslate."""
        values = await self._values(request)
        if "q" in values:
            return _Answer(await self._translate_libre(schemas.Libre.model_validate(values)))
        body = schemas.Translate.model_validate(values)
        served = self._named(body.model)
        most = served.record.decoding["beam_size"]
        if body.n_best > most:
            raise schemas.bad(f'"n_best" of at most {most}, the model\'s beam size')
        split = (served.source, self.settings.max_sentences, body.split)
        texts = schemas.split_texts(body.inputs, *split)
        translated = await self._translate(served, texts, body.n_best)
        return _Answer({"translations": translated})

    async def _translate_libre(self, body: schemas.Libre) -> dict[str, Any]:
        # The first text whose language is to be found waits for the identifier.
        served, detected = await asyncio.to_thread(libretranslate.choose, body, self.models)
        n_best = min(1 + body.alternatives, int(served.record.decoding["beam_size"]))
        texts = schemas.split_texts(body.q, served.source, self.settings.max_sentences)
        translated = await self._translate(served, texts, n_best)
        return libretranslate.answer(body, detected, n_best, translated)

    async def languages(self, request: Request) -> Response:
        """Lists the pairs of languages, as LibreTranslate does."""
        return _Answer(libretranslate.languages(self.models))

    async def detect(self, request: Request) -> Response:
        """Detects the language of a text among those served: the likeliest first, in percent."""
        text = schemas.Detect.model_validate(await self._values(request)).q
        return _Answer(await asyncio.to_thread(libretranslate.detect, text, self.models))

    def _named(self, name: str | None) -> ServedModel:
        """Returns the requested model; the first if none is named."""
        for served in self.models:
            if name in (None, served.name):
                return served
        raise schemas.bad(f'"model" to be one of {", ".join(each.name for each in self.models)}')

    async def _translate(
        self, served: ServedModel, texts: list[Text], n_best: int
    ) -> list[TextTranslation]:
        """Returns the translation of each text."""
        sentences = [sentence for text in texts for sentence in text.sentences]
        answers: list[Any] = []
        if sentences:
            count = served.model.count_tokens
            if served.model.counts_at_once and sum(map(len, sentences)) <= _FEW_CHARACTERS:
                tokens = count(sentences)
            else:
                tokens = await asyncio.to_thread(count, sentences)
            schemas.check_lengths(tokens, self.settings.max_sentence_tokens)
            kind = f"translate {served.name}{'' if n_best > 1 else _BEST}"
            answers = await self._compute(kind, sentences, tokens)
        rest = iter(
            Translation(sentence, found[0].translation, found[0].score, found[:n_best])
            for sentence, found in zip(sentences, answers, strict=True)
        )
        return [text.translated(rest) for text in texts]

    async def attend(self, request: Request) -> Response:
        """Returns the attention of each target token: a weight for each source token."""
        body = schemas.Attend.model_validate(await self._values(request))
        served = self._named(body.model)
        model = served.model
        if not model.has_attention:
            raise HTTPException(501, f"Expected a SavedModel with attention, not {served.name}.")
        (source,) = await asyncio.to_thread(model.count_tokens, [body.inputs])
        (target,) = await asyncio.to_thread(model.count_target_tokens, [body.targets])
        schemas.check_lengths([source], self.settings.max_sentence_tokens)
        schemas.check_lengths([source, target], model.longest)
        pair, length = (body.inputs, body.targets), max(source, target)
        (answer,) = await self._compute(f"attention {served.name}", [pair], [length])
        return _Answer(answer)

    async def health(self, request: Request) -> Response:
        """Reports 200, or 503 while stopping; models, limits and hashes."""
        working = self.batcher.working
        limits = ("max_sentences", "max_sentence_tokens", "timeout_s")
        about = {
            "status": "ok" if working else "stopping",
            "models": [
                {
                    **{name: getattr(served, name) for name in ("name", "source", "target")},
                    **{name: getattr(served.record, name) for name in ("problem", "step")},
                    **{name: served.record.decoding[name] for name in ("beam_size", "alpha")},
                    "sha256": served.model.sha256,
                    "attention": served.model.has_attention,
                }
                for served in self.models
            ],
            "limits": {name: getattr(self.settings, name) for name in limits},
        }
        return _Answer(about, 200 if working else 503)

    async def show_metrics(self, request: Request) -> Response:
        """Returns metrics for Prometheus."""
        metrics = generate_latest(self.metrics.registry)
        return Response(metrics, media_type="text/plain; version=0.0.4")

    async def _values(self, request: Request) -> dict[str, Any]:
        body = bytearray()
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        message = f"Expected a request of at most {MAX_BODY_BYTES} bytes."
                        raise HTTPException(413, message, _CLOSE)
            return schemas.values_of(request, bytes(body))
        except TimeoutError as error:
            message = f"Expected the whole request within {self.settings.timeout_s:g} seconds."
            raise HTTPException(408, message, _CLOSE) from error
        except ClientDisconnect as error:
            raise HTTPException(499, "The client disconnected.") from error  # for the metrics

    async def _compute(self, kind: str, payloads: Sequence[Any], tokens: list[int]) -> list[Any]:
        """Returns the results of all payloads; after the time limit no more are computed."""
        try:
            futures = self.batcher.submit(kind, payloads, tokens)
            async with asyncio.timeout(self.settings.timeout_s):
                return await asyncio.gather(*map(asyncio.wrap_future, futures))
        except (QueueFull, Closed) as error:
            message = "The queue is full, or the server is stopping. Try again later."
            raise HTTPException(503, message, _RETRY) from error
        except TimeoutError as error:
            message = f"No answer within {self.settings.timeout_s:g} seconds. Send less text."
            raise HTTPException(504, message) from error
        except Exception as error:  # the batcher logged it
            message = "The computation failed. The server's log has the cause."
            raise HTTPException(500, message) from error


class _Metrics:
    """The metrics of a server, for Prometheus; `queue_length` returns how many sentences wait."""

    def __init__(self, queue_length: Callable[[], int]):
        self.registry = CollectorRegistry()
        kept: dict[str, Any] = {"registry": self.registry}
        seconds, batch = kept | {"buckets": _SECONDS}, ["kind", "model"]
        ProcessCollector(**kept)  # memory, processor time, open files
        Gauge("t2t_queue_length", "Jobs waiting in the queue.", **kept).set_function(queue_length)
        self._requests = Counter("t2t_requests", "Requests answered.", ["path", "status"], **kept)
        self._latency = Histogram("t2t_request_seconds", "Seconds per answer.", ["path"], **seconds)
        self._sentences = Counter("t2t_sentences", "Sentences translated.", ["model"], **kept)
        self._batch_seconds = Histogram("t2t_batch_seconds", "Seconds per batch.", batch, **seconds)
        sizes = kept | {"buckets": _SIZES}
        self._batch_size = Histogram("t2t_batch_size", "Jobs per batch.", batch, **sizes)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self._requests.labels(path, str(status)).inc()
        self._latency.labels(path).observe(seconds)

    def batch(self, kind: str, size: int, seconds: float) -> None:
        """Counts a batch that was computed."""
        kind, _, model = kind.removesuffix(_BEST).partition(" ")
        self._batch_size.labels(kind, model).observe(size)
        self._batch_seconds.labels(kind, model).observe(seconds)
        if kind == "translate":
            self._sentences.labels(model).inc(size)


def _observed(
    app: ASGIApp, metrics: _Metrics, headers: dict[str, str], stops: Callable[[], bool]
) -> ASGIApp:
    """Middleware: counts each answer and adds headers."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        start, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(headers | (_CLOSE if stops() else {}))
            await send(message)

        try:
            await app(scope, receive, send_and_note)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            metrics.request(path, status, time.perf_counter() - start)

    return call

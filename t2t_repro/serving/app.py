"""The ASGI application: who asks what, and in which form the answer goes back."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from t2t_repro.errors import UserError
from t2t_repro.page_policy import page_policy
from t2t_repro.serving import libretranslate, openapi
from t2t_repro.serving.batching import Batcher, Closed, Compute, QueueFull
from t2t_repro.serving.exported import Question
from t2t_repro.serving.metrics import Metrics
from t2t_repro.serving.middleware import ABOUT, RETRY, Observed, SmallHeads, error_answer
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.request_log import RequestLog
from t2t_repro.serving.requests import (
    AttentionRequest,
    Limits,
    Refused,
    TranslateRequest,
    check_lengths,
    json_object,
)
from t2t_repro.serving.sentences import Text, Translation

CLIENT_CLOSED = 499  # nobody reads it; the metrics count it


def create(
    models: Sequence[ServedModel],
    limits: Limits,
    log: RequestLog | None = None,
    **batching: Any,
) -> Starlette:
    """Returns the application; it computes until its lifespan ends.

    Args:
        models: what translates, the first where a request names none.
        limits: what is refused.
        log: is told of each answer; None: there is none.
        batching: arguments of `Batcher`.
    """
    log = log or RequestLog()
    service = _Service(models, limits, batching, log.texts)
    description = openapi.describe(models, limits)
    page = resources.files("t2t_repro.serving").joinpath("page.html").read_text(encoding="utf-8")

    async def show_page(request: Request) -> Response:
        return HTMLResponse(page)

    async def show_description(request: Request) -> Response:
        return JSONResponse(description)

    async def show_docs(request: Request) -> Response:
        return HTMLResponse(openapi.page(description, str(request.base_url).rstrip("/")))

    async def fail(request: Request, error: Exception) -> Response:
        return error_answer(500, "The server failed; its log says why.")

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return error_answer(error.status, error.message, error.headers)

    async def refuse_text(request: Request, error: Exception) -> Response:
        return error_answer(400, str(error))

    async def refuse_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        paths = ", ".join(route.path for route in routes)
        message = f"{error.detail}. This server has {paths}; docs/server.md describes them."
        return error_answer(error.status_code, message, dict(error.headers or {}))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    routes = [
        Route("/", show_page),
        Route("/translate", service.translate, methods=["POST"]),
        Route("/languages", service.languages),
        Route("/detect", service.detect, methods=["POST"]),
        Route("/attention", service.attend, methods=["POST"]),
        Route("/healthz", service.health),
        Route("/metrics", service.show_metrics),
        Route("/openapi.json", show_description),
        Route("/docs", show_docs),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            Refused: refuse,
            UserError: refuse_text,  # of an encoder that knows some words alone
            HTTPException: refuse_http,
            Exception: fail,
        },
        lifespan=lifespan,
    )
    paths = frozenset(route.path for route in routes)
    pages = page + openapi.page(description, "")
    policy = page_policy(pages, "connect-src 'self'", "img-src data:", "frame-ancestors 'none'")
    app.add_middleware(SmallHeads, most=limits.max_head_bytes)
    app.add_middleware(Observed, metrics=service.metrics, log=log, paths=paths, policy=policy)
    return app


class _Service:
    """The endpoints."""

    def __init__(
        self,
        models: Sequence[ServedModel],
        limits: Limits,
        batching: dict[str, Any],
        log_texts: bool,
    ):
        self.models, self.limits, self._log_texts = models, limits, log_texts
        self.metrics = Metrics(lambda: len(self.batcher))
        compute: dict[str, Compute] = {}
        for served in models:
            compute[f"translate {served.name}"] = served.model.translate
            compute[f"translate {served.name}, best"] = served.model.translate
            compute[f"attention {served.name}"] = served.model.attend
        self.batcher = Batcher(compute, observe=self.metrics.batch, **batching)

    async def translate(self, request: Request) -> Response:
        body = await self._body(request)
        values = libretranslate.form(body) or json_object(body)
        if "q" in values:
            return JSONResponse(await self._translate_libre(request, values))
        asked = TranslateRequest.of(values, self.models, self.limits)
        translated = await self._translate(
            request, asked.served, asked.inputs, asked.n_best, asked.alpha
        )
        return JSONResponse(
            {
                "translations": [
                    {
                        **Translation.of_text(text, sentences).as_json(),
                        "sentences": [sentence.as_json() for sentence in sentences],
                    }
                    for text, sentences in zip(asked.inputs, translated, strict=True)
                ]
            }
        )

    async def _translate_libre(self, request: Request, values: dict[str, Any]) -> dict[str, Any]:
        asked = await asyncio.to_thread(
            libretranslate.Asked.of, values, self.models, self.limits
        )  # the first text whose language is to be found waits for the identifier
        translated = await self._translate(request, asked.served, asked.texts, asked.n_best)
        return asked.answer(
            [
                Translation.of_text(text, sentences)
                for text, sentences in zip(asked.texts, translated, strict=True)
            ]
        )

    async def languages(self, request: Request) -> Response:
        return JSONResponse(libretranslate.languages(self.models))

    async def detect(self, request: Request) -> Response:
        body = await self._body(request)
        values = libretranslate.form(body) or json_object(body)
        return JSONResponse(await asyncio.to_thread(libretranslate.detect, values, self.models))

    async def _translate(
        self,
        request: Request,
        served: ServedModel,
        texts: list[Text],
        n_best: int,
        alpha: float | None = None,
    ) -> list[list[Translation]]:
        """The translations of the sentences of each text."""
        sentences = [sentence for text in texts for sentence in text.sentences]
        about = request.scope[ABOUT]
        about |= {
            "model": served.name,
            "sentences": len(sentences),
            "characters": sum(map(len, sentences)),
        }
        if self._log_texts:
            about["inputs"] = [text.text for text in texts]
        if not sentences:
            return [[] for _ in texts]
        tokens = await served.count_tokens(sentences)
        check_lengths(tokens, self.limits.max_sentence_tokens)
        beams = n_best > 1
        questions = [Question(sentence, alpha, beams) for sentence in sentences]
        kind = f"translate {served.name}{'' if beams else ', best'}"
        answers = await self._compute(request, kind, questions, tokens)
        translated = [
            Translation.of(sentence, hypotheses[:n_best])
            for sentence, hypotheses in zip(sentences, answers, strict=True)
        ]
        about["flags"] = list(itertools.chain.from_iterable(each.flags for each in translated))
        for flag in about["flags"]:
            self.metrics.flag(flag)
        if self._log_texts:
            about["translations"] = [each.translation for each in translated]
        rest = iter(translated)
        return [list(itertools.islice(rest, len(text.sentences))) for text in texts]

    async def attend(self, request: Request) -> Response:
        asked = AttentionRequest.of(json_object(await self._body(request)), self.models)
        model = asked.served.model
        if not model.has_attention:
            raise Refused(
                501,
                "Expected an export that draws attention. Received: one without the signature "
                "'attention'. Export the run again, by --format=saved_model.",
            )
        (source,) = await asyncio.to_thread(model.count_tokens, [asked.inputs])
        (target,) = await asyncio.to_thread(model.count_target_tokens, [asked.targets])
        check_lengths([source], self.limits.max_sentence_tokens)
        check_lengths([source, target], model.longest)
        pair = (asked.inputs, asked.targets)
        kind, length = f"attention {asked.served.name}", max(source, target)
        (answer,) = await self._compute(request, kind, [pair], [length])
        return JSONResponse({"input": asked.inputs, "translation": asked.targets, **vars(answer)})

    async def health(self, request: Request) -> Response:
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
                    "any_alpha": served.model.any_alpha,
                    "attention": served.model.has_attention,
                }
                for served in self.models
            ],
            "limits": vars(self.limits),
        }
        return JSONResponse(about, 200 if working else 503)

    async def show_metrics(self, request: Request) -> Response:
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
            raise Refused(408, message, {"Connection": "close"}) from error
        except ClientDisconnect as error:
            raise Refused(CLIENT_CLOSED, "The client left.") from error
        raise Refused(
            413,
            f"Expected a request of at most {most} bytes. Received: more. Send it in several.",
            {"Connection": "close"},
        )

    async def _compute(
        self, request: Request, kind: str, payloads: Sequence[Any], tokens: list[int]
    ) -> list[Any]:
        """The results of all payloads; none is computed any more for a client that has left."""
        try:
            futures = self.batcher.submit(kind, payloads, tokens)
        except QueueFull as error:
            raise Refused(503, "Expected fewer requests at once: try again.", RETRY) from error
        except Closed as error:
            raise Refused(503, "The server stops.", RETRY) from error
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
            if left in done:
                raise Refused(CLIENT_CLOSED, "The client left.")
        except Refused:
            raise
        except Exception as error:  # the batcher has logged it
            raise Refused(500, "This could not be computed; the server's log says why.") from error
        finally:
            work.cancel(), left.cancel()
        raise Refused(
            504,
            f"Expected an answer within {self.limits.timeout_s:g} seconds. Received: none. Try "
            "again, with fewer or shorter sentences.",
        )


def _looked_at(work: asyncio.Future) -> None:
    """Keeps asyncio from complaining of an error that nobody waits for any more."""
    if not work.cancelled():
        work.exception()


async def _disconnect(request: Request) -> None:
    """Returns when the client of a request, whose body was read, has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

"""The server as a whole: its settings, its socket, and how it begins and ends."""

import dataclasses
import functools
import ipaddress
import math
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

from t2t_repro.errors import UserError
from t2t_repro.serving import app, models
from t2t_repro.serving.schemas import Limits

OpenEngine = Callable[..., Any]  # models.OpenEngine, which is told of the searches
_WAITING = 2048  # connections that the kernel keeps until they are answered, as uvicorn's


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The flags of t2t-server, by their names."""

    model: list[str]
    host: str
    port: int
    max_batch_size: int
    max_batch_tokens: int
    batch_timeout_ms: int
    max_queue: int
    max_sentences: int
    max_body_bytes: int
    max_sentence_tokens: int | None
    timeout_s: float


def serve(settings: ServerSettings, open_engine: OpenEngine) -> None:
    """Loads the models and answers until a signal comes.

    Args:
        settings: the flags.
        open_engine: opens CTranslate2 with the model of an export, for so many searches.

    Raises:
        UserError: if there is no export, it cannot be loaded, or the address cannot be had.
    """
    folders = models.find(settings.model)
    # oneDNN's kernels in TensorFlow keep something for each shape, and a server sees them all.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    with _listen(settings.host, settings.port) as sock:
        print(f"Loading {', '.join(str(folder.path) for folder in folders)} ...", flush=True)
        searches = models.searches(settings.max_batch_size)
        opening = functools.partial(open_engine, searches=searches)
        served = [folder.load(opening) for folder in folders]
        _answer(served, sock, settings, searches)


def _listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens on the address; who connects waits for an answer.

    Raises:
        UserError: if the address is not this machine's, or its port is taken.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_WAITING)  # two may bind it until one listens
    except OSError as error:
        sock.close()
        raise UserError(
            f"Expected --host and --port on which nothing listens. Received: {host}, port {port} "
            f"({error.strerror}). Give another --port; 0 takes one that is free."
        ) from error
    return sock


def _answer(
    served: list[models.ServedModel],
    sock: socket.socket,
    settings: ServerSettings,
    searches: int,
) -> None:
    """Answers on the bound socket until SIGTERM or SIGINT, and then what it was asked already."""
    limits = Limits.of(
        served,
        settings.max_sentence_tokens,
        max_body_bytes=settings.max_body_bytes,
        max_sentences=settings.max_sentences,
        timeout_s=settings.timeout_s,
    )
    application = app.create(
        served,
        limits,
        max_batch_size=settings.max_batch_size,
        max_batch_tokens=settings.max_batch_tokens,
        batch_timeout=settings.batch_timeout_ms / 1000,
        max_queue=settings.max_queue,
        searches=searches,
    )
    config = uvicorn.Config(
        application,
        http="h11",
        ws="none",
        loop="asyncio",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(2 * settings.timeout_s),
    )
    # uvicorn hears signals while it serves, and when it is done raises them again for us.
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda signum, frame: sys.exit(0))
    address, port = sock.getsockname()[:2]
    warn_of_reach(address)
    host = f"[{address}]" if ":" in address else address
    names = ", ".join(each.name for each in served)
    print(f"Serving {names} on http://{host}:{port}/ (Ctrl-C ends it)", flush=True)
    uvicorn.Server(config).run(sockets=[sock])


def warn_of_reach(address: str) -> None:
    """Warns where others than this machine can ask."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if not ip.is_loopback:
        where = "every address of this machine" if ip.is_unspecified else address
        print(
            f"t2t-server: warning: it listens on {where}: whoever reaches that may translate, "
            "without a password, and what is sent is not encrypted. --host=127.0.0.1 keeps it to "
            "this machine.",
            file=sys.stderr,
        )

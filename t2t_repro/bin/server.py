"""Serve a model that t2t-exporter wrote: translations over HTTP, and a page to try it.

    t2t-server --model=RUN/export/STEP

prints a line with its address when it is ready; open it in a browser, or

    curl http://127.0.0.1:8000/translate -d '{"inputs": "A man is sleeping."}'

Sentences of all clients are translated in batches. /healthz says whether it works, /metrics counts
for Prometheus; docs/server.md has every path. It answers this machine alone, unless --host names
another address: it knows no passwords, and no encryption. Ctrl-C or SIGTERM: it answers what it was
asked, and ends.
"""

import ipaddress
import math
import os
import signal
import socket
import sys
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-server's flags."""
    text = "The folder that t2t-exporter wrote."
    flags.DEFINE_string("model", None, text, flag_values=f)
    text = "The address to listen on; 0.0.0.0 or :: is every one that this machine has."
    flags.DEFINE_string("host", "127.0.0.1", text, flag_values=f)
    text = "The port to listen on; 0: any that is free."
    flags.DEFINE_integer("port", 8000, text, lower_bound=0, upper_bound=65535, flag_values=f)
    for name, default, text in (
        ("max_batch_size", 32, "Translate so many sentences at once, or fewer."),
        ("max_batch_tokens", 4096, "Of long sentences so many tokens at once, padding included."),
        ("batch_timeout_ms", 5, "Milliseconds that a sentence waits for others to join it."),
        ("max_queue", 256, "Sentences that wait; beyond, 503."),
        ("max_sentences", 64, "Sentences in a request; beyond, 413."),
        ("max_body_bytes", 1_000_000, "Bytes in a request; beyond, 413."),
        ("max_connections", 500, "Connections at once; beyond, 503."),
    ):
        least = 0 if name == "batch_timeout_ms" else 1
        flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=f)
    text = "Tokens in a sentence; beyond, 413. Default: 256, or as many as the model reads."
    flags.DEFINE_integer("max_sentence_tokens", None, text, lower_bound=1, flag_values=f)
    text = "Seconds within which a request must arrive (408), and then its answer be found (504)."
    flags.DEFINE_float("timeout_s", 30.0, text, lower_bound=0.1, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Serves until a signal comes."""
    check_installed()
    from t2t_repro.serving import exported

    if not args.model:
        raise UserError(
            "Expected --model, the folder that t2t-exporter wrote. Received: none. Name it."
        )
    if args.max_sentences > args.max_queue:
        raise UserError(
            f"Expected --max_queue of at least --max_sentences={args.max_sentences}: a request's "
            f"sentences wait together. Received: {args.max_queue}. Change one of them."
        )
    exported.find(args.model)
    # oneDNN's kernels in TensorFlow keep something for each shape, and a server sees them all.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    with listen(args.host, args.port) as sock:
        print(f"Loading {args.model} ...", flush=True)
        serve(exported.ExportedModel(args.model), sock, args)


def check_installed() -> None:
    """Refuses to go on without what the extra brings.

    Raises:
        UserError: naming the extra.
    """
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"Expected the packages of a server. Received: no {error.name}. Install them by "
            "pip install 't2t_repro[server]'."
        ) from error


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to the address; who connects waits for `serve`.

    Raises:
        UserError: if the address is not this machine's, or its port is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(
            f"Expected --host, an address of this machine. Received: {host!r} ({error.strerror}). "
            "Give 127.0.0.1, or another that it has."
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise UserError(
            f"Expected --host and --port on which nothing listens. Received: {host}, port {port} "
            f"({error.strerror}). Give another --port; 0 takes one that is free."
        ) from error
    return sock


def serve(model: Any, sock: socket.socket, args: flags.FlagValues) -> None:
    """Answers on the socket until SIGTERM or SIGINT, and then what it has been asked already.

    Args:
        model: an `ExportedModel`.
        sock: bound.
        args: t2t-server's flags.
    """
    import uvicorn

    from t2t_repro.serving import app
    from t2t_repro.serving.requests import Limits

    limits = Limits.of(
        model,
        args.max_sentence_tokens,
        max_body_bytes=args.max_body_bytes,
        max_sentences=args.max_sentences,
        timeout_s=args.timeout_s,
    )
    application = app.create(
        model,
        limits,
        max_batch_size=args.max_batch_size,
        max_batch_tokens=args.max_batch_tokens,
        batch_timeout=args.batch_timeout_ms / 1000,
        max_queue=args.max_queue,
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
        limit_concurrency=args.max_connections,
        timeout_graceful_shutdown=math.ceil(2 * args.timeout_s),
    )
    # uvicorn hears signals while it serves, and when it is done raises them again for us.
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda signum, frame: sys.exit(0))
    sock.listen(config.backlog)
    address, port = sock.getsockname()[:2]
    warn_of_reach(address)
    host = f"[{address}]" if ":" in address else address
    print(f"Serving {model.name} on http://{host}:{port}/ (Ctrl-C ends it)", flush=True)
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


def console() -> None:
    """The console script."""
    cli.run("t2t-server", __doc__, define_flags, main)


if __name__ == "__main__":
    console()

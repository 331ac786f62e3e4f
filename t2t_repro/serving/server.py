"""The server: its settings, its socket, start and stop."""

import dataclasses
import ipaddress
import math
import os
import signal
import socket
import sys

from t2t_repro.errors import UserError
from t2t_repro.process import available_cores
from t2t_repro.serving.request import ServerRequest


def serve(request: ServerRequest) -> None:
    """Loads the models and answers until a signal comes.

    Raises:
        UserError: if there is no export, or it cannot be served.
        OSError: if the address is not available.
    """
    # oneDNN's kernels in TensorFlow keep something for each shape, and a server sees them all.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        import uvicorn

        from t2t_repro.decoding.search import searches_for
        from t2t_repro.serving import app, models
    except ModuleNotFoundError as error:
        packages = "pip install 't2t_repro[server]'"
        raise UserError(f"Expected the package {error.name}. Install it: {packages}.") from error
    served = models.find(request.model)
    with listen(request.host, request.port) as sock:  # before the models, which take a while
        print(f"Loading {', '.join(str(each.path) for each in served)} ...", flush=True)
        rows = 4 * request.max_batch_size  # beams of most exports
        searches = searches_for(rows, available_cores())
        if any(each.record.kind != "ctranslate2" for each in served):
            from t2t_repro.decoding.program import share_cores

            searches = share_cores(rows)
        for each in served:
            each.load(searches)
        most = min(request.max_sentence_tokens, *(each.model.longest for each in served))
        request = dataclasses.replace(request, max_sentence_tokens=most)
        config = uvicorn.Config(
            app.create(served, request, lambda: server.should_exit, searches=searches),
            http="h11",
            ws="none",
            loop="asyncio",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=math.ceil(2 * request.timeout_s),
        )
        server = uvicorn.Server(config)
        # uvicorn hears signals while it serves, and when it is done raises them again for us.
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda signum, frame: sys.exit(0))
        address, port = sock.getsockname()[:2]
        warn_of_reach(address)
        host = f"[{address}]" if ":" in address else address
        names = ", ".join(each.name for each in served)
        print(f"Serving {names} on http://{host}:{port}/ (Ctrl-C ends it)", flush=True)
        server.run(sockets=[sock])


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens on the address; clients that connect wait for an answer.

    Raises:
        OSError: if the address is not this machine's, or its port is taken.
    """
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    sock = socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=six)
    # Connections inherit it. asyncio sets it itself only where a socket's protocol number is TCP's,
    # and without it each answer's second packet waits 40 ms for the client's delayed ACK.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def warn_of_reach(address: str) -> None:
    """Warns if other machines can reach the server."""
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        print(
            f"t2t-server: warning: anyone who can reach {address} can use this server. It has no "
            "passwords and no encryption. To serve only this machine, give --host=127.0.0.1.",
            file=sys.stderr,
        )

"""Clients that are slow, huge, malformed or silent: bounded in time, and in nobody's way."""

import concurrent.futures
import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from tests.servers import servers

WAIT_S = 0.6
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\n"
BODY = json.dumps({"inputs": "abc" * 10}).encode()
ASKED = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
ELSEWHERE = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
SLOW = {  # what a client sends at once, and then again and again
    "says nothing": (b"", b""),
    "half a line": (b"POST /trans", b""),
    "a line that never ends": (b"GET /", b"a"),
    "headers that never end": (HEAD, b"X: y\r\n"),
    "a header that never ends": (HEAD + b"X: ", b"y"),
    "empty lines": (b"", b"\r\n"),
    "a body that does not come": (HEAD + b"Content-Length: 1000\r\n\r\n", b""),
    "a body that drips": (HEAD + b"Content-Length: 1000\r\n\r\n", b"{"),
    "chunks that drip": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n"),
    "a chunk's size that drips": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "a body that nobody reads": (ELSEWHERE, b"{"),
    "headers of a second request": (ASKED + HEAD, b"X: y\r\n"),
}


@pytest.fixture
def start(tmp_path):
    """Starts the program; returns its process and its address."""
    with servers(tmp_path, seconds=0.05) as run:
        yield run


def connect(address, sent=b""):
    client = socket.create_connection(address, timeout=10)
    client.setblocking(False)
    push(client, sent)
    return client


def push(client, data):
    with contextlib.suppress(BlockingIOError):
        client.send(data)


def ask(address, sent=ASKED):
    """Returns the status of the answer to a request, on a connection of its own."""
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(sent)
        return int(client.recv(100).split()[1])


def held(server):
    """Returns how many clients' connections the server holds."""
    found = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(bool(connection.raddr) for connection in found)


@pytest.mark.parametrize("kind", SLOW)
def test_who_is_slow_is_cut_off(start, kind):
    at_once, again = SLOW[kind]
    server = start(f"--timeout_s={WAIT_S}")
    clients = [connect(server.address, at_once) for _ in range(20)]
    time.sleep(0.3)
    end = time.monotonic() + 2 * WAIT_S + 20
    while held(server) and time.monotonic() < end:
        for client in clients:
            with contextlib.suppress(OSError):
                push(client, again)
                client.recv(100_000)
        time.sleep(0.1)
    assert not held(server)
    assert ask(server.address) == 200
    server.process.send_signal(signal.SIGTERM)
    _, error = server.process.communicate(timeout=20)
    assert server.process.returncode == 0 and error == ""


@pytest.mark.parametrize("many", [1, 50])
def test_who_reads_no_answer_is_cut_off(start, many):
    body = json.dumps({"inputs": "abc" * 300_000}).encode()
    asked = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    server = start(f"--timeout_s={WAIT_S}")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(server.address)
        with contextlib.suppress(OSError):  # it is cut off while it asks
            client.sendall(asked * many)
        time.sleep(0.3)
        end = time.monotonic() + 2 * WAIT_S + 20
        while held(server) and time.monotonic() < end:
            time.sleep(0.1)
        assert not held(server)
    assert ask(server.address) == 200


@pytest.mark.parametrize("kind", SLOW)
def test_who_is_slow_is_in_nobody_s_way(start, kind):
    """Of 600 connections 500 are held, which is the most: the others have made room."""
    at_once, _ = SLOW[kind]
    server = start()
    clients = []
    for number in range(600):
        clients.append(connect(server.address, at_once))
        if number % 50 == 49:
            assert ask(server.address) == 200
    assert held(server) <= 500


def test_beyond_the_connections_that_are_answered_it_is_503(start):
    server = start("--max_connections=8", "--batch_timeout_ms=2000")
    clients = [connect(server.address, ASKED) for _ in range(8)]
    time.sleep(0.3)
    full = answers(server.address, ASKED)
    assert full.startswith(b"HTTP/1.1 503") and b"Expected fewer connections at once" in full
    for client in clients:
        client.setblocking(True)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


LARGE = {
    "a header": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000 + b"\r\n\r\n"),
    "many headers": b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 9000 + b"\r\n",
    "a path": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a query": b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method": b"G" * 70_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a line that never ends": b"GET /" + b"a" * 10_000_000,
    "a header that never ends": b"GET / HTTP/1.1\r\nX: " + b"y" * 10_000_000,
    "a chunk's size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 70_000,
    "a body": HEAD + b"Content-Length: 1000001\r\n\r\n" + b" " * 1_000_001,
    "a body in chunks": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"fffff\r\n" + b" " * 0xFFFFF + b"\r\n") * 3
    ),
    "a length of 30 digits": HEAD + b"Content-Length: 1" + b"0" * 29 + b"\r\n\r\n{}",
}
MALFORMED = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "bytes": bytes(range(256)) * 40,
    "zeros": bytes(10_000),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no such version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "a length below 0": HEAD + b"Content-Length: -1\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": (
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n"
    ),
    "an unknown encoding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "a chunk's size that is none": HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n",
    "a chunk's size below 0": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n",
    "a folded header": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "a header without a name": HEAD + b": a\r\n\r\n",
    "a zero in a header": HEAD + b"X: a\x00b\r\n\r\n",
    "a space before a colon": HEAD + b"X : a\r\n\r\n",
    "a path of bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path of escapes": b"GET /%ff%00%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "CONNECT": b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "another's address": b"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n",
}
OTHERWISE = {  # than 400
    "HTTP/2": {400, 404},
    "no such version": {200},
    "a path of escapes": {404},
    "an upgrade": {200},
    "CONNECT": {404},
    "another's address": {404},
}


def answers(address, sent):
    """Sends bytes, and returns all that comes back until the server is silent or hangs up."""
    received = b""
    with socket.create_connection(address, timeout=5) as client, contextlib.suppress(OSError):
        with contextlib.suppress(OSError):  # the server has heard enough
            client.sendall(sent)
        client.settimeout(0.5)
        while data := client.recv(100_000):
            received += data
    return received


def test_what_is_large_is_refused(start):
    server = start()
    before = psutil.Process(server.process.pid).memory_info().rss
    for kind, sent in LARGE.items():
        received = answers(server.address, sent)
        statuses = {int(found) for found in re.findall(rb"HTTP/1.1 (\d+) ", received)}
        assert statuses <= {400, 413, 431} and len(statuses) < 2, (kind, received)
        assert ask(server.address) == 200
    assert psutil.Process(server.process.pid).memory_info().rss - before < 30e6


def test_what_is_malformed_is_refused(start):
    server = start()
    for kind, sent in MALFORMED.items():
        received = answers(server.address, sent)
        statuses = {int(found) for found in re.findall(rb"HTTP/1.1 (\d+) ", received)}
        assert b"Traceback" not in received, kind
        assert statuses == OTHERWISE.get(kind, {400}), kind
        assert ask(server.address) == 200
    server.process.send_signal(signal.SIGTERM)
    _, error = server.process.communicate(timeout=20)
    assert server.process.returncode == 0 and error == ""


@pytest.mark.parametrize("kind", SLOW)
def test_the_second_signal_waits_for_nobody(start, kind):
    at_once, _ = SLOW[kind]
    server = start()
    clients = [connect(server.address, at_once) for _ in range(5)]
    time.sleep(0.2)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=10) in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
    assert len(clients) == 5


def latencies(address, seconds, clients):
    """Returns the seconds that each of the requests of some clients took, the longest last."""
    end, found = time.monotonic() + seconds, []

    def client():
        while (start := time.monotonic()) < end:
            assert ask(address) == 200
            found.append(time.monotonic() - start)

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(client) for _ in range(clients)]:
            done.result()
    return sorted(found)


def test_right_requests_among_hostile_clients(start):
    """Half of 64 clients are hostile; benchmarks/serve_load.py does it for ten minutes."""
    address = start().address
    quiet = latencies(address, 6, 32)
    program = pathlib.Path(__file__).parents[2] / "benchmarks" / "hostile_clients.py"
    command = [sys.executable, program, f"--port={address[1]}", "--clients=32", "--seconds=15"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as hostile:
        beside = latencies(address, 14, 32)
        attacks = json.loads(hostile.communicate()[0])
    assert sum(attacks.values()) > 32
    p99, before = (times[int(0.99 * len(times))] for times in (beside, quiet))
    assert p99 < 2 * before + 0.5, (before, p99)  # half a second for what else the machine does

"""Keeps t2t-server under load, a third of it bad requests, and checks every answer.

    t2t-exporter --output_dir=RUN --export_dir=EXPORT
    python benchmarks/serve_load.py --model=EXPORT --text=test.en --seconds=600 --out=load.json

The sentences are first translated one by one, by the server itself while it does nothing else.
Then --clients threads send, each one request after another: single sentences, lists, with and
without n-best, and everything that is wrong: no JSON, wrong types, too long, binary, connections
that break off. It counts answers of the right status, answers that belong to another question, and
translations that differ from the one that was made alone (two hypotheses that tie to float32's last
digits); and reads the server's memory every few seconds. It ends after --seconds.

With --single all requests are right, of one sentence and for its best translation alone, and each
client keeps its connection.
"""

import argparse
import collections
import contextlib
import dataclasses
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

TIMEOUT = 60.0  # seconds that a client waits; the server answers 504 before
RIGHT = 0.67  # of the requests, without --single
TIE = 1e-3  # scores of the same text, alone and in a batch, differ less


@dataclasses.dataclass
class Seen:
    """What the clients saw, under one lock."""

    latencies: list[float] = dataclasses.field(default_factory=list)  # of valid requests, seconds
    sentences: int = 0
    requests: int = 0
    kinds: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    wrong_pairings: list[Any] = dataclasses.field(default_factory=list)
    differ: list[Any] = dataclasses.field(default_factory=list)
    unexpected: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class Server:
    """t2t-server in a process of its own, on a free port."""

    def __init__(self, model: str, log: pathlib.Path):
        self._log = open(log, "w")
        flags = [f"--model={model}", "--port=0"]
        command = [sys.executable, "-m", "t2t_repro.bin.server", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        for line in self.process.stdout:
            print(line, end="", flush=True)
            if found := re.search(r"http://(.+):(\d+)/", line):
                self.host, self.port = found[1], int(found[2])
                return
        raise SystemExit(f"The server did not start: see {log}.")

    def connect(self) -> http.client.HTTPConnection:
        """Returns a connection, which opens by itself."""
        return http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """As the function, by a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, method, path, body)

    def raw(self, data: bytes) -> None:
        """Sends bytes and leaves."""
        with socket.create_connection((self.host, self.port), timeout=TIMEOUT) as connection:
            connection.sendall(data)

    def metrics(self) -> dict[str, float]:
        """Returns the numbers of /metrics by their names."""
        _, text = self.ask("GET", "/metrics")
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines)}

    def stop(self) -> int:
        """Sends SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        self._log.close()
        return code


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
) -> tuple[int, Any]:
    """Returns the status, and the JSON or the text of the answer."""
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    kind = answer.getheader("content-type", "")
    return answer.status, json.loads(content) if "json" in kind else content.decode()


def valid(rng: random.Random, sentences: list[str], single: bool) -> dict[str, Any]:
    """A request that is right."""
    if single:
        return {"inputs": rng.choice(sentences), "split": False}
    many = rng.random() < 0.4
    inputs: Any = rng.sample(sentences, rng.randint(1, 8)) if many else rng.choice(sentences)
    body = {"inputs": inputs, "split": False}
    if rng.random() < 0.3:
        body["n_best"] = rng.randint(1, 4)
    return body


def bad_requests(longest: str) -> dict[str, tuple[str, str, bytes, int]]:
    """{kind: (method, path, body, the status that answers it)}."""
    many = json.dumps({"inputs": ["a"] * 65}).encode()
    return {
        "not JSON": ("POST", "/translate", b"inputs=A man is sleeping.", 400),
        "cut JSON": ("POST", "/translate", b'{"inputs": ["a", "b', 400),
        "wrong type": ("POST", "/translate", b'{"inputs": [1, null, {"a": []}]}', 400),
        "wrong n_best": ("POST", "/translate", b'{"inputs": "a", "n_best": 1e9}', 400),
        "unknown name": ("POST", "/translate", b'{"input": "a"}', 400),
        "nested": ("POST", "/translate", b"[" * 50_000, 400),
        "binary": ("POST", "/translate", bytes(range(256)) * 8, 400),
        "surrogate": ("POST", "/translate", b'{"inputs": "\\ud800"}', 400),
        "empty": ("POST", "/translate", b"", 400),
        "long sentence": ("POST", "/translate", json.dumps({"inputs": longest}).encode(), 413),
        "many sentences": ("POST", "/translate", many, 413),
        "large body": ("POST", "/translate", b" " * 1_000_001, 413),
        "wrong method": ("PUT", "/translate", b"{}", 405),
        "wrong path": ("GET", "/../etc/passwd", b"", 404),
    }


def broken_connections(sentence: str) -> dict[str, bytes]:
    """{kind: what is sent before the client leaves}."""
    body = json.dumps({"inputs": sentence}).encode()
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    return {
        "left at once": b"",
        "left in the head": b"POST /translate HTT",
        "left in the body": head % 1000 + b'{"inputs": ',
        "left before the answer": head % len(body) + body,
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9,
    }


def check(body: dict[str, Any], answer: Any, alone: dict[str, tuple], seen: Seen) -> None:
    """Compares a valid answer with the translations that were made one by one."""
    asked = body["inputs"] if isinstance(body["inputs"], list) else [body["inputs"]]
    got = answer["translations"]
    if [g["input"] for g in got] != asked:
        seen.wrong_pairings.append([asked, got])
        return
    for sentence, entry in zip(asked, got, strict=True):
        translation, score = alone[sentence]
        seen.sentences += 1
        if entry["translation"] != translation:
            near = abs(entry["score"] - score) < TIE
            kind = seen.differ if near else seen.wrong_pairings
            kind.append([sentence, translation, score, entry["translation"], entry["score"]])
        elif abs(entry["score"] - score) > TIE:
            seen.unexpected["another score"] += 1
        if len(entry["n_best"]) > body.get("n_best", 1) or entry["n_best"][0]["score"] is None:
            seen.unexpected["wrong n_best"] += 1


def client(
    number: int, server: Server, alone: dict, seen: Seen, going: Callable, single: bool
) -> None:
    """Sends one request after another while `going()`; `single`: all of them right."""
    rng, sentences = random.Random(number), list(alone)
    bad, broken = bad_requests("word " * 400), broken_connections(sentences[0])
    kept = server.connect()
    while going():
        draw = rng.random() * (RIGHT if single else 1.0)
        try:
            if draw < RIGHT:
                body = valid(rng, sentences, single)
                start = time.perf_counter()
                content = json.dumps(body).encode()
                sent = "POST", "/translate", content
                status, answer = ask(kept, *sent) if single else server.ask(*sent)
                seconds = time.perf_counter() - start
                with seen.lock:
                    seen.kinds[f"valid: {status}"] += 1
                    if status == 200:
                        seen.latencies.append(seconds)
                        check(body, answer, alone, seen)
                    elif status not in (503, 504):
                        seen.unexpected[f"valid: {status} {answer}"] += 1
            elif draw < 0.9:
                kind, (method, path, content, expected) = rng.choice(list(bad.items()))
                status, answer = server.ask(method, path, content)
                with seen.lock:
                    seen.kinds[f"{kind}: {status}"] += 1
                    if status != expected or "error" not in answer:
                        seen.unexpected[f"{kind}: {status} {answer}"] += 1
            else:
                kind, data = rng.choice(list(broken.items()))
                server.raw(data)
                with seen.lock:
                    seen.kinds[kind] += 1
        except Exception as error:  # whatever it is, it is counted, and the client goes on
            kept.close()
            with seen.lock:  # a large body may be refused before all of it is sent
                allowed = draw >= RIGHT and kind == "large body" and isinstance(error, OSError)
                counts = seen.kinds if allowed else seen.unexpected
                counts[f"{kind if draw >= RIGHT else 'valid'}: {type(error).__name__}"] += 1
        with seen.lock:
            seen.requests += 1
    kept.close()


def quantile(values: list[float], share: float) -> int:
    """Milliseconds of a share of the requests."""
    ordered = sorted(values) or [0.0]
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))])


def watch(server: Server, seen: Seen, going: Callable, every: float) -> Iterator[dict[str, float]]:
    """Yields the server's memory and counts every so often, until it is over."""
    start = time.monotonic()
    while True:
        now = server.metrics()
        yield {
            "seconds": round(time.monotonic() - start, 1),
            "resident_mib": round(now["process_resident_memory_bytes"] / 2**20, 1),
            "open_files": now["process_open_fds"],
            "queue": now["t2t_queue_length"],
            "requests": seen.requests,
        }
        until = time.monotonic() + every
        while going() and time.monotonic() < until:
            time.sleep(0.2)
        if not going():
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="an export of t2t-exporter")
    parser.add_argument("--text", required=True, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=200, help="how many sentences")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--single", action="store_true", help="single sentences alone")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two readings")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("serve-load.json"))
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    lines = pathlib.Path(args.text).read_text(encoding="utf-8").split("\n")
    sentences = list(dict.fromkeys(filter(str.strip, lines)))[: args.sentences]
    server = Server(args.model, args.out.with_suffix(".log"))
    try:
        report = load(server, sentences, args)
    finally:
        server.process.kill()
    args.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    shown = {k: v for k, v in report.items() if k not in ("readings", "ties_that_fell_otherwise")}
    print(json.dumps(shown, indent=1, ensure_ascii=False))
    ties = len(report["ties_that_fell_otherwise"])
    print(f"{ties} of {report['sentences']} translations differ, each a tie.")
    if any(report[name] for name in ("wrong_pairings", "unexpected", "crashed", "exit_code")):
        sys.exit(1)


def drive(
    server: Server, alone: dict, args: argparse.Namespace
) -> tuple[Seen, list[dict[str, float]]]:
    """Lets the clients ask; returns what they saw, and the server's readings."""
    seen, end = Seen(), time.monotonic() + args.seconds

    def going() -> bool:
        return server.process.poll() is None and time.monotonic() < end

    threads = [
        threading.Thread(target=client, args=(i, server, alone, seen, going, args.single))
        for i in range(args.clients)
    ]
    for thread in threads:
        thread.start()
    readings = []
    for reading in watch(server, seen, going, args.every):
        readings.append(reading)
        print(json.dumps(reading), flush=True)
    for thread in threads:
        thread.join()
    return seen, readings


def load(server: Server, sentences: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Keeps the server under load; returns what was seen."""
    loaded = server.metrics()["process_resident_memory_bytes"] / 2**20
    alone = {}
    for sentence in sentences:
        body = {"inputs": sentence, "split": False}
        _, answer = server.ask("POST", "/translate", json.dumps(body).encode())
        (entry,) = answer["translations"]
        alone[sentence] = entry["translation"], entry["score"]

    start, processor = time.monotonic(), server.metrics()["process_cpu_seconds_total"]
    seen, readings = drive(server, alone, args)
    seconds = time.monotonic() - start
    alive = server.process.poll() is None
    metrics = server.metrics() if alive else {}
    used = metrics.get("process_cpu_seconds_total", processor) - processor
    return {
        "server_processor_share": round(used / seconds, 2),  # 1.0: one core, all of the time
        "requests": seen.requests,
        "valid_answers": len(seen.latencies),
        "sentences_per_s": round(seen.sentences / seconds, 1),
        "latency_ms": {f"p{n}": quantile(seen.latencies, n / 100) for n in (50, 90, 99, 100)},
        "wrong_pairings": seen.wrong_pairings,
        "sentences": seen.sentences,
        "ties_that_fell_otherwise": seen.differ,
        "unexpected": seen.unexpected,
        "by_kind": dict(sorted(seen.kinds.items())),
        "crashed": not alive,
        "resident_mib": {"loaded": round(loaded, 1), "last": readings[-1]["resident_mib"]},
        "exit_code": server.stop() if alive else server.process.returncode,
        "readings": readings,
    }


if __name__ == "__main__":
    main()

"""Clients of t2t-server that are slow, huge, malformed or hang, as serve_load.py starts them.

    python benchmarks/hostile_clients.py --port=8000 --clients=32 --seconds=600

Each attacks, pauses for up to --pause seconds, and attacks again, in another of the ways below, as
long as the server lets it or --hold seconds. It prints how often each was done, as JSON.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import random

HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\n"
ASKED = HEAD + b'Content-Length: 15\r\n\r\n{"inputs": "a"}'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ATTACKS = {  # what is sent at once, and what again and again
    "slow: headers": (HEAD, b"X: y\r\n"),
    "slow: one header": (HEAD + b"X: ", b"y"),
    "slow: a body": (HEAD + b"Content-Length: 1000\r\n\r\n", b"{"),
    "slow: chunks": (CHUNKED, b"1\r\n{\r\n"),
    "slow: a second request": (ASKED + HEAD, b"X: y\r\n"),
    "huge: a header": (HEAD + b"X: " + b"y" * 70_000 + b"\r\n\r\n", None),
    "huge: a line": (b"GET /" + b"a" * 1_000_000, None),
    "huge: a body": (HEAD + b"Content-Length: 9999999\r\n\r\n" + b" " * 9_999_999, None),
    "huge: chunks": (CHUNKED + (b"ffff\r\n" + b" " * 0xFFFF + b"\r\n") * 20, None),
    "huge: nested": (HEAD + b"Content-Length: 50000\r\n\r\n" + b"[" * 50_000, None),
    "malformed: TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9, None),
    "malformed: bytes": (bytes(range(256)) * 40, None),
    "malformed: a length": (HEAD + b"Content-Length: -1\r\n\r\n", None),
    "malformed: a chunk": (CHUNKED + b"xyz\r\n{}\r\n", None),
    "malformed: JSON": (HEAD + b'Content-Length: 11\r\n\r\n{"inputs": ', None),
    "hanging: nothing": (b"", b""),
    "hanging: half a line": (b"POST /trans", b""),
    "hanging: half a body": (HEAD + b"Content-Length: 1000\r\n\r\n{", b""),
    "hanging: no answer is read": (ASKED * 200, b""),
    "leaving: before the answer": (ASKED, None),
}


async def attack(port: int, kind: str, hold: float) -> None:
    """Does one of `ATTACKS` until the server hangs up, or a time has passed."""
    at_once, again = ATTACKS[kind]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(at_once)
        if kind.startswith("leaving"):
            return
        reads = "no answer is read" not in kind
        async with asyncio.timeout(hold):
            while again is not None or await reader.read(100_000):
                if again is not None:
                    writer.write(again)
                    await writer.drain()
                    await asyncio.sleep(0.5)
                if again and reads:
                    with contextlib.suppress(TimeoutError):
                        if not await asyncio.wait_for(reader.read(100_000), 0.01):
                            return
    finally:
        writer.transport.abort()


async def client(port: int, seed: int, pause: float, hold: float, done: collections.Counter):
    """Attacks again and again."""
    rng = random.Random(seed)
    while True:
        kind = rng.choice(list(ATTACKS))
        with contextlib.suppress(OSError, TimeoutError):
            await attack(port, kind, hold)
        done[kind] += 1
        await asyncio.sleep(rng.uniform(0, pause))


async def run(args: argparse.Namespace) -> collections.Counter:
    """Returns how often each attack was done."""
    done: collections.Counter[str] = collections.Counter()
    clients = [client(args.port, i, args.pause, args.hold, done) for i in range(args.clients)]
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*clients), args.seconds)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds, at most")
    parser.add_argument("--hold", type=float, default=20.0, help="seconds that one lasts at most")
    print(json.dumps(asyncio.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Treats a server badly and looks whether it minds.

    scripts/soak.py [--requests 10000] [--concurrency 32] [--seed 1] [--program build/cheetah]

Starts `cheetah serve` with a small cache and sends requests of every kind at once: good ones (whole and streamed, compared
byte by byte with what the server said before the trouble began), clients that leave at any moment, cancellations, clients
that give up waiting, bodies that are no requests, bytes that are no HTTP, slow readers and slow writers. At the end
nothing may be left: no request, no page of the cache, no connection, no descriptor, no memory beyond what the first third
took; and the server must still be the process that was started, and end when asked to.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import signal
import sys
import time
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

PROMPTS = ["Once upon a time", "The dragon", "In a small town there lived", "One day, a cat", "Tell me about the sea", "Deep in the forest",
           "She opened the door and", "It was a dark night", "The little robot", "Far away on a hill"]
PATIENCE = 120


class Wrong(Exception):
    """The server did what it must not."""


def good_body(rng, model):
    """A request whose answer is always the same."""
    prompt = rng.choice(PROMPTS)
    tokens = rng.choice([1, 4, 16, 48])
    if rng.random() < 0.5:
        return "/v1/completions", {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    return "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0}


def long_body(rng, model):
    return "/v1/completions", {"model": model, "prompt": rng.choice(PROMPTS), "max_tokens": 400, "temperature": 0.8, "ignore_eos": True,
                               "seed": rng.randrange(1 << 30), "n": rng.choice([1, 1, 2])}


def broken_body(rng, model):
    """Bytes that are no acceptable request."""
    path, body = good_body(rng, model)
    text = json.dumps(body).encode()
    return path, rng.choice([
        b"", b"null", b"[]", b"{", b"{}", text[:rng.randrange(1, len(text))], text + b"x", b"\xff\xfe" + text, b"[" * 100_000,
        json.dumps({**body, "max_tokens": -1}).encode(), json.dumps({**body, "temperature": "hot"}).encode(),
        json.dumps({**body, "n": 10**12}).encode(), json.dumps({**body, "model": "../../etc/passwd"}).encode(),
        json.dumps({**body, "stop": [""]}).encode(), json.dumps({**body, "logit_bias": {"x": 1}}).encode(), os.urandom(200),
    ])


def http(path, body, headers=""):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
            .encode() + body)


class Client:
    """One connection."""

    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24), PATIENCE)
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def head(self):
        """Status and headers."""
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)
        lines = raw.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        return int(lines[0].split()[1]), headers

    async def body(self, headers, each=None):
        """The body; `each` is awaited after every piece."""
        if "content-length" in headers:
            return await asyncio.wait_for(self.reader.readexactly(int(headers["content-length"])), PATIENCE)
        pieces = []
        while True:
            size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), PATIENCE), 16)
            data = await asyncio.wait_for(self.reader.readexactly(size + 2), PATIENCE)
            if size == 0:
                return b"".join(pieces)
            pieces.append(data[:-2])
            if each:
                await each()

    async def answer(self, each=None):
        status, headers = await self.head()
        return status, headers, await self.body(headers, each)


def text_of(path, body):
    """Text and finish reason of a whole answer."""
    choice = json.loads(body)["choices"][0]
    return (choice["text"] if path == "/v1/completions" else choice["message"]["content"]), choice["finish_reason"]


def streamed_text(path, body):
    text, finish = "", None
    events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    if events[-1] != "[DONE]":
        raise Wrong(f"a stream ended without [DONE]: {events[-1]}")
    for event in map(json.loads, events[:-1]):
        choice = event["choices"][0]
        text += choice.get("text") or choice.get("delta", {}).get("content") or ""
        finish = choice["finish_reason"] or finish
    return text, finish


class Soak:
    def __init__(self, server, model, seed):
        self.server, self.port, self.model = server, server.port, model
        self.rng = random.Random(seed)
        self.expected = {}
        self.counts = collections.Counter()

    async def learn(self):
        """What every good request is answered while nothing else runs."""
        for _ in range(400):
            path, body = good_body(self.rng, self.model)
            key = json.dumps([path, body])
            if key in self.expected:
                continue
            async with Client(self.port) as client:
                await client.send(http(path, body))
                status, _, text = await client.answer()
                if status != 200:
                    raise Wrong(f"{status}: {text!r}")
                self.expected[key] = text_of(path, text)

    def check(self, path, body, got):
        wanted = self.expected.get(json.dumps([path, body]))
        if wanted and got != wanted:
            raise Wrong(f"{path} {body}: {got!r} instead of {wanted!r}")

    async def whole(self, rng):
        path, body = good_body(rng, self.model)
        async with Client(self.port) as client:
            for _ in range(rng.choice([1, 1, 3])):  # some connections are used again
                await client.send(http(path, body))
                status, _, text = await client.answer()
                if status == 503:
                    return "refused"
                if status != 200:
                    raise Wrong(f"{status}: {text!r}")
                self.check(path, body, text_of(path, text))

    async def streamed(self, rng, slow=False):
        path, body = good_body(rng, self.model)

        async def wait():
            await asyncio.sleep(rng.random() * 0.05)

        async with Client(self.port) as client:
            await client.send(http(path, {**body, "stream": True}))
            status, _, text = await client.answer(wait if slow else None)
            if status == 503:
                return "refused"
            if status != 200:
                raise Wrong(f"{status}: {text!r}")
            self.check(path, body, streamed_text(path, text))

    async def slow_reader(self, rng):
        return await self.streamed(rng, slow=True)

    async def slow_writer(self, rng):
        path, body = good_body(rng, self.model)
        data = http(path, body)
        async with Client(self.port) as client:
            step = max(1, len(data) // 8)
            for at in range(0, len(data), step):
                await client.send(data[at:at + step])
                await asyncio.sleep(rng.random() * 0.02)
            status, _, text = await client.answer()
            if status == 200:
                self.check(path, body, text_of(path, text))
            elif status != 503:
                raise Wrong(f"{status}: {text!r}")

    async def leaver(self, rng):
        """Closes, or resets, at any moment."""
        path, body = long_body(rng, self.model)
        data = http(path, {**body, "stream": rng.random() < 0.7})
        async with Client(self.port) as client:
            moment = rng.random()
            if moment < 0.15:
                await client.send(data[:rng.randrange(len(data))])
                return
            await client.send(data)
            if moment < 0.4:
                await asyncio.sleep(rng.random() * 0.01)
                return
            try:
                await asyncio.wait_for(client.reader.read(rng.choice([1, 100, 5000])), PATIENCE)
            except ConnectionError:
                pass
            if rng.random() < 0.5:
                client.writer.close()

    async def impatient(self, rng):
        """Gives up waiting."""
        path, body = long_body(rng, self.model)
        async with Client(self.port) as client:
            await client.send(http(path, body))
            try:
                await asyncio.wait_for(client.head(), rng.random() * 0.1)
            except (asyncio.TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                pass

    async def canceller(self, rng):
        path, body = long_body(rng, self.model)
        name = f"cancel-{rng.randrange(1 << 60):x}"
        async with Client(self.port) as client:
            await client.send(http(path, {**body, "stream": True}, f"X-Request-Id: {name}\r\n"))
            await asyncio.sleep(rng.random() * 0.02)
            async with Client(self.port) as other:
                await other.send(f"DELETE /v1/requests/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                status, _, text = await other.answer()
                if status not in (200, 404):
                    raise Wrong(f"{status}: {text!r}")
            await client.answer()  # cut short, but in order

    async def malformed(self, rng):
        path, body = broken_body(rng, self.model)
        async with Client(self.port) as client:
            await client.send(http(path, body))
            status, _, text = await client.answer()
            if status not in (400, 404, 503) or "error" not in json.loads(text):
                raise Wrong(f"{status}: {text!r} for {body[:200]!r}")

    async def no_http(self, rng):
        junk = rng.choice([os.urandom(50), b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n",
                           b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"GET /" + b"a" * 20000])
        async with Client(self.port) as client:
            try:
                await client.send(junk)
                await asyncio.wait_for(client.reader.read(1), 0.2)
            except (asyncio.TimeoutError, ConnectionError):
                pass

    async def watcher(self, _rng):
        path = self.rng.choice(["/metrics", "/v1/stats", "/health", "/health/engine", "/v1/models", "/nothing"])
        async with Client(self.port) as client:
            await client.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            status, _, text = await client.answer()
            if status != (404 if path == "/nothing" else 200):
                raise Wrong(f"{path}: {status}: {text!r}")

    async def one(self, number):
        rng = random.Random(self.rng.random())
        kinds = [(self.whole, 22), (self.streamed, 22), (self.leaver, 16), (self.impatient, 8), (self.canceller, 8), (self.malformed, 8),
                 (self.no_http, 4), (self.slow_reader, 4), (self.slow_writer, 4), (self.watcher, 4)]
        kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        try:
            result = await kind(rng)
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError) as error:
            raise Wrong(f"request {number} ({kind.__name__}): {error!r}") from error
        self.counts[kind.__name__ + (f" {result}" if result else "")] += 1

    async def run(self, requests, concurrency, on_third):
        numbers = iter(range(requests))

        async def worker():
            for number in numbers:
                if number == requests // 3:
                    on_third()
                await self.one(number)

        await asyncio.gather(*(worker() for _ in range(concurrency)))


def wait_until_clean(server, patience=60):
    """The stats when nothing is left but the connection that asks, or the last ones seen."""
    end = time.monotonic() + patience
    while True:
        stats = server.stats()
        pages = stats["pages_free"] + stats["pages_cached"] == stats["pages_total"]
        idle = all(stats[name] == 0 for name in ("running", "waiting", "swapped", "in_flight", "parsing"))
        if pages and idle and stats["connections"] == 1 or time.monotonic() > end:
            return stats, pages and idle and stats["connections"] == 1
        time.sleep(0.05)


def open_files(server, at_most=0, patience=20):
    """Descriptors of the server once there are at most so many, or its patience is over: the last connection closes late."""
    end = time.monotonic() + patience
    while (count := server.open_files()) > at_most and time.monotonic() < end:
        time.sleep(0.05)
    return count


def soak(requests, concurrency, seed, say=print):
    """Runs it; raises Wrong with what was wrong."""
    from server import Server
    model = "cub-1m"
    with Server(ROOT / "models" / model, "--kv-memory", "2MiB", "--max-sequences", "16", "--max-queue", "64", "--log-level", "error",
                "--idle-timeout", "5s", "--header-timeout", "5s", "--write-timeout", "5s") as server:
        soaking = Soak(server, model, seed)
        asyncio.run(soaking.learn())
        stats, clean = wait_until_clean(server)
        files, rss = open_files(server, patience=1), []
        begin = time.monotonic()
        asyncio.run(soaking.run(requests, concurrency, lambda: rss.append(server.stats()["rss_bytes"])))
        seconds = time.monotonic() - begin
        stats, clean = wait_until_clean(server)
        if not clean:
            raise Wrong(f"something is left: {dict(list(stats.items())[:-1])}")
        if (left := open_files(server, files)) > files:
            raise Wrong(f"{left} descriptors are open instead of {files}")
        grown = stats["rss_bytes"] - rss[0]
        if grown > 16 << 20:
            raise Wrong(f"memory grew by {grown >> 20} MiB after the first third")
        asyncio.run(soaking.learn())  # and it still answers
        if (code := server.stop(signal.SIGTERM)) != 0:
            raise Wrong(f"it ended with {code}: {server.log()[-2000:]}")
        say(f"{requests} requests in {seconds:.1f} s, {grown / 1024:.0f} KiB more memory after the first third, "
            f"{stats['finished_cancelled']} generations cancelled, {stats['preemptions']} preemptions")
        for kind, count in sorted(soaking.counts.items()):
            say(f"  {kind:<20} {count}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=os.environ.get("CHEETAH", str(ROOT / "build" / "cheetah")))
    args = parser.parse_args()
    os.environ["CHEETAH"] = args.program
    try:
        soak(args.requests, args.concurrency, args.seed)
    except Wrong as error:
        sys.exit(f"soak: {error}")


if __name__ == "__main__":
    main()

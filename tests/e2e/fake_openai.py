# SPDX-License-Identifier: MIT
"""A small OpenAI-compatible server with known timings: what a load generator measures against it is known in
advance. Standard library only; runs on a thread of its own."""
import asyncio
import json
import threading


class FakeServer:
    """Streams `tokens` (or max_tokens) words: the first after `ttft` seconds, the others `gap` seconds apart.

    slots      how many requests are served at once; the others wait (None: all)
    per_chunk  words in one event
    usage      whether the last event tells the token counts
    break_at   {n: how}: request number n (from 0) fails: "500", "429", "reset" (before any byte), "cut" (in the
               middle of the stream), "error" (an in-band error event), "stall" (never answers), "garbage"
    close      one connection a request instead of keep-alive
    """

    def __init__(self, ttft=0.02, gap=0.002, slots=None, per_chunk=1, usage=True, break_at=None, close=False,
                 words_per_token=1, template_tokens=7):
        self.ttft, self.gap, self.per_chunk, self.usage, self.close = ttft, gap, per_chunk, usage, close
        self.break_at = break_at or {}
        self.slots = slots
        self.words_per_token, self.template_tokens = words_per_token, template_tokens
        self.bodies, self.headers, self.paths = [], [], []
        self.connections = 0
        self.counted = 0
        self.running = self.most_running = 0

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        if not started.wait(30):
            raise RuntimeError("the fake server did not start")
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.gate = asyncio.Semaphore(self.slots or 1_000_000)
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        server.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if (method, path) == ("GET", "/v1/models"):
            self._send(writer, "200 OK", json.dumps({"object": "list", "data": [{"id": "fake-model"}]}))
            return not self.close
        if method != "POST" or path not in ("/v1/chat/completions", "/v1/completions"):
            self._send(writer, "404 Not Found", json.dumps({"error": {"message": f"no {path} here"}}))
            return not self.close
        return await self._complete(json.loads(body), path, headers, writer)

    async def _complete(self, body, path, headers, writer):
        probe = body["max_tokens"] == 1  # the client measures lengths with these before the run
        number = -1 if probe else self.counted
        if not probe:
            self.counted += 1
            self.bodies.append(body)
            self.headers.append(headers)
            self.paths.append(path)
        how = self.break_at.get(number)
        async with self.gate:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                return await self._answer(body, path, how, writer)
            finally:
                self.running -= 1

    async def _answer(self, body, path, how, writer):
        if how == "reset":
            writer.transport.abort()
            return False
        if how in ("500", "429"):
            status = {"500": "500 Internal Server Error", "429": "429 Too Many Requests"}[how]
            self._send(writer, status, json.dumps({"error": {"message": f"told to fail with {how}"}}))
            return not self.close
        if how == "garbage":
            writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            await writer.drain()
            return False
        await asyncio.sleep(3600 if how == "stall" else self.ttft)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n")
        writer.write(b"connection: close\r\n\r\n" if self.close else b"\r\n")
        chat = path.endswith("chat/completions")
        if chat:
            self._event(writer, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        sent = 0
        while sent < body["max_tokens"]:
            if sent > 0:
                await asyncio.sleep(self.gap)
            count = min(self.per_chunk, body["max_tokens"] - sent)
            text = "".join(f" w{sent + i}" for i in range(count))
            self._event(writer, {"choices": [{"index": 0, **({"delta": {"content": text}} if chat else {"text": text})}]})
            await writer.drain()
            sent += count
            if how == "cut" and sent >= body["max_tokens"] // 2:
                writer.transport.abort()
                return False
            if how == "error" and sent >= body["max_tokens"] // 2:
                self._event(writer, {"error": {"message": "told to fail in the stream", "type": "server_error"}})
                self._end(writer)
                return not self.close
        self._event(writer, {"choices": [{"index": 0, "finish_reason": "length", **({"delta": {}} if chat else {"text": ""})}]})
        if self.usage and body.get("stream_options", {}).get("include_usage"):
            self._event(writer, {"choices": [], "usage": self._usage(body, sent)})
        self._end(writer)
        await writer.drain()
        return not self.close

    def _usage(self, body, sent):
        text = body["prompt"] if "prompt" in body else " ".join(m["content"] for m in body["messages"])
        prompt = len(text.split()) * self.words_per_token + (self.template_tokens if "messages" in body else 0)
        return {"prompt_tokens": prompt, "completion_tokens": sent, "total_tokens": prompt + sent}

    def _send(self, writer, status, text):
        data = text.encode()
        close = "connection: close\r\n" if self.close else ""
        writer.write(f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{close}content-length: {len(data)}\r\n\r\n"
                     .encode() + data)

    @staticmethod
    def _event(writer, value):
        data = f"data: {json.dumps(value)}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    @staticmethod
    def _end(writer):
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The calls that Open WebUI and LiteLLM make, as tests/clients/recorded has them, are answered in the shapes they read.

A call is {name, method, path, headers, body, shape}, with `status` where it is not 200 and `stream` where the answer is
one: "sse" or "lines". $MODEL stands for the model's name.
"""
import json
import unittest

from openapi import Document
from program import MODELS, SOURCE
from server import Server

SHAPES = Document('{"components": {"schemas": {}}}')


def pieces(call, text):
    """The JSON values of an answer, each of which has the shape."""
    if call.get("stream") == "lines":
        return [json.loads(line) for line in text.splitlines() if line]
    if call.get("stream") == "sse":
        frames = [frame[6:] for frame in text.split("\n\n") if frame.startswith("data: ")]
        assert frames[-1] == "[DONE]", frames[-1]
        return [json.loads(frame) for frame in frames[:-1]]
    return [json.loads(text)]


class RecordedClients(unittest.TestCase):
    def replay(self, name, *args):
        recorded = json.loads((SOURCE / f"tests/clients/recorded/{name}.json").read_text(encoding="utf-8"))
        with Server(MODELS / "cub-1m", "--kv-memory", "8MiB", "--served-model-name", "cub", "--ctx-size", "512",
                    *args) as server:
            for call in recorded["calls"]:
                with self.subTest(f"{recorded['client']}: {call['name']}"):
                    body = json.dumps(call["body"]) if "body" in call else None
                    if body:
                        body = body.replace("$MODEL", "cub").replace("$LONG", "word " * 2000)
                    status, headers, text = server.ask(call["method"], call["path"], body, call["headers"])
                    self.assertEqual(status, call.get("status", 200), text)
                    self.assertIsNone(headers["content-encoding"])
                    values = pieces(call, text.decode())
                    for value in values:
                        SHAPES.check(value, call["shape"], call["name"])
                    if call.get("stream") == "lines":
                        self.assertEqual([value["done"] for value in values], [False] * (len(values) - 1) + [True])

    def test_open_webui(self):
        self.replay("open_webui")

    def test_litellm(self):
        self.replay("litellm")

    def test_both_where_models_come_and_go(self):
        self.replay("open_webui", "--enable-sleep-mode")
        self.replay("litellm", "--enable-sleep-mode")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The API as a person with curl sees it."""
import json
import shutil
import subprocess
import unittest

from program import MODELS
from server import Server


def curl(*args):
    done = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "60", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@unittest.skipUnless(shutil.which("curl"), "curl is needed")
class Curl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(MODELS / "cub-1m", "--kv-memory", "8MiB", "--served-model-name", "cub")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def post(self, path, body, *args):
        data = body if isinstance(body, str) else json.dumps(body)
        return curl(self.server.url + path, "-H", "content-type: application/json", "-d", data, *args)

    def status(self, path, body):
        text = self.post(path, body, "-w", "\n%{http_code}")
        answer, _, code = text.rpartition("\n")
        return int(code), json.loads(answer)

    def chat(self, **more):
        return {"model": "cub", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "temperature": 0, **more}

    def test_a_chat_is_answered_with_and_without_the_version_in_the_path(self):
        first = json.loads(self.post("/v1/chat/completions", self.chat()))
        second = json.loads(self.post("/chat/completions", self.chat()))
        self.assertEqual(first["choices"], second["choices"])

    def test_a_stream_is_framed_and_ends(self):
        text = self.post("/v1/chat/completions", self.chat(stream=True), "--no-buffer")
        frames = text.split("\n\n")
        self.assertEqual(frames[-2:], ["data: [DONE]", ""])
        self.assertTrue(all(frame.startswith("data: ") for frame in frames[:-1]))
        deltas = [json.loads(frame[6:])["choices"][0]["delta"].get("content") or "" for frame in frames[:-2]]
        whole = json.loads(self.post("/v1/chat/completions", self.chat()))
        self.assertEqual("".join(deltas), whole["choices"][0]["message"]["content"])

    def test_every_endpoint_answers(self):
        for path, body, field in (
                ("/v1/completions", {"model": "cub", "prompt": "Once", "max_tokens": 2}, "choices"),
                ("/v1/embeddings", {"model": "cub", "input": "Once"}, "data"),
                ("/v1/responses", {"model": "cub", "input": "Hi", "max_output_tokens": 2}, "output"),
                ("/v1/messages", self.chat(), "content"),
                ("/v1/messages/count_tokens", self.chat(), "input_tokens"),
                ("/tokenize", {"prompt": "Once"}, "tokens"),
                ("/detokenize", {"tokens": [5, 6]}, "prompt")):
            with self.subTest(path):
                status, answer = self.status(path, body)
                self.assertEqual(status, 200, answer)
                self.assertIn(field, answer)

    def test_errors_are_objects_with_four_members(self):
        for body, status, code in (("{", 400, "invalid_json"), ("{}", 400, "missing_parameter"),
                                   (self.chat(model="no"), 404, "model_not_found"),
                                   (self.chat(n=0), 400, "invalid_value")):
            with self.subTest(code):
                seen, answer = self.status("/v1/chat/completions", body)
                self.assertEqual(seen, status)
                self.assertEqual(sorted(answer["error"]), ["code", "message", "param", "type"])
                self.assertEqual(answer["error"]["code"], code)

    def test_an_unknown_field_is_told_in_a_header(self):
        text = self.post("/v1/chat/completions", self.chat(temprature=1), "--include")
        self.assertIn("did you mean temperature", text)

    def test_a_header_asks_for_the_times(self):
        self.assertNotIn("timings", self.post("/v1/chat/completions", self.chat()))
        answer = json.loads(self.post("/v1/chat/completions", self.chat(), "-H", "x-cheetah-timings: 1"))
        self.assertGreater(answer["timings"]["total_ms"], 0)


if __name__ == "__main__":
    unittest.main()

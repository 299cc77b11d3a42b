#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every path of the OpenAPI document is asked, and what comes back is held to the document."""
import json
import tempfile
import time
import unittest

from openapi import Document
from program import MODELS
from server import Server

M = {"model": "cub"}
HI = {**M, "messages": [{"role": "user", "content": "Hi"}]}
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
FEW = {"options": {"num_predict": 4}}
GOOD = [
    ("POST", "/v1/chat/completions", {**HI, "max_tokens": 4}),
    ("POST", "/v1/chat/completions", {**HI, "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}),
    ("POST", "/v1/chat/completions", {**HI, "max_tokens": 4, "logprobs": True, "top_logprobs": 2, "n": 2}),
    ("POST", "/v1/chat/completions", {**HI, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required"}),
    ("POST", "/v1/chat/completions", {**HI, "max_tokens": 4, "prompt_logprobs": 1, "xtc_probability": 0.5,
                                      "dry_multiplier": 0.8, "top_n_sigma": 1, "dynatemp_range": 0.5}),
    ("POST", "/v1/completions", {**M, "prompt": "Once", "max_tokens": 4, "logprobs": 1, "mirostat": 2}),
    ("POST", "/v1/completions", {**M, "prompt": "Once", "max_tokens": 4, "prompt_logprobs": 2}),
    ("POST", "/v1/completions", {**M, "prompt": "Once", "max_tokens": 4, "stream": True}),
    ("POST", "/v1/responses", {**M, "input": "Hi", "max_output_tokens": 4}),
    ("POST", "/v1/responses", {**M, "input": "Hi", "max_output_tokens": 4, "stream": True}),
    ("POST", "/v1/responses", {**M, "input": "Hi", "max_output_tokens": 4, "store": True}),
    ("POST", "/v1/messages", {**HI, "max_tokens": 4}),
    ("POST", "/v1/messages", {**HI, "max_tokens": 4, "stream": True}),
    ("POST", "/v1/messages/count_tokens", HI),
    ("POST", "/v1/embeddings", {**M, "input": ["a", "b"]}),
    ("POST", "/v1/embeddings", {**M, "input": "a", "encoding_format": "base64"}),
    ("POST", "/tokenize", {"content": "Hi", "with_pieces": True}),
    ("POST", "/detokenize", {"tokens": [20, 21]}),
    ("POST", "/pooling", {**M, "input": ["a"]}),
    ("POST", "/v1/score", {**M, "text_1": "a", "text_2": ["b", "c"]}),
    ("POST", "/v1/rerank", {**M, "query": "a", "documents": ["b", "c"]}),
    ("POST", "/v2/rerank", {**M, "query": "a", "documents": ["b", {"text": "c"}], "top_n": 1}),
    ("POST", "/completion", {"prompt": "Once", "n_predict": 4}),
    ("POST", "/completion", {"prompt": "Once", "n_predict": 4, "stream": True}),
    ("POST", "/apply-template", HI),
    ("POST", "/api/chat", {**HI, **FEW}),
    ("POST", "/api/chat", {**HI, **FEW, "stream": False}),
    ("POST", "/api/generate", {**M, "prompt": "Hi", **FEW}),
    ("POST", "/api/generate", {**M, "prompt": "Hi", **FEW, "stream": False}),
    ("POST", "/api/embed", {**M, "input": "a"}),
    ("POST", "/api/embeddings", {**M, "prompt": "a"}),
    ("POST", "/api/show", M),
    ("POST", "/api/pull", M),
    *[("GET", path, None) for path in (
        "/v1/models", "/v1/models/cub", "/v1/files", "/v1/batches", "/props", "/slots", "/api/tags", "/api/ps",
        "/api/version", "/v1/stats", "/v1/decisions", "/v1/decisions?request=1", "/metrics", "/version", "/health", "/health/live", "/health/ready",
        "/ready", "/health/engine")],
]
REFUSED = [
    ("POST", "/v1/chat/completions", {"model": "none", "messages": []}),
    ("POST", "/v1/completions", {"model": "cub"}),
    ("POST", "/v1/messages", {"model": "cub"}),
    ("POST", "/infill", {"input_prefix": "a", "input_suffix": "b"}),
    ("POST", "/api/chat", {"model": "none", "messages": []}),
    ("POST", "/api/create", {}),
    ("POST", "/api/copy", {}),
    ("POST", "/api/push", {}),
    ("DELETE", "/api/delete", {}),
    ("DELETE", "/v1/requests/none", None),
    ("GET", "/admin/cluster", None),
    ("GET", "/admin/trace/none", None),
    *[("POST", f"/admin/{act}", {}) for act in ("cordon", "uncordon", "drain", "role", "scale")],
    ("GET", "/v1/files/none", None),
    ("GET", "/v1/models/none", None),
    ("POST", "/models/load", {"model": "none"}),
    ("GET", "/v1/responses/none", None),
    ("DELETE", "/v1/responses/none", None),
    ("GET", "/v1/responses/none/input_items", None),
    ("GET", "/v1/decisions?request=x", None),
]


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(MODELS / "cub-1m", "--kv-memory", "8MiB", "--served-model-name", "cub", "--enable-sleep-mode",
                            "--response-store", f"{cls.folder.name}/responses.db")
        status, headers, text = cls.server.ask("GET", "/openapi.json")
        assert status == 200 and headers["content-type"] == "application/json"
        cls.document = Document(text)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def ask(self, method, path, body=None, headers=None):
        status, answer, text = self.server.ask(method, path, body, headers)
        self.document.check_answer(method, path, status, answer["content-type"], text)
        return status, text

    def test_every_path_answers_as_the_document_says(self):
        for method, path, body in GOOD:
            with self.subTest(f"{method} {path}"):
                if body is not None:
                    self.document.check_request(method, path, body)
                self.assertEqual(self.ask(method, path, body)[0], 200)
        for method, path, body in REFUSED:
            with self.subTest(f"{method} {path}"):
                self.assertGreaterEqual(self.ask(method, path, body)[0], 400)
        self.run_a_batch()
        self.keep_a_response()
        self.sleep_and_wake()
        operations = {(method.upper(), path) for path, methods in self.document.document["paths"].items() for method in methods}
        self.assertEqual(operations - self.document.seen, set())

    def keep_a_response(self):
        made = json.loads(self.ask("POST", "/v1/responses", {**M, "input": "Hi", "max_output_tokens": 4})[1])
        self.assertEqual(self.ask("GET", f"/v1/responses/{made['id']}")[0], 200)
        self.assertEqual(self.ask("GET", f"/v1/responses/{made['id']}/input_items")[0], 200)
        self.assertEqual(self.ask("DELETE", f"/v1/responses/{made['id']}")[0], 200)

    def sleep_and_wake(self):
        for method, path in (("POST", "/sleep"), ("GET", "/is_sleeping"), ("POST", "/wake_up"), ("POST", "/models/load"),
                             ("POST", "/models/unload")):
            self.assertEqual(self.ask(method, path, {"model": "cub"} if method == "POST" else None)[0], 200, path)
            self.ask("GET", "/v1/models")

    def run_a_batch(self):
        line = json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/completions",
                           "body": {**M, "prompt": "Once", "max_tokens": 2}})
        form = ("--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B\r\nContent-Disposition: "
                f"form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{line}\r\n--B--\r\n")
        file = json.loads(self.ask("POST", "/v1/files", form, {"Content-Type": "multipart/form-data; boundary=B"})[1])
        self.ask("GET", f"/v1/files/{file['id']}")
        batch = json.loads(self.ask("POST", "/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/completions"})[1])
        for _ in range(600):
            batch = json.loads(self.ask("GET", f"/v1/batches/{batch['id']}")[1])
            if batch["status"] == "completed":
                break
            time.sleep(0.1)
        self.assertEqual(batch["request_counts"], {"total": 1, "completed": 1, "failed": 0})
        self.ask("GET", f"/v1/files/{batch['output_file_id']}/content")
        self.ask("POST", f"/v1/batches/{batch['id']}/cancel")
        self.ask("DELETE", f"/v1/files/{file['id']}")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""serve --response-store: what was answered is there after a kill -9, each tenant's alone, whole or not at all."""
import concurrent.futures
import http.client
import json
import os
import sqlite3
import tempfile
import unittest

from program import MODELS
from server import Server


def create(**more):
    return {"model": "cub-1m", "input": "Tell me of a dog.", "max_output_tokens": 6, "temperature": 0, **more}


class KeptResponses(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = f"{self.folder.name}/responses.db"

    def tearDown(self):
        self.folder.cleanup()

    def serve(self, *args):
        return Server(MODELS / "cub-1m", "--kv-memory", "8MiB", "--response-store", self.file, *args)

    def test_a_conversation_goes_on_after_kill_9(self):
        with self.serve() as server:
            first = server.json("POST", "/v1/responses", create())[1]
            self.assertEqual(server.json("GET", f"/v1/responses/{first['id']}")[1], first)
            server.kill()
        with self.serve() as server:
            self.assertEqual(server.json("GET", f"/v1/responses/{first['id']}")[1], first)
            second = server.json("POST", "/v1/responses", create(input="And then?", previous_response_id=first["id"]))[1]
            self.assertEqual(second["previous_response_id"], first["id"])
            self.assertGreater(second["usage"]["input_tokens"], first["usage"]["input_tokens"])

    def test_killed_in_the_middle_of_writing_every_response_is_whole_or_not_there(self):
        answered = []

        def ask(server):
            try:
                answered.append(server.json("POST", "/v1/responses", create())[1])
            except (OSError, ValueError, http.client.HTTPException):
                pass  # it was killed
        with self.serve() as server:
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                waiting = [threads.submit(ask, server) for _ in range(40)]
                concurrent.futures.wait(waiting[:20])
                server.kill()
        self.assertGreaterEqual(len(answered), 20)
        with self.serve() as server:
            for response in answered:
                status, kept = server.json("GET", f"/v1/responses/{response['id']}")
                self.assertTrue(status == 404 or kept == response, kept)
            self.assertEqual(server.json("POST", "/v1/responses", create())[0], 200)
        with sqlite3.connect(self.file) as file:
            self.assertEqual(file.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            for (text,) in file.execute("SELECT response FROM responses"):
                json.loads(text)

    def test_a_tenant_sees_its_own(self):
        keys = f"{self.folder.name}/keys"
        with open(keys, "w", encoding="utf-8") as file:
            file.write("alice alice-key-1234\nbob bob-key-123456\n")
        with self.serve("--api-key-file", keys) as server:
            alice, bob = ({"Authorization": f"Bearer {key}"} for key in ("alice-key-1234", "bob-key-123456"))
            made = server.json("POST", "/v1/responses", create(), alice)[1]
            path = f"/v1/responses/{made['id']}"
            self.assertEqual(server.json("GET", path, None, bob)[0], 404)
            self.assertEqual(server.json("DELETE", path, None, bob)[0], 404)
            status, answer = server.json("POST", "/v1/responses", create(previous_response_id=made["id"]), bob)
            self.assertEqual((status, answer["error"]["code"]), (404, "previous_response_not_found"))
            self.assertEqual(server.json("GET", path, None, alice)[0], 200)

    def test_it_is_bounded_and_nobody_elses_business(self):
        with self.serve("--response-store-size", "16KiB") as server:
            for _ in range(40):
                last = server.json("POST", "/v1/responses", create())[1]
            self.assertEqual(server.json("GET", f"/v1/responses/{last['id']}")[0], 200)
        with sqlite3.connect(self.file) as file:
            self.assertLessEqual(file.execute("SELECT sum(bytes) FROM responses").fetchone()[0], 16 << 10)
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()

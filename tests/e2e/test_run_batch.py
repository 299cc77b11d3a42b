#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cheetah run-batch: a file of requests in, a file of answers out."""
import json
import os
import tempfile
import unittest

from program import MODELS, ProgramTest

MODEL = str(MODELS / "cub-1m")


def line(name, body, url="/v1/chat/completions"):
    return json.dumps({"custom_id": name, "method": "POST", "url": url, "body": body}) + "\n"


class RunBatch(ProgramTest):
    def test_every_line_gets_its_answer(self):
        ask = {"model": "cub-1m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            with open(source, "w") as file:
                for i in range(20):
                    file.write(line(f"r{i}", ask))
                file.write(line("wrong", {"model": "cub-1m"}))
                file.write("no json\n")
            self.ok("run-batch", MODEL, "-i", source, "-o", target)
            with open(target) as file:
                answers = {one["custom_id"]: one["response"] for one in map(json.loads, file)}
            self.assertEqual(len(answers), 22)
            for i in range(20):
                self.assertEqual(answers[f"r{i}"]["status_code"], 200)
                self.assertEqual(answers[f"r{i}"]["body"]["object"], "chat.completion")
            self.assertEqual(answers["wrong"]["body"]["error"]["param"], "messages")
            self.assertEqual(answers[""]["status_code"], 400)
            self.assertFalse(os.path.exists(target + ".part"))

    def test_a_file_that_is_not_there_is_one_sentence(self):
        self.fails(1, "run-batch", MODEL, "-i", "/no/such", "-o", "/tmp/x", mentions=("-i /no/such",))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the program tells a newcomer to type works as it stands."""
import json
import os
import re
import shutil
import subprocess
import unittest

from program import MODELS, PROGRAM, ProgramTest


class FirstSteps(ProgramTest):
    def told_call(self, model, **env):
        """Starts a server and runs the curl command it prints; the answer's text."""
        process = subprocess.Popen([PROGRAM, "serve", str(model), "--port", "0", "--kv-memory", "8MiB", "--log-level", "off"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=dict(os.environ, **env))
        try:
            text = ""
            while "base URL" not in text:
                line = process.stdout.readline()
                self.assertTrue(line, f"the server ended: {text}")
                text += line
            command = re.search(r"curl (?:.*\\\n)*.*\n", text)[0]
            done = subprocess.run(["sh", "-c", command.replace("curl ", "curl -sS --fail-with-body ", 1)], capture_output=True, text=True,
                                  timeout=120, env=dict(os.environ, **env), check=False)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout} {done.stderr}")
            return done.stdout
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def setUp(self):
        if not shutil.which("curl"):
            self.skipTest("no curl")

    def test_the_call_that_serve_prints(self):
        self.assertIn("data: [DONE]", self.told_call(MODELS / "cub-1m"))

    def test_a_model_without_a_tokenizer_gets_ids(self):
        self.assertIn("choices", json.loads(self.told_call("random:tiny-128k")))

    def test_a_server_with_keys_shows_where_the_key_goes(self):
        self.assertIn("data: [DONE]", self.told_call(MODELS / "cub-1m", CHEETAH_API_KEY="a-long-secret"))


if __name__ == "__main__":
    unittest.main()

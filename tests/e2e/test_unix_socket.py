#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""serve --uds: over a Unix socket alone, with the rights it is to have, after a crash too."""
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

from program import MODELS, PROGRAM


class UnixSocket(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/cheetah.sock"
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.folder.cleanup()

    def start(self, *args):
        process = subprocess.Popen([PROGRAM, "serve", MODELS / "cub-1m", "--kv-memory", "8MiB", "--uds", self.path, *args],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        for line in process.stdout:
            if line.startswith("ready"):
                self.ready = line
                return process
        raise AssertionError(process.stderr.read())

    def curl(self, path, *args):
        done = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "60", "--unix-socket", self.path,
                               f"http://localhost{path}", *args], capture_output=True, text=True, timeout=90, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(shutil.which("curl"), "curl is needed")
    def test_curl_is_answered_and_nothing_listens_elsewhere(self):
        process = self.start("--uds-mode", "0660")
        self.assertIn(f"unix:{self.path}", self.ready)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o660)
        answer = json.loads(self.curl("/v1/completions", "-H", "content-type: application/json", "-d",
                                      json.dumps({"model": "cub-1m", "prompt": "Once", "max_tokens": 3})))
        self.assertEqual(answer["usage"]["completion_tokens"], 3)
        inodes = {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")}
        with open(f"/proc/{process.pid}/net/tcp") as table:
            rows = [line.split() for line in table.readlines()[1:]]
        listening = [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]
        self.assertEqual(listening, [])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        self.assertFalse(os.path.exists(self.path))

    @unittest.skipUnless(shutil.which("curl"), "curl is needed")
    def test_a_killed_servers_socket_is_taken_over_and_a_running_ones_is_not(self):
        first = self.start()
        second = subprocess.run([PROGRAM, "serve", MODELS / "cub-1m", "--uds", self.path], capture_output=True, text=True,
                                timeout=60, stdin=subprocess.DEVNULL, check=False)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("another server listens there", second.stderr)
        first.kill()
        first.wait()
        self.assertTrue(os.path.exists(self.path))
        self.start()
        self.assertEqual(json.loads(self.curl("/health/live"))["status"], "ok")
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)

    def test_a_file_in_the_way_is_left_alone(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("mine")
        done = subprocess.run([PROGRAM, "serve", MODELS / "cub-1m", "--uds", self.path], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not a socket", done.stderr)
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")


if __name__ == "__main__":
    unittest.main()

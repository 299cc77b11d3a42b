# SPDX-License-Identifier: MIT
"""Starts `cheetah serve` on a free port and stops it again."""
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from program import PROGRAM


class Server:
    """A running server; use it in a with statement. Logs and output go to files, so that no pipe fills up."""

    def __init__(self, *args, environment=None, ready=True, patience=120):
        self.out = tempfile.TemporaryFile("w+b")
        self.err = tempfile.TemporaryFile("w+b")
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0", *map(str, args)], stdout=self.out, stderr=self.err,
                                        stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        self.patience = patience
        wanted = rb"ready(?: after|:) .* at (https?)://([^:\s]+):(\d+)" if ready else rb"starts at (https?)://([^:\s]+):(\d+)"
        found = self._wait_for(wanted)
        self.scheme, self.host, self.port = found[1].decode(), found[2].decode(), int(found[3])
        self.url = f"{self.scheme}://{self.host}:{self.port}"

    def _wait_for(self, pattern):
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if found := re.search(pattern, self.output()):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.kill()
        raise AssertionError(f"the server did not start: {self.output()!r} {self.log()!r}")

    def output(self):
        return os.pread(self.out.fileno(), 1 << 20, 0)

    def log(self):
        return os.pread(self.err.fileno(), 64 << 20, 0).decode("utf-8", "replace")

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body of one request; a dict or list is sent as JSON."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, headers=None):
        status, _, text = self.ask(method, path, body, headers)
        return status, json.loads(text)

    def stats(self):
        return self.json("GET", "/v1/stats")[1]

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, number=signal.SIGTERM):
        """The exit code after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop: {self.log()[-2000:]}") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.out.close()
        self.err.close()

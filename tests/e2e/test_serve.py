#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cheetah serve as a person runs it: start, settings, signals, TLS, traces."""
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from program import MODELS, ProgramTest
from server import Server

SMALL = (MODELS / "cub-1m", "--kv-memory", "8MiB")
STORY = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}


class Start(ProgramTest):
    def test_tells_budget_phases_and_address_and_serves(self):
        with Server(*SMALL) as server:
            text = server.output().decode()
            for part in ("port open", "model read", "warmed up", "key and value cache", "ready after", "curl http"):
                self.assertIn(part, text)
            self.assertLess(text.index("key and value cache"), text.index("model read"), "the budget comes first")
            status, answer = server.json("POST", "/v1/completions", {"model": "cub-1m", **STORY})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["usage"]["completion_tokens"], 12)
            self.assertEqual(server.stop(), 0)

    def test_the_embedded_model_needs_no_argument(self):
        with Server() as server:
            self.assertEqual(server.json("GET", "/v1/models")[1]["data"][0]["id"], "cub-7m")

    def test_names_of_the_model(self):
        with Server(*SMALL, "--served-model-name", "mine,gpt-4o") as server:
            ids = [model["id"] for model in server.json("GET", "/v1/models")[1]["data"]]
            self.assertEqual(ids, ["mine", "gpt-4o"])
            self.assertEqual(server.json("POST", "/v1/completions", {"model": "gpt-4o", **STORY})[0], 200)
            self.assertEqual(server.json("POST", "/v1/completions", {"model": "other", **STORY})[0], 404)

    def test_a_model_of_the_hub_has_its_name_there(self):
        with tempfile.TemporaryDirectory() as home:
            repository = os.path.join(home, "hub", "models--acme--cub")
            os.makedirs(os.path.join(repository, "refs"))
            with open(os.path.join(repository, "refs", "main"), "w") as ref:
                ref.write("abc123")
            shutil.copytree(MODELS / "cub-1m", os.path.join(repository, "snapshots", "abc123"))
            with open(os.path.join(repository, "snapshots", "abc123", "generation_config.json"), "w") as file:
                json.dump({"temperature": 0.001, "top_k": 1, "eos_token_id": 0}, file)
            env = {"HF_HOME": home}
            with Server("acme/cub@abc123", "--kv-memory", "8MiB", environment=env) as server:
                self.assertIn("acme/cub at http", server.output().decode())
                ids = [model["id"] for model in server.json("GET", "/v1/models")[1]["data"]]
                self.assertEqual(ids, ["acme/cub", "acme/cub@abc123"])
                ask = {"model": "acme/cub", "prompt": "Once upon a time", "max_tokens": 12}
                answers = [server.json("POST", "/v1/completions", ask) for _ in range(3)]
                self.assertEqual({status for status, _ in answers}, {200}, answers)
                # generation_config.json says top_k 1: without it three answers would differ.
                self.assertEqual(len({answer["choices"][0]["text"] for _, answer in answers}), 1)
            with Server("acme/cub", "--generation-config", "none", "--kv-memory", "8MiB", environment=env) as server:
                ask = {"model": "acme/cub", "prompt": "Once upon a time", "max_tokens": 12}
                texts = {server.json("POST", "/v1/completions", ask)[1]["choices"][0]["text"] for _ in range(4)}
                self.assertGreater(len(texts), 1)

    def test_a_port_in_use_is_one_sentence(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.fails(1, "serve", "--port", str(taken.getsockname()[1]), mentions=("in use", "--port"))

    def test_refuses_to_be_open_to_the_network_without_a_key(self):
        self.fails(2, "serve", "--host", "0.0.0.0", "--port", "0", mentions=("--api-key-file", "--insecure"))

    def test_mistakes_in_settings(self):
        self.fails(2, "serve", "--prot", "1", mentions=("--port",))
        self.fails(2, "serve", "--port", "70000", mentions=("--port",))
        self.fails(2, "serve", env={**os.environ, "CHEETAH_MAX_QUEUE": "many"}, mentions=("CHEETAH_MAX_QUEUE",))
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("max-qeue = 5\n")
            file.flush()
            self.fails(2, "serve", "--config", file.name, mentions=("max-queue",))

    def test_the_printed_settings_are_a_file_that_reads_back(self):
        printed = self.ok("serve", "--print-config")
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(printed)
            file.flush()
            again = self.ok("serve", "--config", file.name, "--print-config")
        values = [[line.split("#")[0].strip() for line in text.splitlines()] for text in (printed, again)]
        self.assertEqual(*values)

    def test_print_config_tells_the_sources(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("max-queue = 5\n")
            file.flush()
            out = self.ok("serve", "--config", file.name, "--port", "9", "--print-config", env={**os.environ, "CHEETAH_HOST": "::1"})
        for line in out.splitlines():
            name = line.split()[0]
            source = {"port": "--port", "host": "CHEETAH_HOST", "max-queue": file.name}.get(name)
            if source:
                self.assertIn(source, line)


class Keys(ProgramTest):
    def test_from_a_file_and_from_the_environment(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("alice alices-secret rpm=1000\n")
            file.flush()
            os.chmod(file.name, 0o600)
            with Server(*SMALL, "--api-key-file", file.name, environment={"CHEETAH_API_KEY": "environment-secret"}) as server:
                self.assertEqual(server.json("GET", "/v1/models")[0], 401)
                for key in ("alices-secret", "environment-secret"):
                    self.assertEqual(server.json("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0], 200)
                self.assertEqual(server.ask("GET", "/health")[0], 200)
                self.assertEqual(server.stop(), 0)
                for key in ("alices-secret", "environment-secret"):
                    self.assertNotIn(key, server.log() + server.output().decode())


class Signals(ProgramTest):
    def stream(self, server, **fields):
        """A response that has begun."""
        connection = server.connect()
        self.addCleanup(connection.close)
        body = {**STORY, "stream": True, "ignore_eos": True, **fields}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        self.assertTrue(response.readline().startswith(b"data: "))
        return response

    # Enough work to be still running when the signal comes.
    LONG = {"model": "cub-7m", "max_tokens": 1000, "n": 32}

    def test_sigterm_finishes_what_runs(self):
        with Server(*SMALL) as server:
            response = self.stream(server, model="cub-1m", max_tokens=400)
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
            self.assertEqual(server.process.wait(60), 0)

    def test_sigterm_gives_up_after_its_time(self):
        with Server("--shutdown-timeout", "0") as server:
            response = self.stream(server, **self.LONG)
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertIn(b"draining", response.read())
            self.assertEqual(server.process.wait(60), 0)
            self.assertLess(time.monotonic() - begin, 30)

    def test_sigint_drains_too_and_a_second_one_forces(self):
        with Server(*SMALL) as server:
            self.assertEqual(server.stop(signal.SIGINT), 0)
        with Server() as server:
            self.stream(server, **self.LONG)
            server.process.send_signal(signal.SIGINT)
            end = time.monotonic() + 60
            while "signal 2" not in server.log() and time.monotonic() < end:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(60), 130)


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the spans it is sent."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.spans += [(self.path, span) for resource in body["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Traces(ProgramTest):
    def test_spans_reach_a_collector_under_the_callers_trace(self):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
            collector.spans = []
            threading.Thread(target=collector.serve_forever, daemon=True).start()
            self.addCleanup(collector.shutdown)
            with Server(*SMALL, "--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}") as server:
                trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
                server.json("POST", "/v1/completions", {"model": "cub-1m", **STORY}, {"traceparent": f"00-{trace}-{parent}-01"})
                server.json("POST", "/v1/completions", {"model": "cub-1m", **STORY}, {"traceparent": f"00-{trace}-{parent}-00"})
                server.json("POST", "/v1/completions", {"model": "nobody", **STORY})
                self.assertEqual(server.stop(), 0)
            self.assertEqual(len(collector.spans), 2)
            path, span = collector.spans[0]
            self.assertEqual((path, span["traceId"], span["parentSpanId"]), ("/v1/traces", trace, parent))
            attributes = {each["key"]: each["value"] for each in span["attributes"]}
            self.assertEqual(attributes["gen_ai.usage.output_tokens"], {"intValue": "12"})
            self.assertNotIn("Once upon", json.dumps(collector.spans))


class Tls(ProgramTest):
    def test_speaks_https_with_a_certificate(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                            "-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                           check=True, capture_output=True, timeout=60)
            with Server(*SMALL, "--tls-cert", cert, "--tls-key", key) as server:
                self.assertEqual(server.scheme, "https")
                context = ssl.create_default_context(cafile=cert)
                connection = http.client.HTTPSConnection(server.host, server.port, timeout=60, context=context)
                body = json.dumps({"model": "cub-1m", **STORY, "stream": True})
                connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
                self.assertTrue(connection.getresponse().read().endswith(b"data: [DONE]\n\n"))
                connection.close()
                # Plain text on the port of HTTPS is not answered, and harms nobody.
                with socket.create_connection((server.host, server.port), timeout=60) as plain:
                    plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertNotIn(b"HTTP/1.1 200", plain.recv(1000))
                connection = http.client.HTTPSConnection(server.host, server.port, timeout=60, context=context)
                connection.request("GET", "/health")
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()

    def test_a_bad_certificate_is_one_sentence(self):
        self.fails(1, "serve", "--port", "0", "--tls-cert", "/dev/null", "--tls-key", "/dev/null", mentions=("/dev/null", "certificate"))


if __name__ == "__main__":
    unittest.main()

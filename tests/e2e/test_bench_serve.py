#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench serve against a server whose timings are known. Only lower bounds are held to them: a busy machine is late."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from fake_openai import FakeServer
from program import PROGRAM, ProgramTest

os.environ.pop("OPENAI_API_KEY", None)


class BenchServe(ProgramTest):
    def measure(self, server, *args, code=0):
        process = subprocess.run([PROGRAM, "bench", "serve", "--url", server.url, "--json", "-", *args],
                                 capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(process.returncode, code, process.stderr)
        return json.loads(process.stdout)

    def one(self, server, *args, code=0):
        return self.measure(server, *args, code=code)["steps"][0]


class Measurements(BenchServe):
    def test_a_closed_loop_measures_what_the_server_does(self):
        with FakeServer(ttft=0.05, gap=0.005) as server:
            step = self.one(server, "--concurrency", "4", "--requests", "12", "--output-tokens", "10")
        self.assertEqual((step["requests"], step["completed"]), (12, 12))
        self.assertEqual(step["tokens"]["output"], 120)
        self.assertEqual(step["tokens"]["events"], 120)
        self.assertEqual(step["latency"]["itl_s"]["count"], 12 * 9)
        self.assertGreaterEqual(step["latency"]["ttft_s"]["min"], 0.05)
        self.assertGreaterEqual(step["latency"]["tpot_s"]["min"], 0.0045)  # a late first token shortens the rest
        self.assertGreaterEqual(step["latency"]["e2e_s"]["min"], 0.05 + 9 * 0.005)
        self.assertLessEqual(server.most_running, 4)
        self.assertEqual(server.counted, 12 + 1)  # and the warm-up

    def test_waiting_to_be_sent_counts_as_latency(self):
        # Twenty requests are due within a fifth of a second, one at a time takes 0.1 s: the last waits long.
        with FakeServer(ttft=0.1, gap=0, slots=1) as server:
            step = self.one(server, "--rate", "100", "--arrival", "constant", "--requests", "20", "--concurrency", "1",
                            "--output-tokens", "2", "--slo-ttft", "500")
        latency = step["latency"]
        self.assertGreaterEqual(latency["ttft_s"]["max"], 20 * 0.1 - 0.2)
        self.assertGreaterEqual(latency["ttft_s"]["p50"] - latency["ttft_from_sent_s"]["p50"], 0.5)
        self.assertLess(step["good"], 20)
        self.assertLess(step["goodput_per_s"], 100)

    def test_prompts_have_the_length_asked_for_in_the_servers_tokens(self):
        with FakeServer(words_per_token=3, template_tokens=20) as server:
            step = self.one(server, "--concurrency", "4", "--requests", "4", "--prompt-tokens", "320", "--output-tokens", "2")
        self.assertEqual(step["tokens"]["prompt"], 4 * 320)

    def test_prefix_heavy_prompts_begin_alike(self):
        with FakeServer() as server:
            self.one(server, "--concurrency", "8", "--requests", "20", "--dataset", "prefix-heavy", "--prefix-share", "1",
                     "--prefix-tokens", "100", "--prompt-tokens", "20", "--output-tokens", "2")
        texts = [body["messages"][0]["content"] for body in server.bodies]
        self.assertEqual(len({tuple(text.split()[:100]) for text in texts}), 1)
        self.assertEqual(len(set(texts)), 21)

    def test_a_trace_is_sent_at_its_times(self):
        with FakeServer() as server, tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
            for i in range(5):
                trace.write(json.dumps({"timestamp": 1000 + 100 * i, "input_length": 30, "output_length": 3 + i}) + "\n")
            trace.flush()
            step = self.one(server, "--arrival", "trace", "--dataset", trace.name, "--warmup", "0")
        self.assertEqual(step["completed"], 5)
        self.assertEqual([round(r["scheduled_s"], 6) for r in sorted(step["records"], key=lambda r: r["scheduled_s"])],
                         [0, 0.1, 0.2, 0.3, 0.4])
        self.assertEqual(sorted(r["output_tokens"] for r in step["records"]), [3, 4, 5, 6, 7])
        self.assertTrue(all(r["sent_s"] >= r["scheduled_s"] for r in step["records"]))

    def test_a_sweep_finds_the_knee_of_a_server_with_one_slot(self):
        # One request takes 0.1 s: 4 a second are served within the target, 60 a second cannot be.
        with FakeServer(ttft=0.1, gap=0, slots=1) as server:
            result = self.measure(server, "--sweep", "4:60:2", "--arrival", "constant", "--requests", "16",
                                  "--output-tokens", "2", "--slo-ttft", "500")
        self.assertEqual([step["rate"] for step in result["steps"]], [4, 60])
        self.assertLess(result["steps"][1]["attainment"], 0.9)
        self.assertIn(result["knee_per_s"], (4, None))  # None: the machine was too slow for either

    def test_events_of_several_tokens_and_missing_usage_are_told(self):
        with FakeServer(per_chunk=5) as server:
            step = self.one(server, "--concurrency", "2", "--requests", "4", "--output-tokens", "10")
        self.assertEqual((step["tokens"]["output"], step["tokens"]["events"]), (40, 8))
        self.assertTrue(any("tokens per event" in warning for warning in step["warnings"]))
        with FakeServer(usage=False) as server:
            step = self.one(server, "--concurrency", "2", "--requests", "4", "--output-tokens", "10")
        self.assertEqual(step["tokens"]["answers_without_usage"], 4)
        self.assertEqual(step["tokens"]["output"], 40)


class Failures(BenchServe):
    def test_each_kind_is_counted_and_healthy_requests_are_not_touched(self):
        hows = ["500", "429", "reset", "cut", "error", "garbage", "stall"]
        with FakeServer(break_at={1 + 2 * i: how for i, how in enumerate(hows)}) as server:
            step = self.one(server, "--concurrency", "1", "--requests", "20", "--output-tokens", "6", "--warmup", "0",
                            "--timeout", "3")
        kinds = {failure["kind"]: failure["count"] for failure in step["failures"]}
        self.assertEqual(kinds, {"HTTP 500": 1, "HTTP 429": 1, "answer cut off": 2, "error in the stream": 1,
                                 "not an event stream": 1, "timeout": 1})
        self.assertEqual((step["completed"], step["requests"]), (13, 20))
        self.assertIn("told to fail with 429", json.dumps(step["failures"]))

    def test_a_server_that_closes_every_connection_is_no_failure(self):
        with FakeServer(close=True) as server:
            step = self.one(server, "--concurrency", "3", "--requests", "9", "--output-tokens", "3")
        self.assertEqual(step["completed"], 9)

    def test_connections_are_used_again(self):
        with FakeServer() as server:
            self.one(server, "--concurrency", "3", "--requests", "30", "--output-tokens", "3")
            self.assertLessEqual(server.connections, 4)

    def test_no_server_and_a_refusal_are_one_sentence(self):
        with FakeServer() as server:
            url = server.url
            self.fails(1, "bench", "serve", "--url", url + "/v2", "--concurrency", "1", mentions=["404", "no /v2/models"])
        self.fails(1, "bench", "serve", "--url", url, "--concurrency", "1", mentions=["no connection"])

    def test_when_every_request_fails_so_does_the_program(self):
        with FakeServer(break_at={i: "500" for i in range(9)}) as server:
            self.one(server, "--concurrency", "3", "--requests", "9", "--warmup", "0", code=1)

    def test_contradictions_are_refused(self):
        for args, word in ((["--rate", "0"], "--rate"), ([], "--concurrency"), (["--sweep", "1:2:2"], "--slo-ttft"),
                           (["--rate", "1", "--sweep", "1:2:2", "--slo-ttft", "5"], "--rate"),
                           (["--arrival", "trace"], "--dataset"), (["--rate", "1", "--arrival", "poison"], "poisson"),
                           (["--rate", "1", "--prompt-ids", "9"], "completions"), (["--rate", "1", "--url", "ftp://x"], "http"), (["--rate", "1", "--extra-body", "[]"], "object"),
                           (["--rate", "1", "--api-key", "a\nb"], "--api-key"), (["--rate", "1", "--endpoint", "x"], "endpoint")):
            self.fails(2, "bench", "serve", *args, mentions=[word])
        self.fails(1, "bench", "serve", "--rate", "1", "--dataset", "/nowhere.jsonl", mentions=["/nowhere.jsonl"])
        self.fails(1, "bench", "serve", "--rate", "1", "--json", "/nowhere/x.json", mentions=["/nowhere/x.json"])


class Requests(BenchServe):
    def test_bodies_and_headers_are_those_asked_for(self):
        with FakeServer() as server:
            self.one(server, "--concurrency", "1", "--requests", "1", "--warmup", "0", "--endpoint", "completions",
                     "--model", "other", "--api-key", "sk-secret", "--ignore-eos", "--temperature", "0.5",
                     "--extra-body", '{"top_k": 3}', "--output-tokens", "4")
        body = server.bodies[0]
        self.assertEqual(server.paths[0], "/v1/completions")
        self.assertIsInstance(body.pop("prompt"), str)
        self.assertEqual(body, {"model": "other", "max_tokens": 4, "stream": True, "top_k": 3, "ignore_eos": True,
                                "stream_options": {"include_usage": True}, "temperature": 0.5})
        self.assertEqual(server.headers[0]["authorization"], "Bearer sk-secret")

    def test_the_same_seed_asks_the_same(self):
        seen = []
        for seed in ("1", "1", "2"):
            with FakeServer() as server:
                self.one(server, "--concurrency", "1", "--requests", "3", "--warmup", "0", "--seed", seed, "--output-tokens", "2")
            seen.append(server.bodies)
        self.assertEqual(seen[0], seen[1])
        self.assertNotEqual(seen[0], seen[2])


class CheetahServer:
    """A real `cheetah serve` on the embedded model."""

    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = []
        for line in self.process.stdout:  # ends with the process, whatever happens
            self.lines.append(line)
            ready = re.search(r"ready after .* at (http://\S+)", line)
            if ready:
                self.url = ready.group(1)
                self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)  # the pipe must not fill
                self.reader.start()
                return self
        raise RuntimeError("cheetah serve did not start: " + "".join(self.lines))

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        self.reader.join(30)
        self.process.stdout.close()


class RealServer(BenchServe):
    def test_counts_agree_with_the_servers_own(self):
        with CheetahServer() as server:
            step = self.one(server, "--concurrency", "8", "--requests", "24", "--prompt-tokens", "60", "--output-tokens", "20",
                            "--ignore-eos", "--warmup", "0")
            self.assertEqual(step["completed"], 24)
            self.assertEqual(step["tokens"]["output"], 24 * 20)
            self.assertAlmostEqual(step["tokens"]["prompt"] / 24, 60, delta=6)
            with urllib.request.urlopen(server.url + "/v1/stats", timeout=30) as answer:
                stats = json.load(answer)
            self.assertEqual(stats["generated_tokens"], 24 * 20 + 2)  # and the two that measure token lengths
            ids = self.one(server, "--endpoint", "completions", "--prompt-ids", "4096", "--concurrency", "4", "--requests", "8",
                           "--prompt-tokens", "50", "--output-tokens", "6", "--ignore-eos", "--seed", "3")
            self.assertEqual((ids["tokens"]["prompt"], ids["tokens"]["output"]), (8 * 50, 8 * 6))
            prefix = self.one(server, "--concurrency", "2", "--requests", "10", "--dataset", "prefix-heavy", "--prefix-tokens",
                              "200", "--prompt-tokens", "20", "--output-tokens", "4", "--prefix-share", "1", "--seed", "5")
            self.assertGreater(prefix["tokens"]["cached"], 0.5 * prefix["tokens"]["prompt"])


class Reports(BenchServe):
    def test_the_table_the_page_and_the_json_agree(self):
        with FakeServer() as server, tempfile.TemporaryDirectory() as folder:
            out = self.ok("bench", "serve", "--url", server.url, "--rate", "50", "--requests", "10", "--output-tokens", "3",
                          "--json", f"{folder}/r.json", "--html", f"{folder}/r.html", "--slo-ttft", "60000")
            with open(f"{folder}/r.json", encoding="utf-8") as file:
                result = json.load(file)
            with open(f"{folder}/r.html", encoding="utf-8") as file:
                page = file.read()
        self.assertEqual(result["kind"], "bench-serve")
        self.assertIn("commit", result["provenance"])
        self.assertRegex(out, r"TTFT from schedule\s+[\d.]+")
        self.assertIn("coordinated omission", out)
        self.assertEqual(re.search(r"offered\s+([\d.]+) requests/s", out).group(1), "50")
        rate, goodput = (float(re.search(name + r"\s+([\d.]+)", out).group(1)) for name in ("requests/s", "goodput"))
        self.assertLessEqual(goodput, rate)
        self.assertEqual(page.count('<figure data-chart="'), 3)
        self.assertNotIn("src=", page)

    def test_ctrl_c_reports_what_there_is(self):
        with FakeServer(ttft=0.01) as server:
            process = subprocess.Popen([PROGRAM, "bench", "serve", "--url", server.url, "--concurrency", "2", "--duration", "100",
                                        "--output-tokens", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 60
            while server.counted < 8 and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("TTFT from schedule", out)

    def test_a_thousand_streams_at_once(self):
        with FakeServer(ttft=0.5, gap=0.05) as server:
            step = self.one(server, "--concurrency", "1000", "--requests", "1000", "--output-tokens", "4", "--prompt-tokens", "32")
        self.assertEqual(step["completed"], 1000)


if __name__ == "__main__":
    unittest.main()

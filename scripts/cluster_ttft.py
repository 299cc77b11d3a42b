#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What disaggregation costs an idle system: time to the first token of one server, of a cluster that computes prompts where
it decodes, and of one that computes them elsewhere, on loopback.

  scripts/cluster_ttft.py build/cheetah [--rounds 20] [--model models/cub-1m] [--json results/cluster-ttft.json]

Every prompt is new, so nothing is cached. The three take turns, so that a disturbance meets them all; the least time is
what the system needs, the median what it needed here.
"""
import argparse
import http.client
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "e2e"))
from ports import free_port

LENGTHS = (64, 256, 512, 960)
POLICY = '[routing]\noffload_policy = "{}"\n[routing.worth]\nenabled = false\n'


def ask(port, prompt):
    """Milliseconds to the first token, and the timings of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = {"model": "cub-1m", "prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "stream": True, "timings": True}
    connection.connect()
    begin = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    first, timings = None, {}
    for line in connection.getresponse():
        if not line.startswith(b"data: {"):
            continue
        first = first or (time.perf_counter() - begin) * 1e3
        timings = json.loads(line[6:]).get("timings", timings)
    connection.close()
    return first, timings


class Subject:
    def __init__(self, name, command):
        self.name, self.port = name, free_port()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL)
        self.seen = {length: [] for length in LENGTHS}

    def wait(self):
        end = time.monotonic() + 180
        while time.monotonic() < end:
            try:
                if ask(self.port, [7, 8, 9])[0]:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.2)
        raise SystemExit(f"{self.name} does not answer: {os.pread(self.log.fileno(), 4000, 0).decode(errors='replace')}")

    def row(self, length):
        times = [ms for ms, _ in self.seen[length]]
        phases = [timings["cluster"] for _, timings in self.seen[length] if "cluster" in timings]
        row = {"prompt_tokens": length, "least_ms": round(min(times), 3), "median_ms": round(statistics.median(times), 3)}
        for name in ("queue_ms", "prefill_ms", "transfer_ms"):
            if phases:
                row[name] = round(statistics.median(phase[name] for phase in phases), 3)
        if phases:
            row["remote_tokens"] = phases[-1]["remote_tokens"]
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--model", default="models/cub-1m")
    parser.add_argument("--json")
    options = parser.parse_args()
    subjects = []
    small = ["--kv-memory", "64MiB", "--log-level", "warning"]
    with tempfile.TemporaryDirectory() as folder:
        up = [options.program, "cluster", "up", options.model, "--prefill", "1", "--decode", "1", "--threads", "1"]
        for kind in ("never", "always"):
            with open(f"{folder}/{kind}.toml", "w") as file:
                file.write(POLICY.format(kind))
        try:
            subjects.append(Subject("one server", [options.program, "serve", options.model, "--threads", "1", *small]))
            for kind in ("never", "always"):
                name = "cluster, prompts computed where they are decoded" if kind == "never" else "cluster, prompts computed elsewhere"
                subjects.append(Subject(name, [*up, "--policy-file", f"{folder}/{kind}.toml",
                                               "--serve-flags=" + " ".join(small)]))
            for subject in subjects:
                subject.wait()
            for turn in range(options.rounds):
                for length in LENGTHS:
                    for number, subject in enumerate(subjects):
                        salt = turn * 64 + number * 16 + LENGTHS.index(length)
                        draw = random.Random(salt)
                        prompt = [draw.randrange(5, 4000) for _ in range(length)]
                        subject.seen[length].append(ask(subject.port, prompt))
        finally:
            for subject in subjects:
                subject.process.send_signal(signal.SIGTERM)
            for subject in subjects:
                subject.process.wait(60)
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout.strip()
    result = {"what": "time to first token, idle, loopback, one thread a worker", "version": version, "cpu": platform.processor(),
              "cores": os.cpu_count(), "load_average": os.getloadavg()[0], "model": options.model, "rounds": options.rounds,
              "subjects": {subject.name: [subject.row(length) for length in LENGTHS] for subject in subjects}}
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        with open(options.json, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()

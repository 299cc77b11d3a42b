#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cheetah's server beside llama.cpp's on one GGUF, loaded by the same `cheetah bench serve`; and Cheetah's server beside
its own engine without HTTP, and with its prefix cache on and off.

usage: compare_servers.py --model f16.gguf --peer FOLDER --json result.json [--streams 1,4,16] [--threads 2] ...

FOLDER has node-llama-cpp installed (npm install node-llama-cpp). Runs alternate between the servers, and the one that is
not measured is stopped (SIGSTOP), so that both see the same machine. Numbers are medians over --repeats.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Server:
    """A server process that prints its URL once it is ready."""

    def __init__(self, name, command, folder=None):
        self.name = name
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.about = []
        for line in self.process.stdout:
            self.about.append(line.rstrip())
            ready = re.search(r"ready .*\bat (http://[\d.:]+)", line) or re.search(r"^ready at (http://\S+)", line)
            if ready:
                self.url = ready.group(1)
                threading.Thread(target=self.process.stdout.read, daemon=True).start()  # the pipe must not fill
                return
        sys.exit(f"{name} did not start:\n" + "\n".join(self.about))

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def cheetah_server(options, *flags):
    return Server("cheetah", [options.cheetah, "serve", options.model, "--port", "0", "--threads", str(options.threads),
                              "--log-level", "off", *flags])


def peer_server(options):
    return Server("llama.cpp", ["node", str(HERE / "llama_cpp_server.mjs"), os.path.abspath(options.model), str(options.threads),
                                str(max(options.streams)), str(options.prompt + options.output + 64)], options.peer)


def bench(options, server, seed, *flags):
    command = [options.cheetah, "bench", "serve", "--url", server.url, "--endpoint", "completions", "--prompt-ids", str(options.ids), "--ignore-eos", "--json", "-",
               "--seed", str(seed), "--timeout", "3600", *map(str, flags)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{server.name}: bench serve failed")
    step = json.loads(done.stdout)["steps"][0]
    if step["completed"] != step["requests"]:
        sys.exit(f"{server.name}: {step['failures']}")
    return step


def spread(samples):
    """Median, least and most."""
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}


def summary(steps):
    return {"tokens_per_s": spread([s["output_tokens_per_s"] for s in steps]),
            "ttft_p50_s": spread([s["latency"]["ttft_s"]["p50"] for s in steps]),
            "ttft_max_s": spread([s["latency"]["ttft_s"]["max"] for s in steps]),
            "tpot_p50_s": spread([s["latency"]["tpot_s"]["p50"] for s in steps]),
            "prompt_tokens": spread([s["tokens"]["prompt"] / s["requests"] for s in steps]),
            "warnings": sorted({w for s in steps for w in s["warnings"]})}


def measure_streams(options, servers):
    rows = []
    for streams in options.streams:
        steps = {server.name: [] for server in servers}
        for repeat in range(options.repeats):
            for server in servers if repeat % 2 == 0 else servers[::-1]:
                server.go_on()
                steps[server.name].append(bench(options, server, 1000 * streams + repeat, "--concurrency", streams, "--requests",
                                                streams, "--prompt-tokens", options.prompt, "--output-tokens", options.output))
                server.pause()
        row = {"streams": streams, **{name: summary(runs) for name, runs in steps.items()}}
        rows.append(row)
        for name in steps:
            print(f"{streams:3} streams  {name:10} {row[name]['tokens_per_s']['median']:9.1f} tokens/s   TTFT p50 "
                  f"{1e3 * row[name]['ttft_p50_s']['median']:8.1f} ms   TPOT p50 {1e3 * row[name]['tpot_p50_s']['median']:7.2f} ms",
                  flush=True)
    return rows


def add_ratios(rows, first):
    for row in rows:
        if "llama.cpp" in row:
            ours, theirs = row["cheetah"], row["llama.cpp"]
            row["throughput_ratio"] = ours["tokens_per_s"]["median"] / theirs["tokens_per_s"]["median"]
            row["ttft_ratio"] = ours["ttft_p50_s"]["median"] / theirs["ttft_p50_s"]["median"]
        row["scaling"] = row["cheetah"]["tokens_per_s"]["median"] / first["cheetah"]["tokens_per_s"]["median"]


def measure_engine(options, rows):
    """The same streams in the engine itself: what HTTP, JSON and the client cost."""
    command = [options.cheetah, "bench", "engine", "-m", options.model, "--threads", str(options.threads), "--scenario", "streams",
               "--batch", ",".join(map(str, options.streams)), "--prompt", str(options.prompt), "--gen", str(options.output),
               "--repeat", str(options.repeats), "--json", "-"]
    engine = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["streams"]
    for row, inside in zip(rows, engine):
        row["engine_tokens_per_s"] = inside["tokens_per_second"]
        row["server_overhead"] = 1 - row["cheetah"]["tokens_per_s"]["median"] / inside["tokens_per_second"]


def measure_prefix(options):
    result = {}
    for name, flags in (("off", ["--no-prefix-cache"]), ("on", [])):
        server = cheetah_server(options, *flags)
        try:
            steps = [bench(options, server, repeat, "--concurrency", 4, "--requests", 24, "--dataset", "prefix-heavy",
                           "--prefix-tokens", 1024, "--prefix-share", 0.9, "--prompt-tokens", 64, "--output-tokens", 16)
                     for repeat in range(options.repeats)]
        finally:
            server.stop()
        result[name] = summary(steps)
        print(f"prefix cache {name:3}  TTFT p50 {1e3 * result[name]['ttft_p50_s']['median']:8.1f} ms", flush=True)
    result["ttft_ratio"] = result["off"]["ttft_p50_s"]["median"] / result["on"]["ttft_p50_s"]["median"]
    return result


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True, help="a GGUF both can read")
    parser.add_argument("--peer", help="folder with node-llama-cpp; without it only Cheetah is measured")
    parser.add_argument("--cheetah", default=str(ROOT / "build" / "cheetah"))
    parser.add_argument("--json", required=True, help="where the result goes")
    parser.add_argument("--streams", default="1,4,16", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=128, help="tokens")
    parser.add_argument("--output", type=int, default=64, help="tokens")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ids", type=int, default=32000, help="size of the vocabulary: prompts are token ids below it")
    parser.add_argument("--no-prefix", action="store_true", help="leave the prefix cache out")
    return parser.parse_args()


def main():
    options = parse_arguments()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the load average is {load:.1f}: other work disturbs these numbers", file=sys.stderr)
    version = subprocess.run([options.cheetah, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    servers = []
    try:
        for start in [cheetah_server] + ([peer_server] if options.peer else []):
            servers.append(start(options))
            servers[-1].pause()
        about = {server.name: server.about[-2 if server.name == "llama.cpp" else 0] for server in servers}
        rows = measure_streams(options, servers)
    finally:
        for server in servers:
            server.stop()
    add_ratios(rows, rows[0])
    measure_engine(options, rows)
    result = {"schema_version": 1, "kind": "compare-servers", "model": os.path.basename(options.model), "cheetah": version,
              "servers": about, "threads": options.threads, "prompt_tokens": options.prompt, "output_tokens": options.output,
              "repeats": options.repeats, "load_average_at_start": load, "streams": rows}
    if not options.no_prefix:
        result["prefix"] = measure_prefix(options)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    for row in rows:
        against = f"{row['throughput_ratio']:.2f}x llama.cpp's throughput, {row['ttft_ratio']:.2f}x its TTFT, " if "throughput_ratio" in row else ""
        print(f"{row['streams']:3} streams: {against}{row['scaling']:.2f}x one stream, server overhead {100 * row['server_overhead']:.1f} %")
    if "prefix" in result:
        print(f"prefix cache: TTFT p50 {result['prefix']['ttft_ratio']:.1f} times lower")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A cluster of real processes under faults of every kind, routers included, with clients that resume their streams.

    scripts/cluster_storm.py [--requests 20000] [--faults 1000] [--rounds 8] [--clients 12] [--seed 1]
                             [--most-workers 8] [--program build/cheetah] [--out results/cluster-storm.json]

Each round is a cluster of its own: 2 or 3 routers, 2 to 8 prefill and 2 to 8 decode workers. Processes are killed and stood
still, one, some or a whole role at a time, and started again as a supervisor does it. Every client checks every event against
what one undisturbed server says. Capacity is written down as it changes, so that a refusal (an HTTP status, or an error in a
stream) counts as justified only when nobody could have answered: no router, or no decode worker, alive and awake, at some
moment of the seconds that the refusal took. A recovery is the time from the end of a connection to the next new event.
A router that says that it is still loading is like one that is not there yet: the client asks the next.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
sys.path.insert(0, str(ROOT / "scripts"))

PATIENCE = 60
LOOKS_BACK = 5.0  # a silent worker is noticed after 3 s, a new request waits 1 s for one


class Capacity:
    """Who is alive and awake, and since when nobody of a role was."""

    def __init__(self):
        self.lock, self.able, self.missing, self.since = threading.Lock(), {}, [], {}

    def set(self, node, able):
        with self.lock:
            self.able[node.name] = (node.role, able)
            now = time.monotonic()
            for role in ("router", "decode"):
                there = any(one for kind, one in self.able.values() if kind == role)
                if not there:
                    self.since.setdefault(role, now)
                elif role in self.since:
                    self.missing.append((self.since.pop(role), now))

    def was_missing(self, begin, end):
        with self.lock:
            spans = self.missing + [(since, end) for since in self.since.values()]
        return any(a <= end and b >= begin for a, b in spans)


class Supervisor:
    """Kills, stops and starts the nodes of a cluster."""

    def __init__(self, cluster, capacity, rng):
        self.cluster, self.capacity, self.rng = cluster, capacity, rng
        self.locks = {name: threading.Lock() for name in cluster.nodes}
        self.counts, self.threads = {}, []
        for node in cluster.nodes.values():
            capacity.set(node, True)

    def kill(self, node):
        with self.locks[node.name]:
            self.capacity.set(node, False)
            node.signal(18)
            node.kill()
            time.sleep(self.rng.uniform(0.1, 0.5))
            node.start()
            node.wait_ready()
            self.capacity.set(node, True)

    def kill_at(self, node, place):
        """In the middle of what it does, by its own failpoint; soon in any case."""
        with self.locks[node.name]:
            node.arm(f"{place}=kill,hit={self.rng.randrange(1, 60)}")
            end = time.monotonic() + 2
            while node.alive() and time.monotonic() < end:
                time.sleep(0.01)
            self.capacity.set(node, False)
            node.kill()
            node.arm()
            time.sleep(self.rng.uniform(0.1, 0.5))
            node.start()
            node.wait_ready()
            self.capacity.set(node, True)

    def stop(self, node, seconds):
        with self.locks[node.name]:
            self.capacity.set(node, False)
            node.signal(19)
            time.sleep(seconds)
            node.signal(18)
            self.capacity.set(node, True)

    def fault(self):
        """One at a time or several at once; returns how many."""
        rng, workers = self.rng, [node for node in self.cluster.nodes.values() if node.role != "router"]
        routers, decoders = self.cluster.of("router"), self.cluster.of("decode")
        kind = rng.choices(["a router is killed", "a router dies while it hands on an event", "a worker is killed",
                            "a decode worker dies while it hears of a token", "several workers are killed", "all decode workers are killed",
                            "a worker stands still", "a router stands still", "all routers are killed"], [15, 25, 20, 10, 5, 1, 12, 5, 1])[0]
        if kind == "a router is killed":
            todo = [(self.kill, rng.choice(routers))]
        elif kind == "a router dies while it hands on an event":
            todo = [(lambda one: self.kill_at(one, "client.event"), rng.choice(routers))]
        elif kind == "a decode worker dies while it hears of a token":
            todo = [(lambda one: self.kill_at(one, "told.EngineEvent"), rng.choice(decoders))]
        elif kind == "a worker is killed":
            todo = [(self.kill, rng.choice(workers))]
        elif kind == "several workers are killed":
            todo = [(self.kill, node) for node in rng.sample(workers, min(len(workers), rng.randrange(2, 5)))]
        elif kind == "all decode workers are killed":
            todo = [(self.kill, node) for node in decoders]
        elif kind == "all routers are killed":
            todo = [(self.kill, node) for node in routers]
        else:
            node = rng.choice(workers if "worker" in kind else routers)
            todo = [(lambda one, s=rng.uniform(0.1, 2.5): self.stop(one, s), node)]
        todo = [(what, node) for what, node in todo if not self.locks[node.name].locked()]
        for what, node in todo:
            thread = threading.Thread(target=what, args=(node,), daemon=True)
            thread.start()
            self.threads.append(thread)
        self.counts[kind] = self.counts.get(kind, 0) + len(todo)
        return len(todo)

    def settle(self):
        for thread in self.threads:
            thread.join(PATIENCE)


class Clients:
    """Ask one request after another until there are enough."""

    def __init__(self, kinds, expected, cluster, capacity, number, count, seed):
        self.kinds, self.expected, self.cluster, self.capacity = kinds, expected, cluster, capacity
        self.left, self.lock = number, threading.Lock()
        self.wrong, self.cut, self.refusals, self.recoveries, self.resumed = [], [], [], [], 0
        self.done, self.cuts, self.not_ready = 0, 0, 0
        self.threads = [threading.Thread(target=self.work, args=(random.Random(seed * 1000 + i),), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def take(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def work(self, rng):
        while self.take():
            name = rng.choice(sorted(self.kinds))
            path, body = self.kinds[name]
            if rng.random() < 0.4:
                body = {**body, "cache_salt": str(rng.random())}
            self.ask(rng, name, path, body)

    def ask(self, rng, name, path, body):
        import resume_stream
        from test_cluster_resume import comparable
        urls = [f"http://127.0.0.1:{router.port}" for router in self.cluster.of("router")]
        rng.shuffle(urls)
        began, cuts, events, lost_at = time.monotonic(), 0, [], None

        def on_cut(error):
            nonlocal cuts, lost_at
            now, cuts = time.monotonic(), cuts + 1
            lost_at = lost_at or now
            if isinstance(error, resume_stream.Refused) and "still loading" in error.body:
                self.not_ready += 1  # a router that was started a moment ago: the next one is asked
            elif isinstance(error, resume_stream.Refused):
                with self.lock:
                    self.refusals.append((self.capacity.was_missing(max(began, now - LOOKS_BACK), now), error.status, error.body[:200]))
        try:
            for event in resume_stream.stream(urls, path, body, {"x-request-id": "same"}, patience=PATIENCE, timeout=20, on_cut=on_cut):
                if lost_at:
                    now = time.monotonic()
                    with self.lock:
                        self.recoveries.append((now - lost_at, self.capacity.was_missing(lost_at, now), bool(events)))
                        self.resumed += bool(events)
                    lost_at = None
                events.append(event)
            good = comparable(events) == self.expected[name]
        except Exception as error:  # the stream did not end
            with self.lock:
                self.cut.append((name, repr(error)[:300]))
            good = True
        with self.lock:
            self.done += 1
            self.cuts += cuts
            if not good:
                self.wrong.append((name, comparable(events), self.expected[name]))


def quantile(values, share):
    values = sorted(values)
    return round(values[min(len(values) - 1, int(share * len(values)))], 3) if values else None


def run_round(number, options, expected, kinds):
    from fault_cluster import wait_until
    from test_cluster_resume import Routers
    rng = random.Random(options.seed * 100 + number)
    prefill, decode, routers = rng.randint(2, options.most_workers), rng.randint(2, options.most_workers), rng.randint(2, 3)
    cluster = Routers(prefill=prefill, decode=decode, routers=routers)
    capacity = Capacity()
    share = options.requests // options.rounds
    with cluster:
        for router in cluster.of("router"):
            wait_until(lambda router=router: router.metrics()["cheetah_cluster_links"] >= prefill + decode, "the links")
        supervisor = Supervisor(cluster, capacity, rng)
        began = time.monotonic()
        clients = Clients(kinds, expected, cluster, capacity, share, options.clients, options.seed * 10 + number)
        faults, wanted = 0, options.faults / options.requests
        while any(thread.is_alive() for thread in clients.threads):
            if faults < clients.done * wanted + 1:
                faults += supervisor.fault()
            time.sleep(rng.uniform(0.02, 0.15))
        supervisor.settle()
        seconds = time.monotonic() - began
        wait_until(lambda: settled(cluster), "requests, jobs and memory to be given back")
    served = clients.refusals
    with_capacity = [one[0] for one in clients.recoveries if not one[1]]
    mid_stream = [one[0] for one in clients.recoveries if not one[1] and one[2]]
    return {"prefill": prefill, "decode": decode, "routers": len(cluster.of("router")), "seconds": round(seconds, 1), "requests": clients.done,
            "faults": faults, "faults_by_kind": supervisor.counts, "wrong": len(clients.wrong), "cut": len(clients.cut),
            "streams_resumed": clients.resumed, "connections_lost": clients.cuts,
            "routers_not_ready": clients.not_ready, "refusals_justified": sum(1 for one in served if one[0]), "refusals_unjustified": sum(1 for one in served if not one[0]),
            "details": {"wrong": clients.wrong[:2], "cut": clients.cut[:5], "unjustified": [one[1:] for one in served if not one[0]][:5]},
            "recoveries": {"all": [one[0] for one in clients.recoveries], "with_capacity": with_capacity, "mid_stream": mid_stream}}


def settled(cluster):
    """Nothing is left at any worker."""
    names = ("cheetah_cluster_worker_requests", "cheetah_cluster_worker_jobs", "cheetah_cluster_reservations", "cheetah_cluster_quarantined")
    return all(node.metrics()[name] == 0 for node in cluster.nodes.values() for name in names)


def summary(rounds, options):
    def total(key):
        return sum(one[key] for one in rounds)
    kinds = {}
    for one in rounds:
        for kind, count in one["faults_by_kind"].items():
            kinds[kind] = kinds.get(kind, 0) + count
    out = {key: total(key) for key in ("requests", "faults", "wrong", "cut", "streams_resumed", "connections_lost", "routers_not_ready", "refusals_justified",
                                       "refusals_unjustified")}
    out["seconds"] = round(total("seconds"), 1)
    out["faults_by_kind"] = kinds
    for name in ("all", "with_capacity", "mid_stream"):
        values = [value for one in rounds for value in one["recoveries"][name]]
        out[f"recovery_{name}_s"] = {"count": len(values), "p50": quantile(values, 0.5), "p99": quantile(values, 0.99), "max": quantile(values, 1)}
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"what": "a cluster under faults, with clients that resume their streams", "program": version, "commit": commit,
            "command": f"scripts/cluster_storm.py --requests {options.requests} --faults {options.faults} --rounds {options.rounds} "
                       f"--clients {options.clients} --seed {options.seed}", "cpu": cpu[1] if cpu else "", "cores": os.cpu_count(), **out,
            "rounds": [{**{key: value for key, value in one.items() if key != "recoveries"},
                        "recovery_p99_s": quantile(one["recoveries"]["with_capacity"], 0.99)} for one in rounds]}


def storm(options, say=print):
    """All rounds; what came of them."""
    os.environ.setdefault("CHEETAH", options.program)
    import resume_stream
    from program import MODELS
    from server import Server
    from test_cluster_resume import KINDS, MODEL, comparable
    with Server(MODELS / MODEL, "--max-model-len", "512", "--threads", "1", "--kv-memory", "64MiB") as server:
        expected = {name: comparable(resume_stream.stream([server.url], path, body, {"x-request-id": "same"})) for name, (path, body) in KINDS.items()}
    rounds = []
    for number in range(options.rounds):
        one = run_round(number, options, expected, KINDS)
        rounds.append(one)
        say(json.dumps({key: value for key, value in one.items() if key not in ("recoveries", "details")}))
        if one["wrong"] or one["cut"] or one["refusals_unjustified"]:
            say(json.dumps(one["details"]))
        if options.out:
            pathlib.Path(options.out).write_text(json.dumps(summary(rounds, options), indent=1) + "\n")
    return summary(rounds, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-workers", type=int, default=8, help="of each role; 2 at least")
    parser.add_argument("--program", default=str(ROOT / "build" / "cheetah"))
    parser.add_argument("--out", default="", help="a JSON file, written after each round")
    result = storm(parser.parse_args(), lambda text: print(text, flush=True))
    print(json.dumps({key: value for key, value in result.items() if key != "rounds"}, indent=1))
    bad = result["wrong"] + result["cut"] + result["refusals_unjustified"]
    return 1 if bad or (result["recovery_mid_stream_s"]["p99"] or 0) > 2 else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
"""What every test of a cluster under faults does: load from many clients, a count of the faults, and the invariants at the end."""
import collections
import os
import random
import signal
import threading
import time
import unittest

from fault_cluster import PATIENCE, Cluster, wait_until
from ledger import Oracle
from program import MODELS, run
from server import Server

SECONDS = float(os.environ.get("CHEETAH_FAULT_SECONDS", "2"))
MODEL = "cub-1m"
FLAGS = ("--max-model-len", "512", "--threads", "1", "--kv-memory", "64MiB")
FAULTS = collections.Counter()  # injected so far, by kind
STREAMS = collections.Counter()  # compared with the oracle: well, or ended by an error


class Load:
    """Clients that ask all the time, one request after another each. Streams that did not end well are kept."""

    def __init__(self, oracle, port, clients=4):
        self.oracle, self.port, self.stopping = oracle, port, threading.Event()
        self.streams, self.broken = [], []
        self.threads = [threading.Thread(target=self._work, args=(random.Random(seed),), daemon=True) for seed in range(clients)]

    def _work(self, rng):
        while not self.stopping.is_set():
            try:
                salt = f"{rng.random()}" if rng.random() < 0.5 else None
                self.streams.append(self.oracle.ask(rng.randrange(1000), self.port, salt=salt))
            except Exception as error:  # for the test's own thread
                self.broken.append(error)
                return
            if not self.streams[-1].ended_well():
                time.sleep(0.05)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE)

    def failed(self):
        return [stream for stream in self.streams if not stream.ended_well()]


@unittest.skipUnless(run("cluster", "--help").returncode == 0, "this program has no cluster")
class ClusterCase(unittest.TestCase):
    """One server to compare with and one cluster for all tests of a class."""

    oracle = None

    @classmethod
    def make(cls):
        return Cluster()

    @classmethod
    def setUpClass(cls):
        if ClusterCase.oracle is None:
            with Server(MODELS / MODEL, *FLAGS) as server:
                ClusterCase.oracle = Oracle(server, MODEL)
        cls.cluster = cls.enterClassContext(cls.make())

    def tearDown(self):
        if self._outcome.result and any(test is self for test, _ in self._outcome.result.failures + self._outcome.result.errors):
            print({name: text[-1500:] for name, text in self.cluster.logs().items()})
            decisions = self.cluster.decisions()
            print("\n".join(line for line in decisions.splitlines() if " reject: " in line)[-2000:], decisions[-2000:], sep="\n")

    def check_load(self, load, may_fail=lambda stream: False):
        for error in load.broken:
            raise error
        self.assertTrue(any(stream.ended_well() for stream in load.streams), "something was answered")
        for stream in load.failed():
            self.assertTrue(may_fail(stream), (stream.body, stream.status, stream.error, stream.cut, stream.choices))
        STREAMS["whole"] += len(load.streams) - len(load.failed())
        STREAMS["ended by an error"] += len(load.failed())

    def settle(self):
        """I6 and I7: nothing runs, every page, reservation, job and lease is returned, and every request has one end."""
        def idle(load):  # None: it has not told yet, or it is dead and its lease is not over
            return load is not None and load["running"] == load["waiting"] == 0 and load["pages_free"] == load["pages_total"]

        def quiet():
            return all(idle(worker.get("load")) for worker in self.cluster.status()["workers"] if worker["role"] != "router")

        def returned():
            counts = ("worker_requests", "worker_jobs", "reservations", "quarantined")
            return all(node.metrics()[f"cheetah_cluster_{count}"] == 0 for node in self.cluster.nodes.values() for count in counts)

        def counted():  # a little after the client has its end
            numbers = self.cluster.router.metrics()
            return numbers["cheetah_cluster_requests_total"] == numbers["vllm:request_success_total"]
        try:
            wait_until(quiet, "the cluster to be quiet", 30)
            wait_until(returned, "all reservations to be returned", 30)
            wait_until(counted, "every request to have one end", 20)
            if self.cluster.nats and self.cluster.nats.alive():
                wait_until(lambda: self.cluster.nats.jobs() == 0, "all jobs to be acknowledged", 30)
        except AssertionError as error:
            counts = {node.name: {name: value for name, value in node.metrics().items() if "cluster_" in name and value}
                     for node in self.cluster.nodes.values()}
            raise AssertionError(f"{error}: {self.cluster.status()} {counts}") from None

    def settle_leases(self):
        """One lease and one key for each node that is there, none for those that were killed."""
        alive = sum(node.alive() for node in self.cluster.nodes.values())
        wait_until(lambda: self.cluster.etcd.leases() == (alive, alive), f"{alive} leases and keys instead of {self.cluster.etcd.leases()}", 30)

    def total(self, role, name):
        """Of a counter of the workers there are now."""
        return sum(node.metrics()[name] for node in self.cluster.of(role))

    def storm(self, fault, seconds=SECONDS, may_fail=lambda stream: False):
        """Faults under load. Each call of `fault` is one, or as many as it says."""
        rng, count = random.Random(fault.__name__), 0
        with Load(self.oracle, self.cluster.router.port) as load:
            end = time.monotonic() + seconds
            while time.monotonic() < end and not load.broken:
                time.sleep(rng.uniform(0, 0.2))
                count += fault(rng) or 1
        self.check_load(load, may_fail)
        self.settle()
        FAULTS[self._testMethodName[5:].replace("_", " ")] += count
        print(f"{self.id()}: {count} faults, {len(load.streams)} streams, {len(load.failed())} failed", flush=True)

    def ask_all(self, salt=None):
        for number in range(len(self.oracle.asks)):
            stream = self.oracle.ask(number, self.cluster.router.port, salt=salt)
            self.assertTrue(stream.ended_well(), (stream.body, stream.error, stream.cut))
            STREAMS["whole"] += 1

    def count_faults(self):
        """Those of the cluster's failpoints since the last call."""
        now = collections.Counter()
        for node in self.cluster.nodes.values():
            for (place, action), number in node.injected().items():
                now[f"{action} at {place}"] += number
        before = getattr(self.cluster, "injected_before", collections.Counter())
        self.cluster.injected_before = now
        FAULTS.update(now - before)
        return now - before


def pause(nodes, seconds):
    """SIGSTOP, and SIGCONT a little later."""
    for node in nodes:
        node.signal(signal.SIGSTOP)
    time.sleep(seconds)
    for node in nodes:
        node.signal(signal.SIGCONT)


def report(least):
    """Prints what was injected; False: fewer than `least` in all."""
    for kind, number in sorted(FAULTS.items(), key=lambda item: -item[1]):
        print(f"{number:7} {kind}", flush=True)
    print(f"{sum(FAULTS.values()):7} faults injected; {STREAMS['whole']} streams were whole, {STREAMS['ended by an error']} ended by an error")
    return sum(FAULTS.values()) >= least

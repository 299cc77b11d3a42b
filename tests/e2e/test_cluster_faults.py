#!/usr/bin/env python3
"""A cluster of real processes under faults: every stream is what one undisturbed server says, and nothing is left behind.

The invariants I1 to I7 are those of the fault matrix: ledger.py has those of a stream, `settle` those of the cluster.
CHEETAH_FAULT_SECONDS sets how long each storm lasts (a few seconds without it). A full disk has no row here, since nothing
of the cluster lies on a disk; steps of the wall clock have none, since all times are steady: the simulator covers both.
"""
import os
import random
import signal
import threading
import time
import unittest

from fault_cluster import ETCD, NATS, PATIENCE, Cluster, ProxiedCluster, wait_until
from ledger import Oracle
from program import MODELS, run
from server import Server

SECONDS = float(os.environ.get("CHEETAH_FAULT_SECONDS", "3"))
MODEL = "cub-1m"
FLAGS = ("--max-model-len", "512", "--threads", "1", "--kv-memory", "64MiB")


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

    @classmethod
    def make(cls):
        return Cluster()

    @classmethod
    def setUpClass(cls):
        with Server(MODELS / MODEL, *FLAGS) as server:
            cls.oracle = Oracle(server, MODEL)
        cls.cluster = cls.enterClassContext(cls.make())

    def tearDown(self):
        if self._outcome.result and any(test is self for test, _ in self._outcome.result.failures + self._outcome.result.errors):
            print({name: text[-1500:] for name, text in self.cluster.logs().items()})

    def check_load(self, load, may_fail=lambda stream: False):
        for error in load.broken:
            raise error
        self.assertTrue(any(stream.ended_well() for stream in load.streams), "something was answered")
        for stream in load.failed():
            self.assertTrue(may_fail(stream), (stream.body, stream.status, stream.error, stream.cut, stream.choices))

    def settle(self):
        """I6 and I7: nothing runs, every page is free or cached, and every request has one end."""
        def quiet():
            return all(worker["load"]["running"] == worker["load"]["waiting"] == 0 and worker["load"]["pages_free"] == worker["load"]["pages_total"]
                       for worker in self.cluster.status()["workers"] if worker["role"] != "router")
        try:
            wait_until(quiet, "the cluster to be quiet", 30)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.cluster.status()}") from None

        def counted():  # a little after the client has its end
            numbers = self.cluster.router.metrics()
            return numbers["cheetah_cluster_requests_total"] == numbers["vllm:request_success_total"]
        wait_until(counted, "every request to have one end", 20)

    def total(self, role, name):
        """Of a counter of the workers there are now."""
        return sum(node.metrics()[name] for node in self.cluster.of(role))

    def storm(self, fault, seconds=SECONDS, may_fail=lambda stream: False):
        """Faults under load, then the count of them."""
        rng, count = random.Random(fault.__name__), 0
        with Load(self.oracle, self.cluster.router.port) as load:
            end = time.monotonic() + seconds
            while time.monotonic() < end and not load.broken:
                time.sleep(rng.uniform(0, 0.3))
                fault(rng)
                count += 1
        self.check_load(load, may_fail)
        self.settle()
        print(f"{self.id()}: {count} faults, {len(load.streams)} streams, {len(load.failed())} failed", flush=True)

    def ask_all(self, salt=None):
        for number in range(len(self.oracle.asks)):
            stream = self.oracle.ask(number, self.cluster.router.port, salt=salt)
            self.assertTrue(stream.ended_well(), (stream.body, stream.error, stream.cut))


@unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
class Services(ClusterCase):
    """Two prefill and two decode workers on etcd, NATS and UCX."""

    @classmethod
    def make(cls):
        return Cluster(flags=("--transfer", "ucx"))

    def test_a_first_look_tokens_are_those_of_one_process(self):
        self.ask_all("cold")
        self.assertGreater(self.total("decode", "cheetah_cluster_slabs_imported_total"), 4, "pages came from prefill workers")
        self.ask_all("cold")  # now from the prefix caches
        self.settle()
        self.assertEqual(self.total("decode", "cheetah_cluster_slabs_refused_total"), 0)

    def test_decode_workers_killed_while_streaming(self):
        def kill(rng):
            rng.choice(self.cluster.of("decode")).restart()
        self.storm(kill)

    def test_a_decode_worker_killed_at_a_token(self):
        for number, event in ((2, 1), (4, 17), (6, 40), (8, 2), (10, 9), (16, 60)):
            for victim in self.cluster.of("decode"):
                killed = []

                def kill(seen, at=event, node=victim, done=killed):
                    if seen == at and not done:
                        node.kill()
                        done.append(node)
                stream = self.oracle.ask(number, self.cluster.router.port, kill, salt=f"{number} {victim.name}")
                self.assertTrue(stream.ended_well(), (stream.body, stream.error, stream.cut))
                for node in killed:
                    node.restart()
        self.settle()
        self.assertGreater(self.cluster.router.metrics()["cheetah_cluster_migrations_total"], 0, "some went on elsewhere")

    def test_prefill_workers_killed_while_computing_and_sending(self):
        def kill(rng):
            rng.choice(self.cluster.of("prefill")).restart()
        self.storm(kill)

    def test_prefill_workers_stopped_with_jobs_on_the_queue(self):
        def stop(rng):
            victims = self.cluster.of("prefill")
            for node in victims:
                node.signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0.1, 1))
            if rng.random() < 0.5:
                victims[0].restart()
            for node in victims:
                node.signal(signal.SIGCONT)
        self.storm(stop)

    def test_decode_workers_hang_and_come_back(self):
        def stop(rng):
            node = rng.choice(self.cluster.of("decode"))
            node.signal(signal.SIGSTOP)
            time.sleep(rng.choice((0.2, 0.5, 5)))  # below and above the time after which it counts as lost
            node.signal(signal.SIGCONT)
        self.storm(stop)

    def test_the_router_killed(self):
        def kill(_rng):
            self.cluster.router.restart()
        self.storm(kill, may_fail=lambda stream: stream.cut is not None or stream.status == 503)

    def test_etcd_down_and_back(self):
        def outage(rng):
            self.cluster.etcd.kill()
            time.sleep(rng.uniform(0.2, 4))  # leases last 3 s
            self.cluster.etcd.start()
        self.storm(outage)

    def test_nats_down_and_back(self):
        def outage(rng):
            self.cluster.nats.kill()
            time.sleep(rng.uniform(0.2, 2))
            self.cluster.nats.start()
        self.storm(outage)

    def test_workers_drained_one_after_another(self):
        def drain(rng):
            node = rng.choice(self.cluster.of("decode") + self.cluster.of("prefill"))
            node.signal(signal.SIGTERM)
            self.assertEqual(node.wait(), 0, node.output()[-2000:])
            node.start()
            node.wait_ready()
        self.storm(drain)

    def test_clients_leave(self):
        class Gone(Exception):
            pass

        def leave(seen):
            if seen == 3:
                raise Gone
        for number in range(8):
            with self.assertRaises(Gone):
                self.oracle.ask(2 + number % 4, self.cluster.router.port, leave)
        self.settle()


class Partitions(ClusterCase):
    """The same without services, over links that can be cut or stopped one by one."""

    @classmethod
    def make(cls):
        return ProxiedCluster(prefill=1)

    def part(self, ones, others):
        def fault(rng):
            one, other, mode = rng.choice(ones), rng.choice(others), rng.choice(("cut", "stall"))
            self.cluster.between(one, other, mode)
            time.sleep(rng.choice((0.1, 0.6, 5)))
            self.cluster.between(one, other, "pass")
        return fault

    def test_a_first_look_tokens_are_those_of_one_process(self):
        self.ask_all()
        self.settle()

    def test_router_and_decode_workers_apart(self):
        self.storm(self.part(["router"], ["decode-0", "decode-1"]))

    def test_prefill_and_decode_workers_apart(self):
        self.storm(self.part(["prefill-0"], ["decode-0", "decode-1"]))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Crowds of strangers at every listening socket of every role: nobody dies, nothing grows, members go on as before.

CHEETAH_STRANGERS=100000 says how many come, CHEETAH_STRANGERS_JSON=FILE where the numbers go."""
import json
import os
import pathlib
import platform
import ssl
import statistics
import tempfile
import threading
import time
import unittest
import urllib.request

from authority import Authority
from fault_case import ClusterCase, Load
from fault_cluster import PATIENCE, ListedCluster, wait_until
from ports import free_port
from program import MODELS, run
from server import Server
from strangers import Crowd, Recorder, cost, listening

STRANGERS = int(os.environ.get("CHEETAH_STRANGERS", "12000"))
MOST_GROWTH_KIB = 12 << 10  # of all strangers after the first third


class OpenCluster(ListedCluster):
    """Each kind of node, a worker that takes clients itself, and an endpoint picker."""

    def __init__(self, transfer):
        super().__init__(prefill=1, decode=2, flags=("--log-level", "warning", "--transfer", transfer), kv_memory="12MiB")  # soon full
        self.client_port, self.picker_port = free_port(), free_port()

    def flags_for(self, name):
        more = {"decode-1": ("--port", self.client_port), "router": ("--endpoint-picker-port", self.picker_port)}.get(name, ())
        return (*super().flags_for(name), *map(str, more))


class Strangers:
    @classmethod
    def make(cls):
        return OpenCluster(cls.transfer)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        certificate, key = Authority(cls.folder).issue("server", "DNS:localhost,IP:127.0.0.1")
        cls.alone = cls.enterClassContext(Server(MODELS / "cub-1m", "--threads", "1", "--kv-memory", "16MiB", "--log-level", "error",
                                                 "--tls-cert", certificate, "--tls-key", key))

    def processes(self):
        return {**{name: node.process.pid for name, node in self.cluster.nodes.items()}, "server with TLS": self.alone.process.pid}

    def addresses(self):
        return [address for pid in self.processes().values() for address in listening(pid)]

    def record(self):
        """What a member says when it looks at each node, word for word."""
        recorders = [Recorder("127.0.0.1", port) for port in self.cluster.ports.values()]
        peers = pathlib.Path(self.folder, "peers")
        peers.write_text("".join(f"{role} 127.0.0.1:{recorder.port} {name}\n" for (role, name), recorder in zip(self.cluster.plan, recorders)))
        done = run("cluster", "status", "--cluster", f"peers:{peers}", "--secret-file", self.cluster.secret, "--wait", "5")
        self.assertIn("ready", done.out, done.err)
        for recorder in recorders:
            recorder.close()
        said = [words for recorder in recorders for words in recorder.said if len(words) > 200]
        self.assertGreaterEqual(len(said), len(recorders))
        return said

    def crowd(self, count, valid, seed):
        """Several at once; a worker that starts again has other sockets."""
        crowds = [Crowd(valid, seed * 10 + i) for i in range(3)]

        def come(crowd):
            left = -(-count // len(crowds))
            while left > 0:
                crowd.come(self.addresses_now, min(left, 500))
                left -= 500
        self.addresses_now = self.addresses()
        threads = [threading.Thread(target=come, args=(crowd,), daemon=True) for crowd in crowds]
        for thread in threads:
            thread.start()
        return crowds, threads

    def among_strangers(self, count, valid):
        """Clients and a worker that starts again meanwhile: what the clients saw, and how long the worker took."""
        cluster, rejoined = self.cluster, []
        with Load(self.oracle, cluster.router.port, clients=2) as load:
            crowds, threads = self.crowd(count, valid, 1)
            while any(thread.is_alive() for thread in threads) and len(rejoined) < 5:
                start = time.monotonic()
                cluster.nodes["decode-0"].restart()
                cluster.wait_links()
                rejoined.append(time.monotonic() - start)
                self.addresses_now = self.addresses()
            self.leave(crowds, threads)
        self.check_load(load)
        self.settle()
        self.assertTrue(rejoined, "a worker that starts again finds its place among them")
        return crowds, load, rejoined

    @staticmethod
    def leave(crowds, threads):
        for thread in threads:
            thread.join(PATIENCE * 20)
        for crowd in crowds:
            crowd.go()

    def cost_at_rest(self, most):
        """Of each process, once the strangers' connections have timed out: no more descriptors than `most`."""
        for name, pid in self.processes().items():
            wait_until(lambda name=name, pid=pid: cost(pid)["files"] <= most[name], f"{name} to close what strangers left", 60)
        return {name: cost(pid) for name, pid in self.processes().items()}

    def test_no_stranger_stops_or_slows_a_cluster(self):
        valid = self.record()
        files = {name: cost(pid)["files"] + 8 for name, pid in self.processes().items()}
        with Load(self.oracle, self.cluster.router.port, clients=2) as calm:
            time.sleep(2)
        self.check_load(calm)
        began = time.monotonic()
        crowds, load, rejoined = self.among_strangers(self.strangers // 3, valid)
        before = self.cost_at_rest(files)
        more, threads = self.crowd(self.strangers - self.strangers // 3, valid, 2)
        self.leave(more, threads)
        after = self.cost_at_rest(files)
        seconds = time.monotonic() - began
        self.assertTrue(all(node.alive() for node in self.cluster.nodes.values()))
        with urllib.request.urlopen(f"{self.alone.url}/health/live", context=ssl._create_unverified_context(), timeout=PATIENCE) as answer:
            self.assertEqual(answer.status, 200)
        for name, was in before.items():
            now = after[name]
            self.assertLessEqual(now["rss_kib"] - was["rss_kib"], MOST_GROWTH_KIB, (name, was, now))
            self.assertLessEqual(now["threads"], was["threads"], (name, was, now))
        self.ask_all()
        self.tell(calm, load, [*crowds, *more], seconds, rejoined, before, after)

    def tell(self, calm, load, crowds, seconds, rejoined, before, after):
        kinds = {kind: sum(crowd.kinds[kind] for crowd in crowds) for kind in crowds[0].kinds}

        def times(streams):
            took = sorted(stream.seconds for stream in streams)
            return {"requests": len(took), "median_s": round(statistics.median(took), 3), "longest_s": round(took[-1], 3)}
        result = {"what": "strangers at every listening socket of a router with an endpoint picker, a prefill worker, two decode workers "
                          f"({self.transfer} transfers) and a server with TLS, loopback",
                  "version": run("version").out.strip(), "machine": platform.platform(), "cores": os.cpu_count(), "connections": sum(kinds.values()),
                  "kinds": kinds, "seconds": round(seconds, 1), "sockets": len(self.addresses()), "deaths": 0, "streams_lost": len(load.failed()),
                  "calm": times(calm.streams), "among_strangers": times(load.streams), "rejoined_after_s": [round(each, 2) for each in rejoined],
                  "before": before, "after": after}
        print(json.dumps(result), flush=True)
        if (path := os.environ.get("CHEETAH_STRANGERS_JSON")) and self.transfer == "tcp":
            pathlib.Path(path).write_text(json.dumps(result, indent=1) + "\n")


class AtSockets(Strangers, ClusterCase):
    """Pages go over TCP."""
    transfer, strangers = "tcp", STRANGERS


class AtSharedMemory(Strangers, ClusterCase):
    """Pages go through memory, after a word over a Unix socket."""
    transfer, strangers = "shm", min(STRANGERS, 3000)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Nodes of two releases that follow one another work together in every role; others refuse each other in one sentence.

The release before and the next one are played by this program (CHEETAH_PLAY_RELEASE): the one writes and reads the format
before the present one and has none of the messages that came with it, the other adds to every message what nobody here
knows, and sends messages that nobody knows."""
import os
import random
import re
import sys
import time
import unittest
from pathlib import Path

from fault_case import FLAGS, MODEL, Load
from fault_cluster import ETCD, NATS, Cluster, wait_until
from ledger import Oracle
from program import MODELS, run
from server import Server
from test_cluster_resume import KINDS, Routers, comparable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import resume_stream  # noqa: E402

SECONDS = float(os.environ.get("CHEETAH_FAULT_SECONDS", "2"))


def mixed(base):
    """A cluster some of whose nodes play another release."""

    class Mixed(base):
        releases = {}

        def environment_for(self, name):
            return {"CHEETAH_PLAY_RELEASE": self.releases.get(name, "")}

        def upgrade(self, node, release):
            """As a rolling upgrade does it: what runs is handed over, then the next one starts."""
            self.releases[node.name] = release
            node.signal(15)
            node.wait()
            node.environment.update(self.environment_for(node.name))
            node.start()
            node.wait_ready()
            self.wait_linked()
    return Mixed


@unittest.skipUnless(run("cluster", "--help").returncode == 0, "this program has no cluster")
class Skew(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server(MODELS / MODEL, *FLAGS) as server:
            cls.oracle = Oracle(server, MODEL)

    def check(self, load):
        if load.broken:
            raise load.broken[0]
        self.assertEqual([(stream.body, stream.error, stream.cut) for stream in load.failed()], [])
        self.assertGreater(len(load.streams), 3)

    def work(self, cluster, what, do):
        for router in cluster.of("router"):
            wait_until(lambda router=router: router.metrics()["cheetah_cluster_links"] >= len(cluster.plan) - 2, f"{router.name} to have its links")
        loads = [Load(self.oracle, router.port, clients=2) for router in cluster.of("router")]
        for load in loads:
            load.__enter__()
        try:
            do()
        finally:
            for load in loads:
                load.__exit__()
        with self.subTest(what=what):
            for load in loads:
                self.check(load)

    def mix(self, release):
        """Half of each role is of the other release, and all of them work for each other."""
        cluster = mixed(Routers)(prefill=2, decode=2)
        cluster.releases = {name: release for name in ("router-b", "prefill-1", "decode-1")}
        with cluster:
            self.work(cluster, f"with the {release} release", lambda: time.sleep(SECONDS))
            for router in cluster.of("router"):
                wait_until(lambda router=router: router.metrics()["cheetah_cluster_prefills_total"] > 0, "prompts to be computed elsewhere")
            text = "".join(cluster.logs().values())
            self.assertNotIn("peer_message_refused", text)
            self.assertNotIn("peer_refused", text)
            self.resume(cluster, release)

    def resume(self, cluster, release):
        """A stream cut at a router of either release goes on at one of the other."""
        path, body = KINDS["sampled"]
        for first, second in (("router", "router-b"), ("router-b", "router")):
            with self.subTest(cut_at=first, release=release):
                dying = cluster.nodes[first]
                wait_until(dying.arm("client.event=kill,hit=15"), "the fault to be armed")
                urls = [f"http://127.0.0.1:{cluster.nodes[name].port}" for name in (first, second)]
                got = comparable(resume_stream.stream(urls, path, body, {"x-request-id": "same"}))
                wait_until(lambda dying=dying: not dying.alive(), "the router to die")
                dying.wait()
                dying.arm()
                dying.start()
                dying.wait_ready()
                wait_until(lambda dying=dying: dying.metrics()["cheetah_cluster_links"] >= 4, "its links")
                whole = comparable(resume_stream.stream([urls[1]], path, body, {"x-request-id": "same"}))
                self.assertEqual(got, whole)

    def test_the_release_before_in_every_role(self):
        self.mix("previous")

    def test_the_next_release_in_every_role(self):
        self.mix("next")

    def rolling_upgrade(self, base, **options):
        cluster = mixed(base)(prefill=2, decode=2, **options)
        cluster.releases = {name: "previous" for _, name in cluster.plan}
        with cluster:
            order = [node for node in cluster.nodes.values() if node.role != "router"]
            random.Random(3).shuffle(order)

            def upgrade():
                for node in order:
                    cluster.upgrade(node, "")
            self.work(cluster, "the workers are upgraded", upgrade)

    def test_a_rolling_upgrade_of_the_workers_costs_no_stream(self):
        self.rolling_upgrade(Routers)

    @unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
    def test_neither_does_one_on_etcd_and_nats(self):
        self.rolling_upgrade(Cluster)

    def test_two_releases_apart_they_refuse_each_other(self):
        cluster = mixed(Routers)(prefill=1, decode=1)
        cluster.releases = {"router-b": "next", "decode-0": "previous"}
        cluster.wait_linked = lambda: None
        with cluster:
            far = cluster.nodes["router-b"]
            said = wait_until(lambda: re.search(r'"peer_refused".*', far.output()), "the refusal to be logged")[0]
            self.assertRegex(said, r"speaks versions 4 to 4 of the messages, expected 5 to 6: run releases that follow one another|refused by the peer: .*versions")


if __name__ == "__main__":
    unittest.main()

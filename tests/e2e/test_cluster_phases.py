#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every role of a cluster killed, stopped and failing in every phase of a request, exactly there: failpoints
(src/cluster/node/failpoints.h) stop the node that gets to a phase, then the fault happens, then the node goes on.
Every stream is compared with an undisturbed server, token by token."""
import collections
import itertools
import signal
import threading
import time
import unittest

from fault_case import FAULTS, STREAMS, ClusterCase, pause, report
from fault_cluster import ETCD, NATS, Cluster, wait_until

# A phase is a place that one node comes to: its role, the place, and from which time on.
PHASES = {"routed": ("decode", "do.LookUpCache", 1), "queued": ("decode", "do.PushJob", 1), "delivered": ("prefill", "told.JobDelivered", 1),
          "claimed": ("decode", "receive.Claimed", 1), "prefilling": ("prefill", "told.ExportProgress", 1),
          "transferring": ("prefill", "transfer.midway", 1), "imported": ("decode", "told.SlabImported", 1),
          "prefilled": ("prefill", "send.PrefillDone", 1), "decoding": ("decode", "told.EngineEvent", 2),
          "streaming": ("router", "client.event", 5)}
# What can be tried in vain, and who tries it.
FAILURES = {"do.ReserveSpace": "decode", "do.PushJob": "decode", "do.StartExport": "prefill", "do.PostSlab": "prefill",
            "do.ImportSlab": "decode", "do.EngineSubmit": "decode"}
LONG = (5, 4, 2, 6)  # of the oracle's requests: long prompts and 160 tokens, sampled, greedy, n = 3


class Ask(threading.Thread):
    """One request, in a thread of its own."""

    def __init__(self, case, number):
        super().__init__(daemon=True)
        self.oracle, self.number, self.port = case.oracle, number, case.cluster.router.port
        self.salt, self.stream, self.broken = f"{time.monotonic()}", None, None
        self.start()

    def run(self):
        try:
            self.stream = self.oracle.ask(self.number, self.port, salt=self.salt)
        except Exception as error:  # for the test's own thread
            self.broken = error

    def result(self):
        self.join(60)
        if self.broken:
            raise self.broken
        if self.stream is None:
            raise AssertionError("a request did not end")
        return self.stream


@unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
class Phases(ClusterCase):
    """One prefill worker, so that it is the one that has the job, and two decode workers."""

    numbers = itertools.cycle(LONG)

    @classmethod
    def make(cls):
        return Cluster(prefill=1, flags=("--transfer", "ucx"), visibility=1)

    def server_of_request(self):
        """The decode worker that the request went to last."""
        marked = {node: node.injected()["receive.Generate", "stall"] - self.marks[node.name] for node in self.cluster.of("decode")}
        return max(marked, key=marked.get)

    def arm(self, **places):
        """Besides, decode workers write down which requests they get."""
        self.marks = {node.name: node.injected()["receive.Generate", "stall"] for node in self.cluster.of("decode")}
        faults = {role: [f"{place}={action},hit={hit}" for place, action, hit in wanted] for role, wanted in places.items()}
        faults["decode"] = ["receive.Generate=stall:0ms,times=9", *faults.get("decode", ())]
        self.cluster.arm(**faults)

    def stopped_node(self, role, ask):
        """The node of that role that has come to its place; None: the request has ended without."""
        while ask.is_alive():
            for node in self.cluster.of(role):
                if node.alive() and node.stopped():
                    return node
            time.sleep(0.005)
        return None

    def reach(self, phase, more=()):
        """A request in exactly that phase, and the node that stands still there."""
        role, place, hit = PHASES[phase]
        for _ in range(20):  # where the breaker is open or a link not there yet, prompts are computed without help
            places = {role: [(place, "stop", hit)]}
            for other in ("prefill", "decode"):
                places.setdefault(other, []).extend(more)
            self.arm(**places)
            ask = Ask(self, next(self.numbers))
            node = self.stopped_node(role, ask)
            if node:
                return ask, node
            self.assertTrue(ask.result().ended_well(), (ask.stream.status, ask.stream.error, ask.stream.cut))
            time.sleep(0.5)
        self.fail(f"no request came to the phase {phase}")

    def check(self, ask, router_died=False):
        while ask.is_alive():  # whoever took over may stand still in the same phase
            for node in self.cluster.nodes.values():
                if node.alive() and node.stopped():
                    node.signal(signal.SIGCONT)
            ask.join(0.02)
        stream = ask.result()
        if router_died and not stream.ended_well():
            self.assertTrue(stream.cut or stream.status == 503, (stream.status, stream.error))
            STREAMS["ended by an error"] += 1
            return
        self.assertTrue(stream.ended_well(), (stream.body, stream.status, stream.error, stream.cut))
        STREAMS["whole"] += 1

    def recover(self):
        """Until nothing is left of the last request that could come to a place of the next."""
        self.cluster.wait_links()
        wait_until(lambda: self.cluster.nats.jobs() == 0, "its job to be gone", 30)

    def kill_in_every_phase(self, role):
        for phase in PHASES:
            with self.subTest(f"{role} killed while {phase}"):
                ask, stands = self.reach(phase)
                victim = {"router": self.cluster.router, "prefill": self.cluster.of("prefill")[0]}.get(role) or self.server_of_request()
                self.cluster.disarm()
                victim.kill()
                stands.signal(signal.SIGCONT)
                self.check(ask, role == "router")
                victim.start()
                victim.wait_ready()
                self.recover()
                FAULTS[f"{role} killed in an exact phase"] += 1
        self.settle()
        self.settle_leases()

    def test_the_router_killed_in_every_phase(self):
        self.kill_in_every_phase("router")

    def test_a_prefill_worker_killed_in_every_phase(self):
        self.kill_in_every_phase("prefill")

    def test_a_decode_worker_killed_in_every_phase(self):
        self.kill_in_every_phase("decode")

    def test_every_role_stopped_for_a_while_in_every_phase(self):
        """One request each that goes through all phases, and in each of them one role stands still."""
        for role in ("router", "prefill", "decode"):
            self.cluster.wait_links()
            places = {}
            for observer, place, hit in PHASES.values():
                places.setdefault(observer, []).append((place, "stop", hit))
            reached = set()
            for _ in range(20):  # one that was too slow is computed where it is, and does not come to all of them
                self.arm(**places)
                before = self.stops()
                ask = Ask(self, next(self.numbers))
                self.pause_at_every_place(role, ask)
                self.check(ask)
                stops = self.stops() - before
                FAULTS[f"{role} stopped in an exact phase"] += stops.total()
                reached |= set(stops)
                if len(reached) == len(PHASES):
                    break
            self.assertEqual(reached, {place for _, place, _ in PHASES.values()}, f"where the {role} stood still")
        self.settle()

    def pause_at_every_place(self, role, ask):
        while ask.is_alive():
            stands = [node for node in self.cluster.nodes.values() if node.stopped()]
            if not stands:
                time.sleep(0.005)
                continue
            victim = {"router": self.cluster.router, "prefill": self.cluster.of("prefill")[0]}.get(role) or self.server_of_request()
            pause([victim], 0.1)  # far below what counts as lost
            for node in stands:
                node.signal(signal.SIGCONT)

    def stops(self):
        return collections.Counter(place for node in self.cluster.nodes.values() for (place, action), number in node.injected().items()
                                   for _ in range(number) if action == "stop")

    def tearDown(self):
        for node in self.cluster.nodes.values():
            node.signal(signal.SIGCONT)
        self.cluster.disarm()
        super().tearDown()

    def test_every_step_fails_once(self):
        for place, role in FAILURES.items():
            with self.subTest(place):
                for _ in range(20):
                    before = sum(node.injected()[place, "fail"] for node in self.cluster.of(role))
                    self.arm(**{role: [(place, "fail", 1)]})
                    ask = Ask(self, next(self.numbers))
                    self.check(ask)
                    if sum(node.injected()[place, "fail"] for node in self.cluster.of(role)) > before:
                        break
                    time.sleep(0.5)
                else:
                    self.fail("it was never tried")
                FAULTS["a step failed in an exact phase"] += 1
        self.settle()

    def test_workers_killed_while_they_drain(self):
        for role in ("prefill", "decode"):
            with self.subTest(role):
                ask, stands = self.reach("decoding", [("told.DrainRequested", "stop", 1)])
                victim = stands if role == "decode" else self.cluster.of("prefill")[0]
                before = victim.injected()["told.DrainRequested", "stop"]
                victim.signal(signal.SIGTERM)
                stands.signal(signal.SIGCONT)
                wait_until(lambda: victim.injected()["told.DrainRequested", "stop"] > before, "the worker to begin to drain")
                victim.kill()
                self.check(ask)
                victim.start()
                victim.wait_ready()
                self.recover()
                FAULTS[f"{role} killed while it drains"] += 1
        self.settle()
        self.settle_leases()


if __name__ == "__main__":
    done = unittest.main(exit=False)
    report(0)
    raise SystemExit(not done.result.wasSuccessful())

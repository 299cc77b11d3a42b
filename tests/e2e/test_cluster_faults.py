#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A cluster of real processes under faults: every stream is what one undisturbed server says, and nothing is left behind.

The invariants I1 to I7 are those of the fault matrix: ledger.py has those of a stream, `settle` those of the cluster.
CHEETAH_FAULT_SECONDS sets how long each storm lasts (a few seconds without it). test_cluster_phases.py hits each phase of
a request exactly; here faults come at random moments and messages are lost, doubled and late.
"""
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time
import unittest

from fault_case import FAULTS, SECONDS, STREAMS, ClusterCase, Load, pause, report
from fault_cluster import ETCD, NATS, Cluster, ProxiedCluster, wait_until

LEAST_FAULTS = 1000  # injected by all tests of this file


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
                FAULTS["a decode worker killed at a token"] += len(killed)
                STREAMS["whole"] += 1
        self.settle()
        self.settle_leases()
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
            killed = rng.random() < 0.5
            if killed:
                victims[0].restart()
            for node in victims:
                node.signal(signal.SIGCONT)
            return len(victims) + killed
        self.storm(stop)

    def test_decode_workers_hang_and_come_back(self):
        def stop(rng):
            pause([rng.choice(self.cluster.of("decode"))], rng.choice((0.2, 0.5, 5)))  # below and above what counts as lost
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
            FAULTS["clients leave"] += 1
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

    def test_links_that_break_all_the_time(self):
        """Between workers every few milliseconds, and now and then the router's: that a request survives only so often."""
        def flap(rng):
            pairs = [("prefill-0", "decode-0"), ("prefill-0", "decode-1"), ("decode-0", "decode-1")]
            for _ in range(20):
                one, other = rng.choice(pairs)
                self.cluster.between(one, other, "cut")
                self.cluster.between(one, other, "pass")
                time.sleep(rng.uniform(0, 0.02))
            self.cluster.between("router", rng.choice(["decode-0", "decode-1"]), "cut")
            for proxy in self.cluster.proxies.values():
                proxy.set("pass")
            time.sleep(0.3)
            return 21
        self.storm(flap)


def flaky(faults):
    """A line of each, with a seed of its own: what happens, to what, how likely."""
    return "".join(f"{place}={action},chance={chance},seed={seed}\n" for seed, (place, action, chance) in enumerate(faults))


@unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
class Messages(ClusterCase):
    """Messages and jobs that are lost, doubled or late, and steps that fail, all the time and everywhere (failpoints.h)."""

    LOST = [(f"send.{message}", "drop", chance) for message, chance in (
        ("Heartbeat", 0.3), ("Claimed", 0.05), ("ClaimAnswer", 0.05), ("SlabPosted", 0.03), ("PrefillDone", 0.03), ("PrefillFailed", 0.1), ("KvEvents", 0.3),
        ("Cancel", 0.1), ("WritesStopped", 0.1), ("Probe", 0.2), ("ProbeAnswer", 0.2), ("Tokens", 0.0003), ("Generate", 0.003))]
    DOUBLED = [("receive.Tokens", "double", 0.05)] + [(f"receive.{message}", "double", 0.2) for message in (
        "Heartbeat", "Generate", "Cancel", "Claimed", "ClaimAnswer", "SlabPosted", "PrefillDone", "PrefillFailed", "WritesStopped", "Hello")]
    LATE = [("receive.Tokens", "stall:2ms", 0.005), ("receive.Claimed", "stall:20ms", 0.1), ("receive.SlabPosted", "stall:20ms", 0.1),
            ("transfer.midway", "stall:20ms", 0.1), ("told.EngineEvent", "stall:5ms", 0.002)]
    JOBS = [("do.PushJob", "drop", 0.02), ("do.PushJob", "double", 0.2), ("do.AckJob", "drop", 0.1), ("told.JobDelivered", "drop", 0.02),
            ("told.JobDelivered", "double", 0.2)]
    FAILING = [("do.ReserveSpace", "fail", 0.05), ("do.PushJob", "fail", 0.05), ("do.StartExport", "fail", 0.05), ("do.PostSlab", "fail", 0.05),
               ("do.ImportSlab", "fail", 0.05), ("do.EngineSubmit", "fail", 0.02)]

    @classmethod
    def make(cls):
        faults = flaky(cls.LOST + cls.DOUBLED + cls.LATE + cls.JOBS + cls.FAILING)
        return Cluster(flags=("--transfer", "ucx"), faults={role: faults for role in ("router", "prefill", "decode")})

    def test_messages_lost_doubled_and_late_and_steps_that_fail(self):
        def injected(action=""):
            return sum(number for node in self.cluster.nodes.values() for (_, what), number in node.injected().items() if what.startswith(action))
        with Load(self.oracle, self.cluster.router.port, clients=6) as load:
            time.sleep(SECONDS * 2)
            wait_until(lambda: load.broken or injected() > LEAST_FAULTS and all(injected(action) > 10 for action in ("drop", "double", "stall", "fail")),
                       "enough faults of every kind", 90)
        self.cluster.arm()
        self.check_load(load, lambda stream: stream.error is not None)  # lost four times: told so, and nothing wrong before
        self.assertLess(len(load.failed()), len(load.streams) / 20)
        self.settle()
        faults = self.count_faults()
        print(f"{self.id()}: {sum(faults.values())} faults, {len(load.streams)} streams, {len(load.failed())} failed", flush=True)


class HostCluster(Cluster):
    """Its nodes log to a full disk, have a wall clock that jumps, and one of them runs on a machine that has been up for long;
    NATS keeps its jobs on a small disk of its own where this user may mount one."""

    def __init__(self, **options):
        super().__init__(errors="/dev/full", **options)
        self.clock = pathlib.Path(self.folder, "clock")
        self.clock.write_bytes(struct.pack("q", 0))
        library = f"{self.folder}/clock_shim.so"
        source = pathlib.Path(__file__).with_name("clock_shim.c")
        self.has_clock = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=False).returncode == 0 if shutil.which("cc") else False
        if self.has_clock:
            self.environment = {"LD_PRELOAD": library, "CLOCK_FILE": str(self.clock)}
        self.far = ("unshare", "-T", "--monotonic", "8640000", "-f", "--kill-child")
        self.has_far = shutil.which("unshare") and subprocess.run([*self.far, "true"], check=False, capture_output=True).returncode == 0
        os.mkdir(self.nats.store)
        self.has_disk = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.nats.store], check=False, capture_output=True).returncode == 0

    def prefix_for(self, name):
        return self.far if name == "decode-1" and self.has_far else ()

    def jump(self, seconds):
        with open(self.clock, "r+b") as file, mmap.mmap(file.fileno(), 8) as mapped:
            mapped[:] = struct.pack("q", int(seconds))

    def __exit__(self, *_):
        for process in (*self.nodes.values(), self.nats):
            process.kill()
        if self.has_disk:
            subprocess.run(["umount", "-l", self.nats.store], check=False)
        super().__exit__()


@unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
class Host(ClusterCase):
    """What a machine does to its processes: clocks that jump, disks that are full."""

    @classmethod
    def make(cls):
        return HostCluster(prefill=1, flags=("--transfer", "ucx", "--log-level", "debug"))

    def test_a_first_look_nodes_serve_though_they_cannot_log(self):
        self.ask_all("cold")
        self.settle()
        FAULTS["nodes whose log is on a full disk"] += len(self.cluster.nodes)

    def test_b_the_wall_clock_jumps(self):
        if not self.cluster.has_clock:
            self.skipTest("needs a C compiler")
        before = self.cluster.router.metrics()

        def jump(rng):
            self.cluster.jump(rng.choice((86400, -86400, 49.7 * 86400, -40 * 86400, 3600, 0)))
        self.storm(jump)
        after = self.cluster.router.metrics()
        for counter in ("cheetah_cluster_migrations_total", "cheetah_cluster_workers_lost_total", "cheetah_cluster_deadlines_total"):
            self.assertEqual(after[counter], before[counter], counter)
        self.settle_leases()

    def test_c_the_disk_of_nats_is_full(self):
        if not self.cluster.has_disk:
            self.skipTest("needs a disk of its own, which this user may not mount")
        before = self.total("decode", "cheetah_cluster_slabs_imported_total")
        filler = pathlib.Path(self.cluster.nats.store, "filler")
        with Load(self.oracle, self.cluster.router.port) as load:
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    FAULTS["the disk of NATS is full"] += 1
            time.sleep(SECONDS)
            filler.unlink()
            self.cluster.nats.kill()  # as an operator does: a stream that could not be written stays off until then
            self.cluster.nats.start()
            wait_until(lambda: self.total("decode", "cheetah_cluster_slabs_imported_total") > before, "pages from elsewhere again", 30)
        self.check_load(load)
        self.settle()

    def test_d_the_disk_of_etcd_is_full(self):
        """Its own quota: from then on it refuses to write, and nobody who serves needs it to."""
        def fill():
            try:
                self.cluster.etcd.put(b"filler", bytes(1 << 20))
                return False
            except OSError:  # no space
                return True
        wait_until(fill, "etcd to be full", 60)
        FAULTS["the disk of etcd is full"] += 1
        with Load(self.oracle, self.cluster.router.port) as load:
            time.sleep(SECONDS)
        self.check_load(load)
        self.settle()


if __name__ == "__main__":
    done = unittest.main(exit=False)
    enough = report(LEAST_FAULTS) or not done.result.testsRun or any(argument[:1] != "-" for argument in os.sys.argv[1:])
    if not enough:
        print(f"fewer than {LEAST_FAULTS} faults were injected")
    raise SystemExit(not (done.result.wasSuccessful() and enough))

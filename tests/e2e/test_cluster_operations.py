#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What an operator does with a running cluster: changes its policies, looks at it, watches its screen."""
import errno
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from fault_cluster import ETCD, NATS, PATIENCE, Cluster, Process, ProxiedCluster, wait_until
from ledger import Stream
from ports import free_port
from program import MODELS, PROGRAM, run

NEVER = '[routing]\noffload_policy = "threshold"\n[routing.threshold]\nprefill_length = 100000\nmoderate_length = 100000\n[routing.worth]\nenabled = false\n'
OFTEN = NEVER.replace("100000", "64")
BROKEN = NEVER.replace("prefill_length = 100000", 'prefill_length = "long"')  # its fourth line


def remote_tokens(cluster, salt):
    """Of a prompt of 200 tokens that no cache has, how many a prefill worker computed."""
    body = {"model": "cub-1m", "prompt": [5 + i % 90 for i in range(200)], "max_tokens": 2, "timings": True, "cache_salt": str(salt)}
    request = urllib.request.Request(f"http://127.0.0.1:{cluster.router.port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)["timings"]["cluster"]["remote_tokens"]


class ChangedPolicies(unittest.TestCase):
    """A threshold that changes takes effect without a restart; what cannot be read changes nothing and is told with its line."""

    def check(self, cluster, put):
        salts = iter(range(10000))
        self.assertEqual(remote_tokens(cluster, next(salts)), 0, "by its file it computes prompts where it decodes")

        def offloads(wanted):
            return lambda: (remote_tokens(cluster, next(salts)) > 0) == wanted
        put(OFTEN)
        wait_until(offloads(True), "prompts to be computed elsewhere")
        put(BROKEN)
        refused = wait_until(lambda: re.search('"policy_refused".*', cluster.router.output()), "the broken document to be refused")[0]
        self.assertRegex(refused, "config/policy:4:", refused)
        self.assertTrue(offloads(True)(), "the old policies stay")
        put(NEVER)
        wait_until(offloads(False), "prompts to be computed where they are decoded again")
        self.assertEqual(len(re.findall('"policy_taken"', cluster.router.output())), 2)

    def test_through_a_line_of_the_list_of_peers(self):
        with ProxiedCluster(prefill=1, decode=1, policy=NEVER) as cluster:
            document, peers = pathlib.Path(cluster.folder, "changed.toml"), pathlib.Path(cluster.folder, "router.peers")

            def put(text):
                document.with_suffix(".new").write_text(text)
                document.with_suffix(".new").rename(document)
                if "config" not in peers.read_text():
                    peers.with_suffix(".new").write_text(peers.read_text() + "config policy changed.toml\n")
                    peers.with_suffix(".new").rename(peers)
            self.check(cluster, put)

    @unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
    def test_through_etcd(self):
        with Cluster(prefill=1, decode=1, policy=NEVER) as cluster:
            self.check(cluster, lambda text: cluster.etcd.put(b"/cheetah/default/config/policy", text.encode()))
            self.check_status(cluster)

    def check_status(self, cluster):
        """Right after it has connected it has heard of everything, every time; what is down is down."""
        for _ in range(5):
            seen = json.loads(self.look(cluster, "--json").out)
            self.assertEqual((seen["registry"], seen["queue"]), ({"up": True, "why": ""}, {"up": True, "why": ""}))
            self.assertEqual(sorted(worker["role"] for worker in seen["workers"]), ["decode", "prefill", "router"])
            for worker in seen["workers"]:
                self.assertTrue(worker["linked"] and worker["state"] == "ready" and worker["port"] > 0 and worker["epoch"] == 1, worker)
                self.assertEqual("load" in worker, worker["role"] != "router", worker)
        text = self.look(cluster).out
        self.assertRegex(text, r"^registry up\nqueue    up\n\nworker .*role.*pages free")
        self.assertRegex(text, r"\ndecode-0 +decode +cub-1m +ready +127\.0\.0\.1:\d+ +0 +0 ")
        cluster.nats.kill()
        text = self.look(cluster, wait=5).out
        self.assertRegex(text, r"^registry up\nqueue    down: \S.*\n")

    def look(self, cluster, *flags, wait=30):
        done = run("cluster", "status", "--cluster", cluster.url_for("observer"), "--secret-file", cluster.secret, "--wait", str(wait), *flags)
        self.assertEqual(done.returncode, 0, done.err)
        return done


class Readiness(unittest.TestCase):
    def health(self, cluster):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{cluster.router.port}/health/ready", timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)["status"]
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)["status"]

    def test_a_router_is_ready_while_somebody_decodes(self):
        with ProxiedCluster(prefill=1, decode=1) as cluster:
            decoder = cluster.of("decode")[0]
            wait_until(lambda: self.health(cluster) == (200, "ok"), "the router to be ready")
            decoder.kill()
            wait_until(lambda: self.health(cluster) == (503, "no workers"), "the router to say that nobody answers")
            decoder.restart()
            wait_until(lambda: self.health(cluster) == (200, "ok"), "the router to be ready again")


class Alone(unittest.TestCase):
    def test_an_answer_waits_for_the_only_decode_worker_to_come_back(self):
        body = {"model": "cub-1m", "prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "ignore_eos": True}
        slowly = {"decode": "told.EngineEvent=stall:5ms,times=100000"}  # it must not be through when it is killed
        with ProxiedCluster(prefill=1, decode=1, faults=slowly) as cluster:
            def ask(on_event=None):
                stream = Stream("/v1/completions", body).run(cluster.router.port, on_event)
                self.assertTrue(stream.ended_well(), (stream.status, stream.error, stream.cut))
                return stream.choices[0]
            undisturbed = ask()
            self.assertEqual(ask(lambda seen: seen == 20 and cluster.of("decode")[0].restart()), undisturbed)
            wait_until(lambda: cluster.router.metrics()["cheetah_cluster_migrations_total"] == 1, "one migration to be counted")


class Screen:
    """`cheetah cluster up` in a terminal of its own."""

    def __init__(self, *command):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(PROGRAM, [PROGRAM, *map(str, command)])
        self.text = ""

    def last(self):
        """What the screen shows: all that came after it was last cleared."""
        return self.text.rsplit("\033[2J", 1)[-1]

    def read(self, patience):
        """False: the program has closed it."""
        if select.select([self.terminal], [], [], patience)[0]:
            try:
                data = os.read(self.terminal, 1 << 16)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return False
            self.text += data.decode("utf-8", "replace").replace("\r\n", "\n")
            return bool(data)
        return True

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.last(), re.M)):
            if time.monotonic() > end or not self.read(1):
                raise AssertionError(f"no {pattern!r} on the screen: {self.text[-3000:]}")
        return found

    def close(self):
        """The exit code."""
        end = time.monotonic() + PATIENCE
        while self.read(0.2):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                break
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


class Up(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cheetah-up-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.command = ["cluster", "up", MODELS / "cub-1m", "--prefill", "1", "--decode", "1", "--port", free_port(), "--threads", "1",
                        "--logs", self.folder, "--serve-flags=--kv-memory 32MiB --max-sequences 4"]

    def test_a_terminal_shows_a_screen_of_processes_and_workers(self):
        screen = Screen(*self.command)
        try:
            screen.wait_for(r"cheetah cluster at http://127\.0\.0\.1:\d+ .*logs " + self.folder)
            screen.wait_for(r"^prefill-0 +prefill +cub-1m +ready +127\.0\.0\.1:\d+ +0 +0 +0 +\d+/\d+")
            screen.wait_for(r"^decode-0 +decode +cub-1m +ready ")
            victim = int(screen.wait_for(r"^  decode-0 +process (\d+) +restarts 0$")[1])
            os.kill(victim, signal.SIGKILL)
            screen.wait_for(r"^  decode-0 +process (?!%d )\d+ +restarts 1 +last was ended by signal 9" % victim)
            screen.wait_for(r"^decode-0 +decode +cub-1m +ready ")
            self.assertNotIn("unreachable", screen.last(), "its first life is forgotten")
            os.write(screen.terminal, b"\x03")  # Ctrl-C
            screen.wait_for(r"draining\n")
        finally:
            code = screen.close()
        self.assertEqual(code, 0, screen.text[-2000:])
        for name in ("router", "prefill-0", "decode-0"):
            self.assertRegex(screen.last(), rf"{name} exited with 0")

    def test_a_node_that_cannot_start_ends_all_with_its_reason(self):
        whichever = r"(router|prefill-0|decode-0): "  # whoever says it first
        for flags, code, reason in ((["--policy-file", "/nonexistent.toml"], 2, whichever + "--policy-file /nonexistent.toml: cannot be read"),
                                    (["--cluster", "peers:/nonexistent"], 1, "/nonexistent: cannot be read")):
            done = run("cluster", "up", "cub-1m", "--prefill", "1", "--decode", "1", "--port", "0", *flags)
            self.assertEqual(done.returncode, code, done)
            self.assertRegex(done.err, reason)

    def test_a_service_that_is_not_there_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            secret, nowhere = pathlib.Path(folder, "secret"), free_port()
            secret.write_text("0123456789abcdef0123456789abcdef\n")
            secret.chmod(0o600)
            node = Process([PROGRAM, "serve", "cub-1m", "--role", "decode", "--cluster", f"etcd://127.0.0.1:{nowhere},nats://127.0.0.1:{nowhere}",
                            "--secret-file", str(secret), "--threads", "1", "--kv-memory", "32MiB"], f"{folder}/node.log")
            node.start()
            try:
                seen = run("cluster", "status", "--cluster", f"etcd://127.0.0.1:{nowhere}", "--secret-file", str(secret), "--wait", "1")
                self.assertEqual(seen.returncode, 1, seen)
                self.assertRegex(seen.out, f"^registry down: .*127.0.0.1:{nowhere}.*\nqueue    none")
                for service in ("registry", "queue"):
                    wait_until(lambda: re.search(f'"{service}_down".*127.0.0.1:{nowhere}', node.output()), f"the {service} to be missed")
            finally:
                node.kill()

    def test_processes_have_the_programs_name_and_the_secret_goes_with_them(self):
        at = self.command.index("--logs")
        command = self.command[:at] + self.command[at + 2:]
        with open(f"{self.folder}/up.log", "w+b") as out:
            process = subprocess.Popen([PROGRAM, *map(str, command)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            text = pathlib.Path(out.name).read_text
            try:
                wait_until(lambda: "cluster status --cluster" in text(), "the cluster to be ready")
                for pid in re.findall(r"started, process (\d+)$", text(), re.M):
                    self.assertEqual(pathlib.Path(f"/proc/{pid}/comm").read_text().strip(), pathlib.Path(PROGRAM).name[:15])
                secret = pathlib.Path(re.search(r"--secret-file (\S+)", text())[1])
                self.assertTrue(secret.exists())
                shown = run(*re.search(r"cheetah (cluster status .*)", text())[1].split())
                self.assertEqual(shown.returncode, 0, shown.err)
            finally:
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(PATIENCE), 0, text())
        self.assertFalse(secret.parent.exists())

    def test_without_a_terminal_there_are_plain_lines(self):
        with open(f"{self.folder}/up.log", "w+b") as out:
            process = subprocess.Popen([PROGRAM, *map(str, self.command)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            text = pathlib.Path(out.name).read_text
            try:
                wait_until(lambda: "ready: 2 workers" in text(), "the cluster to be ready")
            finally:
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(PATIENCE), 0, text())
        self.assertNotIn("\033", text())
        started, told = text().split("ready: 2 workers, router at http://127.0.0.1:", 1)
        self.assertEqual(sorted(re.findall(r"^(\S+) started, process \d+$", started, re.M)), ["decode-0", "prefill-0", "router"])
        self.assertEqual(sorted(re.findall(r"^(\S+) exited with 0$", told, re.M)), ["decode-0", "prefill-0", "router"])
        self.assertIn("draining\n", told)


if __name__ == "__main__":
    unittest.main()

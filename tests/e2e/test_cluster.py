# SPDX-License-Identifier: MIT
"""A cluster of processes answers as one process does: over a list of peers, and over etcd, NATS and UCX."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from ports import free_port
from program import PROGRAM
from server import Server

PATIENCE = 120
MODEL = os.path.join(os.path.dirname(__file__), "..", "..", "models", "cub-1m")
SMALL = ["--kv-memory", "32MiB", "--max-sequences", "8", "--log-level", "warning"]
REMOTE = "[routing]\noffload_policy = \"always\"\n[routing.worth]\nenabled = false\n"


def post(port, body, path="/v1/completions", timeout=PATIENCE):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps({"model": "cub-1m", **body}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def prompt(length, salt=1):
    return [5 + (i * 37 + salt * 11) % 200 for i in range(length)]


def cases():
    """Requests whose answers must not depend on who gives them."""
    greedy = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
    for length in (3, 90, 400, 900):
        yield {**greedy, "prompt": prompt(length)}
    yield {**greedy, "prompt": prompt(400)}  # a prefix hit
    yield {"prompt": prompt(300, 2), "n": 3, "temperature": 0.9, "seed": 7, "max_tokens": 24, "ignore_eos": True}
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    yield {"prompt": prompt(200, 3), "temperature": 0, "max_tokens": 40, "guided_json": schema}


def credentials(folder, name):
    """The flags of a node with a certificate of the authority of that name."""
    path = os.path.join(folder, name)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    with open(path + ".names", "w") as file:
        file.write("subjectAltName=DNS:node.cheetah\nextendedKeyUsage=serverAuth,clientAuth\n")
    for command in (["req", "-x509", *curve, "-days", "1", "-subj", f"/CN={name}", "-keyout", path + ".ca.key", "-out", path + ".ca"],
                    ["req", *curve, "-subj", "/CN=node", "-keyout", path + ".key", "-out", path + ".csr"],
                    ["x509", "-req", "-in", path + ".csr", "-CA", path + ".ca", "-CAkey", path + ".ca.key", "-CAcreateserial", "-days", "1",
                     "-extfile", path + ".names", "-out", path + ".pem"]):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=60)
    os.chmod(path + ".key", 0o600)
    return ["--cluster-cert", path + ".pem", "--cluster-key", path + ".key", "--cluster-ca", path + ".ca"]


def texts(answer):
    return [choice["text"] for choice in sorted(answer["choices"], key=lambda c: c["index"])]


class Cluster:
    """`cheetah cluster up` on free ports."""

    def __init__(self, prefill, decode, *flags, policy=REMOTE, serve_flags=()):
        self.folder = tempfile.mkdtemp(prefix="cheetah-e2e-")
        self.policy = os.path.join(self.folder, "policy.toml")
        with open(self.policy, "w") as file:
            file.write(policy)
        self.port = free_port()
        self.out = open(os.path.join(self.folder, "up.log"), "w+b")
        more = [] if "--in-process" in flags else ["--serve-flags=" + " ".join([*(SMALL[:-2] if "--log-level" in serve_flags else SMALL), *serve_flags])]
        self.process = subprocess.Popen(
            [PROGRAM, "cluster", "up", MODEL, "--prefill", str(prefill), "--decode", str(decode), "--port", str(self.port),
             "--policy-file", self.policy, "--threads", "1", *([] if "--in-process" in flags else ["--logs", self.folder]),
             *flags, *more], stdout=self.out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            self.wait_for(r"ready: \d+ workers")
            self.wait_until_answers()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def output(self):
        return os.pread(self.out.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def told(self):
        told = ""
        for name in os.listdir(self.folder):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), errors="replace") as file:
                    told += f"== {name}\n{file.read()[-3000:]}\n"
        return told

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := re.search(pattern, self.output()):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in time: {self.told()}")

    def wait_until_answers(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if post(self.port, {"prompt": "a", "max_tokens": 1})[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"the cluster does not answer: {self.told()}")

    def pid_of(self, name):
        found = re.findall(rf"^{name} started, process (\d+)", self.output(), re.M)
        return int(found[-1])

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the cluster did not end: {self.told()}") from None
        finally:
            self.out.close()
            shutil.rmtree(self.folder, ignore_errors=True)


class Services:
    """etcd and NATS of this machine on free ports."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="cheetah-services-")
        client, peer, nats = free_port(), free_port(), free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self.processes = [
            subprocess.Popen(["etcd", "--data-dir", self.folder + "/etcd", "--listen-client-urls", f"http://127.0.0.1:{client}",
                              "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls",
                              f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                              "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--log-level", "error"], **quiet),
            subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(nats), "-js", "-sd", self.folder + "/nats"], **quiet)]
        self.url = f"etcd://127.0.0.1:{client},nats://127.0.0.1:{nats}"
        for port in (client, nats):
            self.wait_for(port)

    def wait_for(self, port):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        self.stop()
        raise AssertionError("etcd and NATS did not start")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server(MODEL, *SMALL, "--threads", "1") as one:
            cls.expected = [texts(post(one.port, case)[1]) for case in cases()]

    def check_answers(self, cluster):
        for case, expected in zip(cases(), self.expected):
            status, answer = post(cluster.port, case)
            self.assertEqual(status, 200, answer)
            if texts(answer) != expected:
                self.fail(f"prompt of {len(case['prompt'])}: {texts(answer)} instead of {expected}: {cluster.told()}")
        self.check_waterfall(cluster)

    def check_waterfall(self, cluster):
        """A long new prompt is computed by a prefill worker, and the answer tells."""
        case = {"prompt": prompt(700, 9), "max_tokens": 4, "temperature": 0, "ignore_eos": True, "timings": True}
        spent = post(cluster.port, case)[1]["timings"]["cluster"]
        self.assertGreater(spent["remote_tokens"], 600, spent)
        self.assertTrue(spent["prefill_worker"].startswith("prefill-"), spent)
        self.assertTrue(spent["decode_worker"].startswith("decode-"), spent)
        self.assertEqual(spent["attempts"], 1, spent)

    def test_one_process_answers_as_one_engine(self):
        cluster = Cluster(2, 2, "--in-process")
        try:
            self.check_answers(cluster)
        finally:
            self.assertEqual(cluster.stop(), 0)

    def test_processes_with_a_list_of_peers_answer_as_one_engine(self):
        cluster = Cluster(1, 2)
        try:
            self.check_answers(cluster)
            self.check_metrics(cluster)
            self.check_restart(cluster)
        finally:
            self.assertEqual(cluster.stop(), 0)

    def check_metrics(self, cluster):
        """Numbers are as old as a heartbeat; every family stands there once."""
        end = time.monotonic() + PATIENCE
        while not re.search(r"^cheetah_cluster_requests_total [1-9]", cluster.metrics(), re.M):
            self.assertLess(time.monotonic(), end, "no request was counted")
            time.sleep(0.05)
        families = re.findall(r"^# TYPE (\S+)", cluster.metrics(), re.M)
        self.assertEqual(sorted(families), sorted(set(families)))

    def check_restart(self, cluster):
        """A decode worker that is killed in the middle of a stream: the answer is the same, and it comes back."""
        case = {"prompt": prompt(200), "temperature": 0, "max_tokens": 700, "ignore_eos": True}
        expected = texts(post(cluster.port, case)[1])
        connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=PATIENCE)
        connection.request("POST", "/v1/completions", json.dumps({"model": "cub-1m", **case, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text, killed = "", False
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            text += json.loads(line[6:])["choices"][0]["text"]
            if not killed:
                killed = True
                os.kill(cluster.pid_of("decode-0"), signal.SIGKILL)
        connection.close()
        self.assertEqual([text], expected)
        cluster.wait_for(r"decode-0 was ended by signal 9")
        cluster.wait_for(r"(?s)decode-0 was ended.*decode-0 started")

    def check_status(self, cluster, services):
        """Everybody is there, and, once a heartbeat has told, how fast pages travelled."""
        end, rates = time.monotonic() + PATIENCE, [0]
        while max(rates) == 0:
            self.assertLess(time.monotonic(), end, "how fast pages travelled was not measured")
            status = subprocess.run([PROGRAM, "cluster", "status", "--cluster", services.url, "--secret-file",
                                     cluster.folder + "/secret", "--json", "--wait", "20"], capture_output=True, timeout=PATIENCE)
            seen = json.loads(status.stdout)
            roles = sorted(worker["role"] for worker in seen["workers"])
            self.assertEqual(roles, ["decode", "decode", "prefill", "prefill", "router"], seen)
            rates = [worker["load"]["transfer_bytes_per_s"] for worker in seen["workers"] if worker["role"] == "prefill" and "load" in worker] or [0]

    @unittest.skipUnless(shutil.which("etcd") and shutil.which("nats-server"), "etcd and nats-server are not installed")
    def test_processes_on_etcd_nats_and_ucx_answer_as_one_engine(self):
        services = Services()
        try:
            cluster = Cluster(2, 2, "--cluster", services.url, serve_flags=("--transfer", "ucx"))
            try:
                self.check_answers(cluster)
                self.check_status(cluster, services)
            finally:
                self.assertEqual(cluster.stop(), 0)
        finally:
            services.stop()

    def test_nodes_with_certificates_answer_as_one_engine_and_strangers_learn_why_not(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, others = credentials(folder, "ours"), credentials(folder, "others")
            cluster = Cluster(1, 1, *ours, serve_flags=("--transfer", "shm"))
            try:
                self.check_waterfall(cluster)
                look = [PROGRAM, "cluster", "status", "--cluster", f"peers:{cluster.folder}/peers.txt"]
                seen = subprocess.run([*look, *ours, "--json", "--wait", "20"], capture_output=True, timeout=PATIENCE)
                self.assertEqual(sorted(each["role"] for each in json.loads(seen.stdout)["workers"]), ["decode", "prefill", "router"], seen)
                for flags, why in ((others, "refused by the peer|certificate is refused"), ([], "the peer comes with a certificate, this node has none")):
                    end = time.monotonic() + PATIENCE
                    while True:
                        seen = subprocess.run([*look, *flags, "--wait", "2"], capture_output=True, text=True, timeout=PATIENCE)
                        self.assertEqual(seen.returncode, 1, seen)
                        self.assertNotIn("ready", seen.stdout)
                        if re.search(why, seen.stderr):
                            break
                        self.assertLess(time.monotonic(), end, seen)
                self.assertRegex(cluster.told(), '"peer_refused".*127.0.0.1.*(--cluster-ca|refused by the peer)')
            finally:
                self.assertEqual(cluster.stop(), 0)


if __name__ == "__main__":
    unittest.main()

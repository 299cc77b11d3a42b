# SPDX-License-Identifier: MIT
"""A cluster of real processes to be mistreated: nodes, etcd, NATS, and TCP proxies between them."""
import base64
import collections
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from ports import free_port
from program import MODELS, PROGRAM, run

PATIENCE = 120
ETCD = shutil.which("etcd")
NATS = shutil.which("nats-server") or (os.access("/usr/sbin/nats-server", os.X_OK) and "/usr/sbin/nats-server") or None


def wait_until(condition, what, patience=PATIENCE):
    """What the condition gives, as soon as that is true."""
    end = time.monotonic() + patience
    while True:
        if found := condition():
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {patience} s")
        time.sleep(0.02)


class Process:
    """A child with its output in a file. Signals reach it and nobody else."""

    def __init__(self, command, log, environment=None, errors=None):
        self.command, self.log_path = [str(word) for word in command], log
        self.environment, self.errors = environment, errors  # errors: where standard error goes instead of the log
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log, open(self.errors or os.devnull, "ab") as errors:
            self.began = log.tell()
            self.process = subprocess.Popen(self.command, stdout=log, stderr=errors if self.errors else subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, env={**os.environ, **(self.environment or {})})

    def output(self):
        """Of this start."""
        with open(self.log_path, "rb") as log:
            log.seek(self.began)
            return log.read().decode("utf-8", "replace")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def stopped(self):
        """By a signal; also one of its own failpoints."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"

    def wait(self, patience=PATIENCE):
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.command[:4]} did not end: {self.output()[-2000:]}") from None


class Etcd(Process):
    def __init__(self, folder):
        self.port = free_port()
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        super().__init__([ETCD, "--data-dir", f"{folder}/etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                          "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                          "--unsafe-no-fsync", "--quota-backend-bytes", str(16 << 20), "--log-level", "error"], f"{folder}/etcd.log")

    def start(self):
        super().start()
        wait_until(self.healthy, "etcd")

    def leases(self):
        """How many there are, and how many keys workers have."""
        return len(self._call("lease/leases", {}).get("leases", [])), int(self._call(
            "kv/range", {"key": base64.b64encode(b"/cheetah/default/workers/").decode(), "range_end": base64.b64encode(b"/cheetah/default/workers0").decode(), "count_only": True}).get("count", 0))

    def put(self, key, value):
        self._call("kv/put", {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()})

    def _call(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False


class Nats(Process):
    def __init__(self, folder):
        self.port, self.monitor, self.store = free_port(), free_port(), f"{folder}/nats"
        super().__init__([NATS, "-a", "127.0.0.1", "-p", str(self.port), "-m", str(self.monitor), "-js", "-sd", self.store], f"{folder}/nats.log")

    def jobs(self):
        """That lie in its streams, done or not."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/jsz", timeout=PATIENCE) as answer:
            return json.load(answer)["messages"]

    def start(self):
        super().start()
        wait_until(self.answers, "nats-server")

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(4) == b"INFO" and self.jobs() >= 0
        except OSError:
            return False


class Proxy:
    """Forwards TCP to a port of this machine until told to stall (nothing moves) or to cut (nothing stands)."""

    def __init__(self, target):
        self.target, self.mode, self.pairs = target, "pass", []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode):
        with self.lock:
            self.mode = mode
            if mode != "cut":
                return
            for pair in self.pairs:
                for end in pair:
                    end.close()
            self.pairs.clear()

    def close(self):
        self.set("cut")
        self.listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5) if self.mode != "cut" else None
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            with self.lock:
                if far is None or self.mode == "cut":
                    near.close()
                    continue
                self.pairs.append((near, far))
            threading.Thread(target=self._pump, args=(near, far), daemon=True).start()

    def _pump(self, near, far):
        try:
            while True:
                if self.mode == "stall":
                    time.sleep(0.05)
                    continue
                for end in select.select([near, far], [], [], 0.2)[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    (far if end is near else near).sendall(data)
        except (OSError, ValueError):  # closed by set()
            pass
        finally:
            near.close()
            far.close()


class Node(Process):
    """One `cheetah serve` in a cluster."""

    def __init__(self, cluster, role, name):
        self.role, self.name, self.cluster = role, name, cluster
        self.port = free_port()  # for clients: the same after a restart
        self.faults = f"{cluster.folder}/{name}.faults"  # its failpoints, read again when they change
        pathlib.Path(self.faults).write_text(cluster.faults_for(role))
        self.arms = 0
        super().__init__([*cluster.prefix_for(name), PROGRAM, "serve", cluster.model, "--role", role, "--cluster", cluster.url_for(name), "--node-name", name,
                          *cluster.credentials_for(name), "--policy-file", cluster.policy, "--threads", "1", "--max-model-len", "512",
                          "--kv-memory", cluster.kv_memory, *(["--port", str(self.port)] if role == "router" else []), *cluster.flags_for(name)],
                         f"{cluster.folder}/{name}.log", {"CHEETAH_FAILPOINTS": "@" + self.faults, **cluster.environment_for(name)}, cluster.errors)

    def wait_ready(self):
        def ready():
            if not self.alive():
                raise AssertionError(f"{self.name} ended: {self.output()[-2000:]}")
            return re.search(r"ready after .* at http://127\.0\.0\.1:(\d+)", self.output())
        self.port = int(wait_until(ready, f"{self.name} to be ready")[1])

    def restart(self):
        self.kill()
        self.start()
        self.wait_ready()

    def metrics(self):
        """The sum of each family's samples."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        sums = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                for key in {name, name.split("{")[0]}:
                    sums[key] = sums.get(key, 0.0) + float(value)
        return sums

    def arm(self, *faults):
        """Sets its failpoints, while it runs or for its next start."""
        self.arms += 1
        told = self.output().count('"failpoints_armed"') if self.alive() else 0
        with open(self.faults + ".new", "w") as file:
            file.write("\n".join(faults) + "\n" * self.arms)  # never the same twice
        os.rename(self.faults + ".new", self.faults)
        if not self.alive():
            return lambda: True
        return lambda: self.output().count('"failpoints_armed"') > told

    def injected(self):
        """How often its failpoints have, over all its lives: (place, action) to a number."""
        faults = collections.Counter()
        for line in pathlib.Path(self.log_path).read_text("utf-8", "replace").splitlines():
            if '"event":"failpoint"' in line:
                fault = json.loads(line)
                faults[fault["place"], fault["action"]] += 1
        return faults

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Cluster:
    """Nodes and, with `services`, their etcd and NATS. Use it in a with statement."""

    # Everything goes the long way, however often it fails there.
    POLICY = ("[routing]\noffload_policy = \"always\"\n[routing.worth]\nenabled = false\n"
              "[qos.prefill_breaker]\nfailures = 1000000\nmax_depth = 0\n[qos.decode_breaker]\nfailures = 1000000\n")

    def __init__(self, services=True, prefill=2, decode=2, model="cub-1m", policy=POLICY, flags=(), environment=None, errors=None, faults=None,
                 visibility=3, kv_memory="64MiB"):
        self.folder = tempfile.mkdtemp(prefix="cheetah-cluster-")
        self.model, self.flags = MODELS / model, flags
        self.environment, self.errors, self.faults, self.visibility = environment or {}, errors, faults or {}, visibility
        self.kv_memory = kv_memory
        self.secret, self.policy = f"{self.folder}/secret", f"{self.folder}/policy.toml"
        pathlib.Path(self.secret).write_text("0123456789abcdef" * 4 + "\n")
        os.chmod(self.secret, 0o600)
        pathlib.Path(self.policy).write_text(policy)
        self.etcd = Etcd(self.folder) if services else None
        self.nats = Nats(self.folder) if services else None
        self.plan = [("router", "router")] + [("prefill", f"prefill-{i}") for i in range(prefill)] + \
                    [("decode", f"decode-{i}") for i in range(decode)]
        self.nodes = {}

    def url_for(self, _name):
        return f"etcd://127.0.0.1:{self.etcd.port},nats://127.0.0.1:{self.nats.port}?lease_s=3&visibility_s={self.visibility}"

    def flags_for(self, _name):
        return self.flags

    def credentials_for(self, _name):
        return ("--secret-file", self.secret)

    def faults_for(self, role):
        return self.faults.get(role, "")

    def prefix_for(self, _name):
        return ()

    def environment_for(self, _name):
        return self.environment

    def arm(self, **faults):
        """The failpoints of every node of a role; the others have none."""
        wait_for = [node.arm(*faults.get(node.role, ())) for node in self.nodes.values()]
        def go_on(armed):  # one that stands still in a phase of something older does not look
            for node in self.nodes.values():
                if node.alive() and node.stopped():
                    node.signal(signal.SIGCONT)
            return armed()
        for armed in wait_for:
            wait_until(lambda armed=armed: go_on(armed), "failpoints to be armed")

    def disarm(self):
        """Whoever does not stand still forgets its failpoints soon; the others when they go on."""
        for node in self.nodes.values():
            node.arm()

    def wait_links(self):
        """Until every node has a link to every other, but routers and prefill workers to those of their kind."""
        def linked(node):
            wanted = len(self.nodes) - (1 if node.role == "decode" else len(self.of(node.role)))
            return node.metrics()["cheetah_cluster_links"] >= wanted
        for node in self.nodes.values():
            wait_until(lambda node=node: linked(node), f"{node.name} to have its links")

    def start(self):
        self.start_nodes([service for service in (self.etcd, self.nats) if service])

    def start_nodes(self, services):
        for service in services:
            service.start()
        self.nodes = {name: Node(self, role, name) for role, name in self.plan}
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_ready()
        self.wait_linked()

    def wait_linked(self):
        """Until a look from outside sees every worker ready."""
        wanted = sum(role != "router" for role, _ in self.plan)
        wait_until(lambda: sum(worker["state"] == "ready" and worker["role"] != "router" for worker in self.status()["workers"]) >= wanted,
                   f"{wanted} workers")

    def status(self):
        done = run("cluster", "status", "--json", "--cluster", self.url_for("observer"), *self.credentials_for("observer"), "--wait", "3")
        if not done.out:  # 1 says that not all answer: the tests look at which
            raise AssertionError(done.err)
        return json.loads(done.out)

    def of(self, role):
        return [node for node in self.nodes.values() if node.role == role]

    @property
    def router(self):
        return self.nodes["router"]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in (*self.nodes.values(), self.etcd, self.nats):
            if process:
                process.signal(signal.SIGCONT)
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def decisions(self):
        """The router's last ones, refusals included; whatever happened to it."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.router.port}/v1/decisions", timeout=5) as answer:
                return answer.read().decode()
        except OSError as error:
            return repr(error)

    def logs(self):
        return {path.name: path.read_text("utf-8", "replace")[-3000:] for path in pathlib.Path(self.folder).glob("*.log")}


class ListedCluster(Cluster):
    """Without services: all nodes read one list of peers."""

    def __init__(self, **options):
        super().__init__(services=False, **options)
        self.ports = {name: free_port() for _, name in self.plan}
        pathlib.Path(f"{self.folder}/peers").write_text("".join(f"{role} 127.0.0.1:{self.ports[name]} {name}\n" for role, name in self.plan))

    def url_for(self, _name):
        return f"peers:{self.folder}/peers"

    def flags_for(self, name):
        return (*self.flags, "--cluster-port", str(self.ports[name]))


class ProxiedCluster(Cluster):
    """Without services: each node has a file of its peers, and reaches every one of them through a proxy of its own."""

    def __init__(self, **options):
        super().__init__(services=False, **options)
        self.ports = {name: free_port() for _, name in self.plan}
        self.proxies = {(near, far): Proxy(self.ports[far]) for near in self.ports for far in self.ports if near != far}
        for near in (*self.ports, "observer"):
            lines = [f"{role} 127.0.0.1:{self.proxies[near, far].port if near in self.ports else self.ports[far]} {far}\n"
                     for role, far in self.plan if far != near]
            pathlib.Path(f"{self.folder}/{near}.peers").write_text("".join(lines))

    def url_for(self, name):
        return f"peers:{self.folder}/{name}.peers"

    def flags_for(self, name):
        return (*self.flags, "--cluster-port", str(self.ports[name]))

    def between(self, one, other, mode):
        """What happens to all that the two say to each other: pass, stall or cut."""
        for pair in ((one, other), (other, one)):
            self.proxies[pair].set(mode)

    def __exit__(self, *_):
        for proxy in self.proxies.values():
            proxy.close()
        super().__exit__()

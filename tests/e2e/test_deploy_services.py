#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""etcd and NATS as deploy/ starts them, with TLS and users: a cluster works on them, and whoever has no password learns nothing."""
import base64
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

try:
    import yaml
except ImportError:
    yaml = None

import nats_credentials
from fault_cluster import ETCD, NATS, PATIENCE, Cluster, Process, wait_until
from ledger import Stream
from ports import free_port
from program import SOURCE, run

DEPLOY = SOURCE / "deploy"


def documents(path):
    return [each for each in yaml.safe_load_all((DEPLOY / path).read_text()) if each]


class SecuredEtcd(Process):
    """One member with the flags of the StatefulSet, at free ports of this machine."""

    def __init__(self, folder, tls):
        self.port, self.folder = free_port(), folder
        peer, metrics = free_port(), free_port()
        command = next(each for each in documents("kubernetes/etcd.yaml") if each["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["command"]
        ports = {"2379": str(self.port), "2380": str(peer), "2381": str(metrics)}
        flags = []
        for flag in command[1:]:
            if flag.startswith("--initial-cluster="):
                flag = f"--initial-cluster=etcd-0=https://etcd-0.etcd:{peer}"
            flag = flag.replace("$(POD_NAME)", "etcd-0").replace("/var/lib/etcd", f"{folder}/etcd").replace("0.0.0.0", "127.0.0.1")
            flag = flag.replace("etcd-0.etcd", "localhost").replace("/etc/etcd/tls.crt", f"{tls}/etcd.pem").replace("/etc/etcd/tls.key", f"{tls}/etcd.key")
            flag = flag.replace("/etc/etcd/ca.pem", f"{tls}/ca.pem")
            flags.append(re.sub(r":(23\d\d)\b", lambda found: ":" + ports[found[1]], flag))
        super().__init__([ETCD, *flags, "--unsafe-no-fsync", "--log-level=error"], f"{folder}/etcd.log")
        self.health = f"http://127.0.0.1:{metrics}/health"

    def start(self):
        super().start()
        wait_until(self.healthy, f"etcd: {self.output()}")

    def healthy(self):
        try:
            with urllib.request.urlopen(self.health, timeout=2) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False


class SecuredNats(Process):
    """One server with the configuration of the ConfigMap, but for its routes."""

    def __init__(self, folder, tls, password):
        self.port = free_port()
        text = next(each for each in documents("kubernetes/nats.yaml") if each["kind"] == "ConfigMap")["data"]["nats.conf"]
        text = text[:text.index("cluster {")]
        text = text.replace("0.0.0.0:4222", f"127.0.0.1:{self.port}").replace("0.0.0.0:8222", f"127.0.0.1:{free_port()}").replace("/data", f"{folder}/nats")
        text = text.replace("/etc/nats-tls/tls.crt", f"{tls}/nats.pem").replace("/etc/nats-tls/tls.key", f"{tls}/nats.key").replace("/etc/nats-tls/ca.pem", f"{tls}/ca.pem")
        pathlib.Path(folder, "nats.conf").write_text(text)
        super().__init__([NATS, "--config", f"{folder}/nats.conf"], f"{folder}/nats.log", {"POD_NAME": "nats-0", "NATS_PASSWORD": password})

    def start(self):
        super().start()
        wait_until(lambda: "Server is ready" in self.output(), f"nats-server: {self.output()}")


class SecuredCluster(Cluster):
    def __init__(self):
        super().__init__(services=False, prefill=1, decode=1)
        self.tls = f"{self.folder}/tls"
        subprocess.run([DEPLOY / "certificates.sh", self.tls, "etcd=localhost,127.0.0.1", "nats=localhost,127.0.0.1"], check=True, timeout=60)
        for name, text in (("etcd-password", "one two"), ("etcd-root-password", "root's own"), ("nats-password", "Three4")):
            pathlib.Path(self.folder, name).write_text(text + "\n")
        self.etcd, self.nats = SecuredEtcd(self.folder, self.tls), SecuredNats(self.folder, self.tls, "Three4")

    def etcd_url(self):
        return f"etcd+tls://cheetah@localhost:{self.etcd.port}"

    def url_for(self, _name):
        return (f"{self.etcd_url()},nats+tls://cheetah@localhost:{self.nats.port}?cluster=prod&ca={self.tls}/ca.pem&password_file={self.folder}/etcd-password"
                f"&nats_password_file={self.folder}/nats-password")

    def set_up_users(self, *more):
        return run("cluster", "etcd-users", "--cluster", f"{self.etcd_url()}?cluster=prod&ca={self.tls}/ca.pem&password_file={self.folder}/etcd-password",
                   "--root-password-file", f"{self.folder}/etcd-root-password", *more)

    def start(self):
        self.etcd.start()
        self.users = self.set_up_users()
        super().start_nodes([self.nats])


@unittest.skipUnless(ETCD and NATS and yaml and run("cluster", "--help").returncode == 0, "needs etcd, nats-server, python3-yaml and a cluster")
class Secured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(SecuredCluster())

    def ask_etcd(self, path, body, token=None):
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(f"https://localhost:{self.cluster.etcd.port}/v3/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE, context=ssl.create_default_context(cafile=f"{self.cluster.tls}/ca.pem")) as answer:
            return json.load(answer)

    def test_a_cluster_works_on_them(self):
        self.assertEqual((self.cluster.users.returncode, self.cluster.users.err), (0, ""))
        self.assertIn("root may do everything, cheetah what belongs to the cluster prod", self.cluster.users.out)
        seen = self.cluster.status()
        self.assertEqual((seen["registry"]["up"], seen["queue"]["up"]), (True, True), seen)
        body = {"model": "cub-1m", "prompt": "Once upon a time there was a cat who lived in a house near the sea. " * 4, "max_tokens": 20, "temperature": 0}
        self.assertTrue(Stream("/v1/completions", body).run(self.cluster.router.port).ended_well())
        wait_until(lambda: self.cluster.of("decode")[0].metrics()["cheetah_cluster_jobs_pushed_total"] >= 1, "a job to go through the queue")

    def test_etcd_tells_and_takes_nothing_without_a_password(self):
        every = {"key": base64.b64encode(b"\0").decode(), "range_end": base64.b64encode(b"\0").decode()}
        for path, body in (("kv/range", every), ("kv/put", {"key": base64.b64encode(b"/cheetah/prod/workers/1").decode(), "value": ""}), ("auth/disable", {})):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask_etcd(path, body)
            self.assertIn(refused.exception.code, (400, 401, 403), path)
            refused.exception.close()
        plain = socket.create_connection(("127.0.0.1", self.cluster.etcd.port), timeout=PATIENCE)
        with plain:
            plain.sendall(b"GET /v2/keys HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertNotIn(b"200 OK", plain.recv(4096))

    def test_the_nodes_user_has_the_keys_of_its_cluster_and_no_others(self):
        token = self.ask_etcd("auth/authenticate", {"name": "cheetah", "password": "one two"})["token"]
        keys = {"key": base64.b64encode(b"/cheetah/prod/").decode(), "range_end": base64.b64encode(b"/cheetah/prod0").decode()}
        self.assertGreaterEqual(int(self.ask_etcd("kv/range", keys, token)["count"]), 3)
        for path, body in (("kv/put", {"key": base64.b64encode(b"/cheetah/other/x").decode(), "value": ""}), ("auth/user/add", {"name": "me", "password": "x"})):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask_etcd(path, body, token)
            self.assertEqual(refused.exception.code, 403, path)
            refused.exception.close()

    def test_a_new_password_is_set_by_the_same_command(self):
        path = pathlib.Path(self.cluster.folder, "etcd-password")
        for password in ("another one", "one two"):
            path.write_text(password + "\n")
            self.assertEqual(self.cluster.set_up_users().returncode, 0)
            self.assertIn("token", self.ask_etcd("auth/authenticate", {"name": "cheetah", "password": password}))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask_etcd("auth/authenticate", {"name": "cheetah", "password": "another one"})
        refused.exception.close()

    def talk_to_nats(self, login):
        """The first words of the server after a client's CONNECT, over TLS."""
        raw = socket.create_connection(("127.0.0.1", self.cluster.nats.port), timeout=PATIENCE)
        self.assertIn(b'"auth_required":true', raw.recv(8192))
        with ssl.create_default_context(cafile=f"{self.cluster.tls}/ca.pem").wrap_socket(raw, server_hostname="localhost") as link:
            link.sendall(b"CONNECT " + json.dumps({"verbose": True, **login}).encode() + b"\r\nSUB > 1\r\nPING\r\n")
            return link.recv(4096)

    def test_nats_tells_nothing_without_a_password(self):
        self.assertIn(b"Authorization Violation", self.talk_to_nats({}))
        self.assertIn(b"Authorization Violation", self.talk_to_nats({"user": "cheetah", "pass": "wrong"}))
        self.assertIn(b"+OK", self.talk_to_nats({"user": "cheetah", "pass": "Three4"}))

    def test_a_node_with_a_wrong_password_says_so(self):
        wrong = pathlib.Path(self.cluster.folder, "wrong")
        wrong.write_text("wrong\n")
        url = self.cluster.url_for("x").replace("etcd-password", "wrong").replace("nats-password", "wrong")
        done = run("cluster", "status", "--cluster", url, *self.cluster.credentials_for("x"), "--wait", "2")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.out, "registry down: .*authentication failed")
        self.assertRegex(done.out, "queue +down: ")


class CredentialsNats(Process):
    """A server that knows users by credentials files."""

    def __init__(self, folder):
        self.port = free_port()
        users, self.credentials = nats_credentials.set_up(folder)
        pathlib.Path(folder, "nats.conf").write_text(f"listen: 127.0.0.1:{self.port}\njetstream {{ store_dir: {folder}/nats }}\n{users}")
        super().__init__([NATS, "--config", f"{folder}/nats.conf"], f"{folder}/nats.log")

    def start(self):
        super().start()
        wait_until(lambda: "Server is ready" in self.output(), "nats-server")


@unittest.skipUnless(NATS and run("cluster", "--help").returncode == 0, "needs nats-server and a cluster")
class Credentials(unittest.TestCase):
    def test_a_credentials_file_opens_nats_and_another_does_not(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            nats = CredentialsNats(folder)
            _, foreign = nats_credentials.set_up(other)
            nats.start()
            pathlib.Path(folder, "peers").write_text("decode 127.0.0.1:9 nobody\n")
            try:
                def look(credentials):
                    setting = f"?nats_creds={credentials}" if credentials else ""
                    return run("cluster", "status", "--cluster", f"peers:{folder}/peers,nats://127.0.0.1:{nats.port}{setting}", "--wait", "2").out
                self.assertIn("queue    up", look(nats.credentials), nats.output())
                for wrong in (foreign, None):
                    self.assertIn("queue    down: ", look(wrong))
            finally:
                nats.kill()


if __name__ == "__main__":
    unittest.main()

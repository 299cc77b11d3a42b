#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What somebody with one credential, or none, can do: docs/security.md line by line, as far as no other test shows it."""
import base64
import http.client
import json
import os
import pathlib
import random
import re
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from fault_cluster import ETCD, NATS, PATIENCE, Cluster, ListedCluster, wait_until
from ledger import Stream
from program import MODELS, PROGRAM, SOURCE, run
from server import Server
from strangers import listening

SALT = "zanzibar-marmalade-7319"
STORY = "The password of the safe is zanzibar marmalade. "
BODY = {"model": "cub-1m", "prompt": STORY * 12, "max_tokens": 12, "temperature": 0, "ignore_eos": True}
NOBODY = 65534


def request(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer
    finally:
        connection.close()


class RedTeamList(unittest.TestCase):
    def test_every_line_names_a_test_that_exists(self):
        python = "\n".join(path.read_text() for path in (SOURCE / "tests" / "e2e").glob("test_*.py"))
        units = "\n".join(path.read_text() for path in (SOURCE / "src").rglob("*_test.cpp"))
        rows = [line for line in (SOURCE / "docs" / "security.md").read_text().splitlines() if line.startswith("|") and not line.startswith(("| who", "|---"))]
        self.assertGreater(len(rows), 30)
        for row in rows:
            shown = re.findall(r"`(test_\w+|\w+\.[A-Z]\w+)`", row.split("|")[-2])
            self.assertTrue(shown or "by design" in row.split("|")[-2], row)
            for name in shown:
                if name.startswith("test_"):
                    self.assertTrue(f"def {name}(" in python or (SOURCE / "tests" / "e2e" / f"{name}.py").exists(), name)
                else:
                    self.assertRegex(units, r"TEST\w*\(\w*\s*" + re.escape(name.split(".")[0]) + r",\s*" + re.escape(name.split(".")[1]) + r"\)", name)


class Neighbours(unittest.TestCase):
    """The network, and other users of the machine."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(ListedCluster(prefill=1, decode=1))

    def test_a_cluster_listens_on_the_loopback_alone(self):
        for node in self.cluster.nodes.values():
            sockets = listening(node.process.pid)
            self.assertTrue(sockets)
            for address in sockets:
                self.assertTrue(address[0] == "unix" or address[1] == "127.0.0.1", (node.name, address))

    def test_no_process_shows_the_secret(self):
        secret = pathlib.Path(self.cluster.secret).read_text().strip()
        for node in self.cluster.nodes.values():
            for file in ("cmdline", "environ"):
                self.assertNotIn(secret, pathlib.Path(f"/proc/{node.process.pid}/{file}").read_bytes().decode("utf-8", "replace"))
            self.assertNotIn(secret, node.output())

    def test_a_secret_that_others_can_read_is_refused(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"0123456789abcdef" * 4)
            file.flush()
            os.chmod(file.name, 0o644)
            done = run("cluster", "status", "--cluster", self.cluster.url_for("x"), "--secret-file", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("every user of this machine can read the secret: chmod 600 it", done.err)

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user, which only root can")
    def test_another_user_is_shown_the_door_at_the_sockets_of_pages(self):
        names = [address[1] for node in self.cluster.of("decode") for address in listening(node.process.pid) if address[0] == "unix"]
        self.assertTrue(names)
        for name in names:
            # As that user: connects, and is heard to the end of a silence that only a closed socket makes.
            script = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(60); s.connect('\\0' + sys.argv[1]); "
                      "sys.exit(0 if s.recv(100) == b'' else 1)")
            done = subprocess.run(["python3", "-c", script, name[1:]], user=NOBODY, timeout=PATIENCE, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_cluster_up_keeps_its_files_to_itself(self):
        up = subprocess.Popen([PROGRAM, "cluster", "up", MODELS / "cub-1m", "--prefill", "0", "--decode", "1", "--port", "0", "--threads", "1",
                               "--serve-flags=--kv-memory 16MiB"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            text = b""
            while not (found := re.search(rb"--cluster peers:(\S+)/peers\.txt --secret-file (\S+)", text)):
                piece = up.stdout.read1(4096)
                self.assertTrue(piece, text)
                text += piece
            folder, secret = (pathlib.Path(os.fsdecode(part)) for part in found.groups())
            self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
            self.assertEqual(stat.S_IMODE(secret.stat().st_mode), 0o600)
        finally:
            up.terminate()
            up.communicate(timeout=PATIENCE)


class Keys(unittest.TestCase):
    """Tenants of one server, and whoever has no key."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        keys = pathlib.Path(folder, "keys")
        keys.write_text("alice key-of-alice-0123456789\nbob key-of-bob-0123456789\nscraper key-of-scraper-0123 concurrent=1 rpm=1\n")
        cls.log = pathlib.Path(folder, "log")
        cls.server = cls.enterClassContext(Server(MODELS / "cub-1m", "--api-key-file", keys, "--threads", "1", "--kv-memory", "32MiB", "--log-level", "debug"))

    def ask(self, method, path, body=None, who=None, headers=None):
        return request(self.server.port, method, path, body, {**({"Authorization": f"Bearer key-of-{who}"} if who else {}), **(headers or {})})

    def test_without_a_key_everything_but_health_and_the_page_is_closed(self):
        document = json.loads((SOURCE / "web" / "openapi.json").read_text())
        asked = 0
        for path, methods in document["paths"].items():
            for method in methods:
                if method not in ("get", "post", "delete", "put", "patch"):
                    continue
                status = self.ask(method.upper(), re.sub(r"\{\w+\}", "x", path), {} if method == "post" else None)[0]
                if "health" in path or path in ("/", "/ready", "/v1/ready"):
                    self.assertNotEqual(status, 401, path)
                elif path.startswith("/admin/"):
                    self.assertIn(status, (401, 404), "a server alone has no operators")
                else:
                    self.assertEqual(status, 401, (method, path))
                    asked += 1
        self.assertGreater(asked, 20)
        self.assertEqual(self.ask("GET", "/no/such/path")[0], 401)

    def test_a_tenant_learns_nothing_of_anothers_prompts(self):
        def cached(who, **more):
            answer = json.loads(self.ask("POST", "/v1/completions", {**BODY, **more}, who)[1])
            return answer["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0)
        self.assertEqual(cached("alice-0123456789"), 0)
        self.assertGreater(cached("alice-0123456789"), 0, "one's own prefixes are kept")
        self.assertEqual(cached("bob-0123456789"), 0)
        self.assertEqual(cached("bob-0123456789", cache_salt="alice"), 0)

    def test_a_tenant_does_not_see_anothers_files(self):
        boundary = "b"
        text = (f"--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; "
                f"filename=\"a.jsonl\"\r\n\r\n{json.dumps({'custom_id': '1', 'method': 'POST', 'url': '/v1/completions', 'body': BODY})}\r\n--{boundary}--\r\n")
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        connection.request("POST", "/v1/files", text, {"Content-Type": f"multipart/form-data; boundary={boundary}", "Authorization": "Bearer key-of-alice-0123456789"})
        made = json.loads(connection.getresponse().read())
        connection.close()
        self.assertIn("id", made)
        path = f"/v1/files/{made['id']}"
        self.assertEqual(self.ask("GET", path, who="alice-0123456789")[0], 200)
        for where in (path, path + "/content"):
            self.assertEqual(self.ask("GET", where, who="bob-0123456789")[0], 404)
        self.assertNotIn(made["id"].encode(), self.ask("GET", "/v1/files", who="bob-0123456789")[1])
        self.assertEqual(self.ask("DELETE", path, who="bob-0123456789")[0], 404)

    def test_metrics_and_the_log_hold_no_word_and_no_key(self):
        self.ask("POST", "/v1/completions", BODY, "alice-0123456789")
        for path in ("/metrics", "/v1/stats", "/v1/decisions"):
            status, text, _ = self.ask("GET", path, who="scraper-0123")
            self.assertEqual(status, 200)
            for secret in (b"zanzibar", b"key-of-"):
                self.assertNotIn(secret, text, path)
        for secret in ("zanzibar", "key-of-"):
            self.assertNotIn(secret, self.server.log())

    def test_a_key_with_a_limit_cannot_generate_beyond_it(self):
        statuses = [self.ask("POST", "/v1/completions", BODY, "scraper-0123")[0] for _ in range(4)]
        self.assertIn(429, statuses)

    def test_a_page_of_another_site_gets_nothing(self):
        elsewhere = {"Origin": "https://evil.example"}
        status, _, answer = self.ask("GET", "/v1/models", who="alice-0123456789", headers=elsewhere)
        self.assertIsNone(answer.getheader("access-control-allow-origin"))
        self.assertEqual(self.ask("GET", "/v1/models", who="alice-0123456789", headers={"Host": "evil.example"})[0], 403, "DNS rebinding")
        simple = {**elsewhere, "Content-Type": "text/plain"}  # what a page may send without being asked about
        for path in ("/v1/completions", "/api/generate"):
            self.assertEqual(self.ask("POST", path, BODY, "alice-0123456789", simple)[0], 415, path)
        status, _, answer = self.ask("OPTIONS", "/v1/completions", headers={**elsewhere, "Access-Control-Request-Method": "POST"})
        self.assertIsNone(answer.getheader("access-control-allow-origin"))


class KeyedCluster(ListedCluster):
    """Its router has keys for clients and others for operators."""

    def __init__(self):
        super().__init__(prefill=0, decode=1)
        for name, text in (("clients", "team key-of-the-team-0123\n"), ("operators", "ops key-of-the-operators-01\n")):
            pathlib.Path(self.folder, name).write_text(text)
            os.chmod(f"{self.folder}/{name}", 0o600)

    def flags_for(self, name):
        keys = ("--api-key-file", f"{self.folder}/clients", "--admin-key-file", f"{self.folder}/operators") if name == "router" else ()
        return (*super().flags_for(name), *keys)


class Operators(unittest.TestCase):
    def test_an_admin_key_opens_the_admin_api_alone_and_a_clients_key_all_but_that(self):
        with KeyedCluster() as cluster:
            def status(method, path, key, body=None):
                return request(cluster.router.port, method, path, body, {"Authorization": f"Bearer {key}"})[0]
            team, operators = "key-of-the-team-0123", "key-of-the-operators-01"
            self.assertEqual((status("GET", "/admin/cluster", operators), status("GET", "/admin/cluster", team)), (200, 401))
            for method, path, body in (("POST", "/v1/completions", BODY), ("GET", "/v1/models", None), ("GET", "/metrics", None), ("GET", "/v1/files", None)):
                self.assertEqual((status(method, path, team, body), status(method, path, operators, body)), (200, 401), path)


@unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
class Services(unittest.TestCase):
    """Whoever reaches etcd and NATS, where they are left without passwords."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(prefill=1, decode=2))
        cls.answer = cls.ask(cls, 0).choices

    def ask(self, salt):
        stream = Stream("/v1/completions", {**BODY, "cache_salt": f"{SALT}-{salt}"}).run(self.cluster.router.port)
        if not stream.ended_well():
            raise AssertionError((stream.status, stream.error, stream.cut))
        return stream

    def test_a_listener_at_nats_reads_no_prompt(self):
        heard, stopping = bytearray(), threading.Event()
        link = socket.create_connection(("127.0.0.1", self.cluster.nats.port), timeout=1)
        link.sendall(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')

        def listen():
            while not stopping.is_set():
                try:
                    data = link.recv(1 << 16)
                    heard.extend(data)
                    if b"PING\r\n" in data:
                        link.sendall(b"PONG\r\n")
                except TimeoutError:
                    continue
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        wait_until(lambda: b"PONG" in heard, "the listener to be connected")
        before = len(heard)
        jobs = sum(node.metrics()["cheetah_cluster_jobs_pushed_total"] for node in self.cluster.of("decode"))
        for salt in range(1, 9):
            self.assertEqual(self.ask(salt).choices, self.answer)
        wait_until(lambda: sum(node.metrics()["cheetah_cluster_jobs_pushed_total"] for node in self.cluster.of("decode")) > jobs, "jobs to go through the queue")
        wait_until(lambda: len(heard) > before + 500, "the listener to hear of them")
        stopping.set()
        thread.join(PATIENCE)
        link.close()
        ids = json.loads(request(self.cluster.router.port, "POST", "/v1/tokenize", {"model": "cub-1m", "prompt": STORY})[1])["tokens"][:16]
        for what in (b"zanzibar", SALT.encode(), struct.pack("<16i", *ids), struct.pack("<16q", *ids), bytes(id & 0xff for id in ids)):
            self.assertNotIn(what, bytes(heard))
        for path in pathlib.Path(self.cluster.nats.store).rglob("*"):  # nor who has the disk
            if path.is_file():
                self.assertNotIn(SALT.encode(), path.read_bytes())

    def test_whoever_writes_to_etcd_stops_nothing(self):
        etcd, draw = self.cluster.etcd, random.Random(5)
        prefix = {"key": base64.b64encode(b"/cheetah/default/workers/").decode(), "range_end": base64.b64encode(b"/cheetah/default/workers0").decode()}
        for turn in range(20):
            for entry in etcd._call("kv/range", prefix).get("kvs", []):
                key, value = base64.b64decode(entry["key"]), bytearray(base64.b64decode(entry.get("value", "")))
                for _ in range(3):
                    if value:
                        value[draw.randrange(len(value))] = draw.randrange(256)
                etcd.put(key, bytes(value) if turn % 2 else draw.randbytes(100))
            self.assertEqual(self.ask(f"etcd-{turn}").choices, self.answer)
        etcd._call("kv/deleterange", prefix)
        wait_until(lambda: etcd.leases()[1] == len(self.cluster.nodes), "the nodes to write their keys again")
        wait_until(lambda: all(worker["state"] == "ready" for worker in self.cluster.status()["workers"]), "every worker to be known as ready")
        self.assertEqual(self.ask("deleted").choices, self.answer)

    def test_etcd_holds_no_secret_and_no_prompt(self):
        self.ask("etcd")
        everything = json.dumps(self.cluster.etcd._call("kv/range", {"key": "AA==", "range_end": "AA=="}))
        text = b"".join(base64.b64decode(found) for found in re.findall(r'"(?:key|value)": "([^"]*)"', everything))
        for secret in (pathlib.Path(self.cluster.secret).read_bytes().strip(), b"zanzibar"):
            self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main()

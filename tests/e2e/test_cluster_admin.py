# SPDX-License-Identifier: MIT
"""What an operator does with a running cluster through its router: cordon, drain, role, scale, trace, top; and the key for it."""
import glob
import http.client
import json
import os
import pathlib
import signal
import tempfile
import unittest

import fault_cluster
from fault_cluster import ETCD, NATS, ProxiedCluster, wait_until
from ledger import Stream
from openapi import Document
from program import run
from test_cluster import Cluster, post, prompt, texts

SLOWLY = {"decode": "told.EngineEvent=stall:10ms,times=1000000"}  # a stream must not be through before the operator acts
LONG = {"model": "cub-1m", "prompt": prompt(60), "max_tokens": 300, "temperature": 0, "ignore_eos": True}


def cluster_command(port, *words, key=None):
    return run("cluster", *words, "--router", f"http://127.0.0.1:{port}", *(["--admin-key-file", key] if key else []))


def look(port):
    return json.loads(cluster_command(port, "top", "--once", "--json").out)


def state_of(port, name):
    return next((worker["state"] for worker in look(port)["workers"] if worker["name"] == name), "absent")


def wait_for_state(port, name, state):
    wait_until(lambda: state_of(port, name) == state, f"{name} to be {state}")


def ask(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Operated(unittest.TestCase):
    """Over a list of peers: what operators ordered outlives the router that took it."""

    def test_orders_outlive_the_router(self):
        with ProxiedCluster(prefill=1, decode=2, faults=SLOWLY) as cluster:
            port = cluster.router.port
            expected = Stream("/v1/completions", LONG).run(port).choices[0]
            self.assertEqual(cluster_command(port, "cordon", "decode-0", "--why", "a new disk").returncode, 0)
            wait_for_state(port, "decode-0", "cordoned")
            log = cluster.router.output()
            self.assertRegex(log, r'"event":"admin","act":"cordon".*decode-0.*"who":"local".*"why":"a new disk"')
            self.assertEqual(json.loads(ask(port, "POST", "/v1/completions", {**LONG, "max_tokens": 4, "timings": True})[1])["timings"]["cluster"]["decode_worker"], "decode-1")
            refused = cluster_command(port, "cordon", "decode-1")
            self.assertEqual(refused.returncode, 1, refused)
            self.assertIn("the only worker that decodes", refused.err)
            cluster.router.restart()
            cluster.nodes["decode-0"].restart()  # by its name: its next life too
            wait_for_state(port, "decode-0", "cordoned")
            seen = {worker["name"]: worker["standing"] for worker in cluster.status()["workers"]}
            self.assertEqual(seen["decode-0"], "cordoned")
            self.assertEqual(cluster_command(port, "uncordon", "decode-0").returncode, 0)
            wait_for_state(port, "decode-0", "ready")
            # One that is drained at once hands over what it has, to the token.
            stream = Stream("/v1/completions", LONG)
            def drain(tokens):
                if tokens == 20:
                    busy = next(worker["name"] for worker in look(port)["workers"] if worker["in_flight"] > 0)
                    drained.append(busy)
                    done = cluster_command(port, "drain", busy, "--limit", "0", "--wait")
                    self.assertEqual((done.returncode, done.out), (0, f"{busy}: drained\n"), done.err)
            drained = []
            stream.run(port, drain)
            self.assertTrue(stream.ended_well(), (stream.status, stream.error))
            self.assertEqual(stream.choices[0], expected)
            self.assertEqual(len(drained), 1)
            self.assertEqual(cluster_command(port, "uncordon", drained[0]).returncode, 0)
            wait_for_state(port, drained[0], "ready")
            # Roles.
            done = cluster_command(port, "role", "decode-1", "prefill", "--wait")
            self.assertEqual((done.returncode, done.out), (0, "decode-1: is prefill\n"), done.err)
            self.assertEqual(Stream("/v1/completions", LONG).run(port).choices[0], expected)
            # Those who are away are named as such.
            cluster.nodes["prefill-0"].kill()
            cluster.nodes["decode-1"].signal(signal.SIGSTOP)
            status = run("cluster", "status", "--json", "--cluster", cluster.url_for("observer"), "--secret-file", cluster.secret, "--wait", "1")
            self.assertEqual(status.returncode, 1)
            seen = {worker["name"]: worker["standing"] for worker in json.loads(status.out)["workers"]}
            self.assertEqual((seen["decode-0"], seen["prefill-0"], seen["decode-1"]), ("ready", "dead", "hung"))

    def test_a_node_whose_line_is_taken_off_gets_nothing_new(self):
        with ProxiedCluster(prefill=0, decode=2, faults=SLOWLY) as cluster:
            port, peers = cluster.router.port, pathlib.Path(cluster.folder, "router.peers")
            lines = peers.read_text()

            def put(text):
                peers.with_suffix(".new").write_text(text)
                peers.with_suffix(".new").rename(peers)

            def answered_by():
                body = {**LONG, "max_tokens": 2, "timings": True}
                return json.loads(ask(port, "POST", "/v1/completions", body)[1])["timings"]["cluster"]["decode_worker"]
            expected = Stream("/v1/completions", LONG).run(port).choices[0]
            taken_off = []

            def take_off(tokens):  # the one that has the stream
                if tokens == 20:
                    taken_off.append(next(worker["name"] for worker in look(port)["workers"] if worker["in_flight"] > 0))
                    put("".join(line for line in lines.splitlines(True) if not line.endswith(taken_off[0] + "\n")))
                    wait_until(lambda: state_of(port, taken_off[0]) == "left", "the router to hear of it")
            stream = Stream("/v1/completions", LONG).run(port, take_off)
            self.assertEqual(stream.choices[0], expected)
            for _ in range(8):
                self.assertNotEqual(answered_by(), taken_off[0])
            cluster.nodes[taken_off[0]].restart()  # it dials by itself: its own list still has the router
            wait_for_state(port, taken_off[0], "left")
            for _ in range(4):
                self.assertNotEqual(answered_by(), taken_off[0])
            put(lines)
            wait_for_state(port, taken_off[0], "ready")

    @unittest.skipUnless(ETCD and NATS, "needs etcd and nats-server")
    def test_etcd_keeps_orders_and_one_of_two_routers_plans(self):
        with fault_cluster.Cluster(prefill=1, decode=2) as cluster:
            port = cluster.router.port
            other = fault_cluster.Node(cluster, "router", "router-2")
            cluster.nodes["router-2"] = other
            other.start()
            other.wait_ready()
            def planners():
                return [name for name in ("router", "router-2") if cluster.nodes[name].alive() and look(cluster.nodes[name].port)["plans"]]
            wait_until(lambda: len(planners()) == 1, "one planner")
            self.assertEqual(cluster_command(port, "cordon", "decode-0").returncode, 0)
            self.assertEqual(cluster_command(port, "scale", "decode", "5").returncode, 0)
            wait_for_state(other.port, "decode-0", "cordoned")
            def exported():
                values = [node.metrics().get('cheetah_cluster_desired_replicas{pool="decode"}') for node in (cluster.router, other)]
                return sorted(value for value in values if value is not None) == [5.0]
            wait_until(exported, "the planner, and it alone, to export what is desired")
            first = planners()[0]
            cluster.nodes[first].kill()
            wait_until(lambda: len(planners()) == 1 and planners() != [first], "the other router to plan")
            for node in cluster.nodes.values():  # all at once: nobody is left that remembers
                node.kill()
            for node in cluster.nodes.values():
                node.start()
            for node in cluster.nodes.values():
                node.wait_ready()
            wait_for_state(port, "decode-0", "cordoned")
            wait_until(exported, "what was desired to be exported again")


class Keys(unittest.TestCase):
    def test_operators_and_clients_have_keys_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            admin, clients = os.path.join(folder, "admin"), os.path.join(folder, "clients")
            for path, text in ((admin, "ops operators-key-1\n"), (clients, "team clients-key-1\n")):
                with open(path, "w") as file:
                    file.write(text)
                os.chmod(path, 0o600)
            cluster = Cluster(0, 1, "--admin-key-file", admin)
            try:
                for headers in ({}, {"Authorization": "Bearer clients-key-1"}, {"Authorization": "Bearer operators-key-"}):
                    self.assertEqual(ask(cluster.port, "GET", "/admin/cluster", **headers)[0], 401, headers)
                good = {"Authorization": "Bearer operators-key-1"}
                self.assertEqual(ask(cluster.port, "GET", "/admin/cluster", **good)[0], 200)
                self.assertEqual(ask(cluster.port, "POST", "/admin/cordon", {}, **good)[0], 400)
                done = cluster_command(cluster.port, "top", "--once", key=admin)
                self.assertEqual(done.returncode, 0, done.err)
                self.assertRegex(done.out, r"(?m)^decode-0 +both +ready +0/8")
                status, page = ask(cluster.port, "GET", "/openapi.json")
                document = Document(page)
                for path in ("/admin/cluster",):
                    status, text = ask(cluster.port, "GET", path, **good)
                    document.check_answer("GET", path, status, "application/json", text)
            finally:
                self.assertEqual(cluster.stop(), 0)
            refused = run("serve", "--role", "router", "--cluster", "peers:none", "--admin-key-file", admin, "--api-key-file", admin)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("a client's too", refused.err)

    def test_without_a_key_it_is_this_machines_alone(self):
        cluster = Cluster(0, 1)
        try:
            self.assertEqual(ask(cluster.port, "GET", "/admin/cluster")[0], 200)
            self.assertEqual(ask(cluster.port, "GET", "/admin/cluster", Origin="http://localhost")[0], 403)
            self.assertEqual(ask(cluster.port, "POST", "/admin/cordon", {"node": "decode-0"}, **{"Content-Type": "text/plain"})[0], 415)
        finally:
            self.assertEqual(cluster.stop(), 0)


class Up(unittest.TestCase):
    def test_scale_trace_and_logs(self):
        cluster = Cluster(1, 1, "--log-max-size", "4KiB", "--log-keep", "3", serve_flags=("--log-level", "debug"))
        try:
            case = {"prompt": prompt(120), "temperature": 0, "max_tokens": 16, "ignore_eos": True}
            expected = texts(post(cluster.port, case)[1])
            self.assertEqual(cluster_command(cluster.port, "scale", "decode", "2").returncode, 0)
            cluster.wait_for("decode-1 comes")
            wait_for_state(cluster.port, "decode-1", "ready")
            self.assertEqual(cluster_command(cluster.port, "cordon", "decode-0").returncode, 0)
            wait_for_state(cluster.port, "decode-0", "cordoned")
            self.assertEqual(texts(post(cluster.port, case)[1]), expected, "the new worker answers as the old one")
            # A router that dies takes no order with it, nor do all nodes at once.
            os.kill(cluster.pid_of("router"), signal.SIGKILL)
            cluster.wait_until_answers()
            wait_for_state(cluster.port, "decode-0", "cordoned")
            for name in ("router", "prefill-0", "decode-0", "decode-1"):
                os.kill(cluster.pid_of(name), signal.SIGKILL)
            cluster.wait_until_answers()
            wait_for_state(cluster.port, "decode-0", "cordoned")
            self.assertEqual(cluster_command(cluster.port, "uncordon", "decode-0").returncode, 0)
            wait_for_state(cluster.port, "decode-0", "ready")
            self.assertEqual(cluster_command(cluster.port, "scale", "decode", "1").returncode, 0)
            cluster.wait_for("decode-1 has left")
            wait_until(lambda: state_of(cluster.port, "decode-1") == "absent", "the router to forget it")
            self.assertEqual(texts(post(cluster.port, case)[1]), expected)

            status, answer = post(cluster.port, {**case, "prompt": prompt(200, 5)})
            self.assertEqual(status, 200)
            traced = cluster_command(cluster.port, "trace", answer["id"])
            self.assertEqual(traced.returncode, 0, traced.err)
            for told in (r"came to the router", r"decode at decode-0", r"first token to the client", r"ended", r"prefill .* at prefill-0", r"slab from token"):
                self.assertRegex(traced.out, told)
            missing = cluster_command(cluster.port, "trace", "req_none")
            self.assertEqual(missing.returncode, 1)
            self.assertIn("no request req_none", missing.err)

            for salt in range(40):
                post(cluster.port, {**case, "prompt": prompt(50, salt)})
            log = os.path.join(cluster.folder, "router.log")
            wait_until(lambda: os.path.exists(log + ".1") and os.path.getsize(log) < 64 << 10, "the router's log to be begun anew")
            self.assertLessEqual(len(glob.glob(log + ".*")), 4)
        finally:
            self.assertEqual(cluster.stop(), 0)


if __name__ == "__main__":
    unittest.main()

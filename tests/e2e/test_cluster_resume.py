# SPDX-License-Identifier: MIT
"""A router that dies costs no stream: with the id of the last event that came, another router sends the rest, byte for byte
what one undisturbed server says."""
import http.client
import json
import re
import sys
import unittest
from pathlib import Path

from fault_cluster import ETCD, NATS, Cluster, wait_until
from ledger import SCHEMA, STORY
from ports import free_port
from program import MODELS, run
from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import resume_stream  # noqa: E402

MODEL = "cub-1m"
BASE = {"model": MODEL, "temperature": 0, "max_tokens": 60, "ignore_eos": True}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {"what": {"enum": ["cat", "dog"]}},
                                                                          "required": ["what"]}}}]
CHAT = {**BASE, "messages": [{"role": "user", "content": STORY}]}
USAGE = {"stream_options": {"include_usage": True}}
KINDS = {  # name: path, body; the answers never change
    "greedy": ("/v1/completions", {**BASE, **USAGE, "prompt": STORY}),
    "sampled": ("/v1/completions", {**BASE, "prompt": STORY * 2, "temperature": 1, "seed": 11}),
    "choices": ("/v1/completions", {**BASE, "prompt": STORY, "temperature": 0.9, "seed": 5, "n": 3, "echo": True}),
    "prompts": ("/v1/completions", {**BASE, **USAGE, "prompt": ["The cat", "The dog said", STORY], "n": 2, "temperature": 0.8, "seed": 2}),
    "logprobs": ("/v1/completions", {**BASE, "prompt": STORY, "logprobs": 3, "return_token_ids": True}),
    "stop": ("/v1/completions", {**BASE, "prompt": STORY * 2, "stop": [" zebra", "xyz"], "temperature": 0.8, "seed": 3}),
    "schema": ("/v1/completions", {**BASE, "prompt": STORY, "guided_json": SCHEMA, "temperature": 0.7, "seed": 9}),
    "chat": ("/v1/chat/completions", {**CHAT, **USAGE, "logprobs": True, "top_logprobs": 2, "frequency_penalty": 0.4}),
    "chat choices": ("/v1/chat/completions", {**CHAT, "n": 2, "temperature": 1.1, "seed": 4}),
    "tools": ("/v1/chat/completions", {**CHAT, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}),
    "messages": ("/v1/messages", {"model": MODEL, "max_tokens": 50, "temperature": 0, "messages": CHAT["messages"]}),
    "responses": ("/v1/responses", {"model": MODEL, "max_output_tokens": 50, "temperature": 0, "input": STORY}),
}


def comparable(events):
    """What must be equal: everything but when it was said and how much of it a cache had; by choice, since choices run side by side."""
    order = {}
    for name, data in events:
        data = re.sub(r'"(created|created_at)":\d+', r'"\1":0', data)
        data = re.sub(r'"(cached_tokens|cache_read_input_tokens|input_tokens)":\d+', r'"\1":0', data)
        index = re.search(r'"choices":\[{"index":(\d+)', data)
        order.setdefault(index and index[1], []).append((name, data))
    return order


class Routers(Cluster):
    """Several, on lists of peers."""

    def __init__(self, routers=2, **options):
        super().__init__(services=False, **options)
        self.plan[1:1] = [("router", f"router-{letter}") for letter in "bcd"[:routers - 1]]
        self.ports = {name: free_port() for _, name in self.plan}
        lines = {name: f"{role} 127.0.0.1:{self.ports[name]} {name}\n" for role, name in self.plan}
        for near in (*self.ports, "observer"):
            Path(f"{self.folder}/{near}.peers").write_text("".join(line for name, line in lines.items() if name != near))

    def url_for(self, name):
        return f"peers:{self.folder}/{name}.peers"

    def flags_for(self, name):
        return (*self.flags, "--cluster-port", str(self.ports[name]))


@unittest.skipUnless(run("cluster", "--help").returncode == 0, "this program has no cluster")
class ResumedStreams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server(MODELS / MODEL, "--max-model-len", "512", "--threads", "1", "--kv-memory", "64MiB") as server:
            cls.expected = {name: comparable(resume_stream.stream([server.url], path, body, {"x-request-id": "same"}))
                            for name, (path, body) in KINDS.items()}
        cls.cluster = cls.enterClassContext(Routers(prefill=1, decode=2))

    def setUp(self):
        self.routers = self.cluster.of("router")

    def revive(self):
        """Routers that are gone, without the faults they were to have."""
        for router in self.routers:
            router.arm()
            if not router.alive():
                router.wait()
                router.start()
                router.wait_ready()
        for router in self.routers:
            wait_until(lambda router=router: router.metrics()["cheetah_cluster_links"] >= 3, "the links")

    def ask(self, path, body, dies_at, others=(), headers=None):
        """The first router dies when it hands its Nth event on; the second has the rest."""
        self.revive()
        first, second = self.routers
        wait_until(first.arm(f"client.event=kill,hit={dies_at}"), "the fault to be armed")
        for node in others:
            wait_until(node.arm("told.EngineEvent=kill,hit=%d" % dies_at), "the worker's fault to be armed")
        cuts = []
        urls = [f"http://127.0.0.1:{router.port}" for router in (first, second)]
        events = list(resume_stream.stream(urls, path, body, {"x-request-id": "same", **(headers or {})}, on_cut=cuts.append))
        wait_until(lambda: not first.alive(), "the router to die")
        return events, cuts, second

    def check_equal(self, events, expected, what):
        got = comparable(events)
        self.assertEqual(got.keys(), expected.keys(), what)
        for index, wanted in expected.items():
            self.assertEqual(got[index], wanted, f"{what}, choice {index}")

    def test_every_kind_of_stream_goes_on_at_the_other_router(self):
        for number, (name, (path, body)) in enumerate(KINDS.items()):
            dies_at = (2, 17, 31)[number % 3]
            with self.subTest(kind=name):
                events, cuts, second = self.ask(path, body, dies_at)
                self.assertEqual(len(cuts), 1, cuts)
                self.check_equal(events, self.expected[name], name)
                wait_until(lambda second=second: second.metrics()["cheetah_cluster_resumed_total"] > 0, "it to be counted")
                self.assertEqual(second.metrics()["cheetah_cluster_resumed_anew_total"], 0, "the worker knows what it said")

    def test_a_seed_that_the_client_does_not_know_stays_the_same(self):
        body = {**BASE, "prompt": STORY, "temperature": 1.2, "n": 2}
        self.revive()
        first, second = (f"http://127.0.0.1:{router.port}" for router in self.routers)
        ids = []
        connection, response = resume_stream.open_stream(first, "/v1/completions", json.dumps({**body, "stream": True}),
                                                         {"Content-Type": "application/json"}, 60)
        whole = [(ids.append(event_id), (name, data))[1] for event_id, name, data in resume_stream.read_events(response)]
        connection.close()
        self.assertEqual(len(set(ids)), len(ids), "each event has an id of its own")
        other = list(resume_stream.stream([first], "/v1/completions", body))
        self.assertNotEqual(comparable(other), comparable(whole), "another stream has another seed")
        for cut in (0, 1, len(ids) // 2, len(ids) - 2, len(ids) - 1):
            connection, response = resume_stream.open_stream(second, "/v1/completions", json.dumps({**body, "stream": True}),
                                                             {"Content-Type": "application/json", "Last-Event-ID": ids[cut]}, 60)
            self.assertEqual(response.status, 200)
            rest = [(name, data) for _, name, data in resume_stream.read_events(response)]
            connection.close()
            self.assertEqual(sorted(whole[:cut + 1] + rest), sorted(whole), f"cut after event {cut}")

    def test_when_the_worker_dies_with_the_router_the_rest_is_the_same(self):
        path, body = KINDS["sampled"]
        decoders = self.cluster.of("decode")
        events, _, _ = self.ask(path, body, 12, others=decoders)
        self.check_equal(events, self.expected["sampled"], "sampled")
        for node in decoders:
            node.arm()
            if not node.alive():
                node.restart()
        self.revive()

    def test_a_whole_answer_is_asked_for_again_by_its_key(self):
        path, body = "/v1/completions", {**BASE, "prompt": STORY, "temperature": 1.1}
        self.revive()
        first, second = self.routers
        headers = {"Content-Type": "application/json", "Idempotency-Key": "7f1"}

        def answer(router):
            connection = http.client.HTTPConnection("127.0.0.1", router.port, timeout=60)
            try:
                connection.request("POST", path, json.dumps(body), headers)
                response = connection.getresponse()
                return response.status, json.loads(response.read())
            finally:
                connection.close()
        wait_until(first.arm("client.event=kill,hit=20"), "the fault to be armed")
        with self.assertRaises((OSError, http.client.HTTPException)):
            answer(first)
        status, said = answer(second)
        self.assertEqual(status, 200, said)
        wait_until(lambda: second.metrics()["cheetah_cluster_resumed_total"] > 0, "it to be counted")
        self.revive()
        status, again = answer(first)
        self.assertEqual((status, again["choices"]), (200, said["choices"]))
        self.assertEqual(answer(second)[0], 409, "this router has answered it")

    def test_ids_of_another_request_are_refused(self):
        self.revive()
        url = f"http://127.0.0.1:{self.routers[0].port}"
        path, body = KINDS["sampled"]
        connection, response = resume_stream.open_stream(url, path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"}, 60)
        event_id = next(resume_stream.read_events(response))[0]
        connection.close()
        for place, more, why in (("nonsense", {}, "send the last one as it came"), (event_id, {"n": 2}, "belongs to another request"),
                                 (event_id, {"stream": False}, "only a stream goes on")):
            connection, response = resume_stream.open_stream(url, path, json.dumps({**body, "stream": True, **more}),
                                                             {"Content-Type": "application/json", "x-cheetah-resume": place}, 60)
            self.assertEqual(response.status, 400)
            error = json.loads(response.read())["error"]
            connection.close()
            self.assertEqual(error["code"], "invalid_last_event_id")
            self.assertIn(why, error["message"])


class KeepsItsMap(Cluster):
    def flags_for(self, name):
        return (*self.flags, "--cluster-map", f"{self.folder}/{name}.map")


@unittest.skipUnless(ETCD and NATS and run("cluster", "--help").returncode == 0, "needs etcd and nats-server")
class StartsWithoutEtcd(unittest.TestCase):
    def test_a_router_that_starts_while_etcd_is_down_finds_the_workers(self):
        path, body = KINDS["sampled"]
        with KeepsItsMap(prefill=1, decode=1) as cluster:
            router, known = cluster.router, Path(f"{cluster.folder}/router.map")
            wait_until(lambda: known.exists() and known.read_text().count('"workers/') == 3, "the map to be kept")
            url = f"http://127.0.0.1:{router.port}"
            expected = comparable(resume_stream.stream([url], path, body, {"x-request-id": "same"}))
            cluster.etcd.kill()
            router.restart()
            self.assertEqual(comparable(resume_stream.stream([url], path, body, {"x-request-id": "same"})), expected)
            self.assertEqual(router.metrics()["cheetah_cluster_registry_up"], 0)
            cluster.etcd.start()
            wait_until(lambda: router.metrics()["cheetah_cluster_registry_up"] == 1, "etcd to be seen")
            self.assertEqual(comparable(resume_stream.stream([url], path, body, {"x-request-id": "same"})), expected)


if __name__ == "__main__":
    unittest.main()

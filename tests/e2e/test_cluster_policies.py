# SPDX-License-Identifier: MIT
"""What the policy document in a list of peers says is what a cluster of processes does. No test looks at a clock: they
look at answers, reasons and counts."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
import unittest

from fault_cluster import PATIENCE, Process, wait_until
from ports import free_port
from program import MODELS, PROGRAM, REFERENCES

LARGE, SMALL, OTHER_WORDS = MODELS / "cub-7m", MODELS / "cub-1m", REFERENCES / "llama"


class Nodes:
    """A router and workers, each (role, model, flags), that share a list of peers with a policy document in it."""

    def __init__(self, model, workers, policy, router_flags=()):
        self.folder = tempfile.mkdtemp(prefix="cheetah-policies-")
        self.write("secret", "a secret of this test alone\n")
        os.chmod(f"{self.folder}/secret", 0o600)
        self.write("policy.toml", policy)
        self.nodes, lines = [], ["config policy policy.toml"]
        self.model, self.port = model.name, free_port()
        for number, (role, its_model, flags) in enumerate([*workers, ("router", model, [*router_flags, "--port", self.port])]):
            port, name = free_port(), f"{role}-{number}"
            lines.append(f"{role} 127.0.0.1:{port} {name}")
            self.nodes.append(Process([PROGRAM, "serve", its_model, "--role", role, "--cluster", f"peers:{self.folder}/peers", "--node-name", name,
                                       "--cluster-port", port, "--secret-file", f"{self.folder}/secret", "--threads", "1", "--kv-memory", "32MiB",
                                       *flags], f"{self.folder}/{name}.log"))
        self.write("peers", "\n".join(lines) + "\n")
        self.num_workers = len(workers)

    def write(self, name, text):
        with open(f"{self.folder}/{name}.new", "w") as file:
            file.write(text)
        os.rename(f"{self.folder}/{name}.new", f"{self.folder}/{name}")

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            wait_until(self.all_there, "every worker to be ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def all_there(self):
        for node in self.nodes:
            if not node.alive():
                raise AssertionError(f"{node.command[:5]} ended: {node.output()[-2000:]}")
        try:
            return self.count("cheetah_cluster_worker_ready") == self.num_workers
        except OSError:
            return False

    def ask(self, body=None, headers=None, path="/v1/completions", method="POST"):
        """Status, headers and body, which is JSON or text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            text = None if body is None else json.dumps({"model": self.model, "temperature": 0, "timings": True, **body})
            connection.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            data = response.read()
            return response.status, response.headers, json.loads(data) if response.headers["Content-Type"].startswith("application/json") else data.decode()
        finally:
            connection.close()

    def metrics(self):
        return self.ask(path="/metrics", method="GET")[2]

    def count(self, name):
        """The sum of the samples whose names begin so."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.metrics().splitlines() if line.startswith(name))

    def set_policy(self, text, outcome="applied"):
        name = f'cheetah_cluster_config_reloads_total{{outcome="{outcome}"}}'
        before = self.count(name)
        self.write("policy.toml", text)
        wait_until(lambda: self.count(name) > before, f"the policy to be {outcome}")

    def stream(self, body, headers=None):
        return Stream(self, body, headers or {})


class Stream:
    """A streamed completion, read by a thread of its own."""

    def __init__(self, nodes, body, headers):
        self.text, self.begun, self.ended = "", threading.Event(), threading.Event()
        self.connection = http.client.HTTPConnection("127.0.0.1", nodes.port, timeout=PATIENCE)
        self.connection.request("POST", "/v1/completions", json.dumps({"model": nodes.model, "temperature": 0, "stream": True, "ignore_eos": True, **body}),
                                {"Content-Type": "application/json", **headers})
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.connection.getresponse():
                if line.startswith(b"data: {"):
                    self.text += json.loads(line[6:])["choices"][0]["text"]
                    self.begun.set()
        except (OSError, AttributeError, http.client.HTTPException):  # closed by the test
            pass
        self.connection.close()
        self.ended.set()

    def close(self):
        """Leaves in the middle."""
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.ended.wait(PATIENCE)


def prompt(length, salt):
    return [5 + (i * 37 + salt * 11) % 200 for i in range(length)]


def routing(worker, offload, more="", worth="enabled = false"):
    return f'[routing]\nworker_policy = "{worker}"\noffload_policy = "{offload}"\n{more}\n[routing.worth]\n{worth}\n'


FIVE_WAYS = [  # worker policy, its reasons, offload policy, the reasons of a long prompt
    ("round_robin", {"round_robin"}, "never", {"policy_never"}),
    ("least_loaded", {"least_loaded"}, "always", {"policy_always"}),
    ("prefix_aware", {"prefix_hash", "prefix_spilled"}, "threshold", {"long_prompt"}),
    ("load_cost", {"lowest_cost"}, "score", {"score_above"}),
    ("latency_cost", {"lowest_cost"}, "cost", {"remote_faster", "local_faster"}),
    ("cache_score", {"highest_score"}, "never", {"policy_never"}),
    ("kv_aware", {"kv_match", "shortest_wait"}, "always", {"policy_always"}),
]

CLASSES = """
[qos]
default_class = "patient"
degraded_output = 3
max_decode_share = {share}
[[qos.class]]
name = "patient"
reject_early = false
[[qos.class]]
name = "hasty"
reject_early = true
ttft_slo_ms = 1000000
tpot_slo_ms = 1000000
[[qos.class]]
name = "modest"
reject_early = true
ttft_slo_ms = 1000000
tpot_slo_ms = 1000000
degrade = true
[[qos.class]]
name = "urgent"
priority = 100
reject_early = false
[[qos.match]]
header = "x-tier"
value = "hasty"
class = "hasty"
[[qos.match]]
header = "x-tier"
value = "modest"
class = "modest"
[[qos.match]]
header = "x-tier"
value = "urgent"
class = "urgent"
{more}
"""


class PoliciesTest(unittest.TestCase):
    def answer(self, nodes, body, headers=None):
        status, head, answer = nodes.ask({"max_tokens": 8, "ignore_eos": True, **body}, headers)
        self.assertEqual(status, 200, answer)
        return head, answer

    def refused(self, nodes, status, code, reason, headers=None):
        """An error object, a time to come back, and a count with the reason."""
        got, head, answer = nodes.ask({"prompt": "once", "max_tokens": 8}, headers)
        self.assertEqual((got, answer["error"]["code"]), (status, code), answer)
        self.assertTrue(answer["error"]["message"] and answer["error"]["type"], answer)
        self.assertGreaterEqual(int(head["Retry-After"]), 1)
        wait_until(lambda: f'reason="{reason}"}} 1' in nodes.metrics(), f"a refusal for {reason} to be counted")

    def wait_for_decision(self, nodes, pattern):
        wait_until(lambda: re.search(pattern, nodes.ask(path="/v1/decisions", method="GET")[2]), pattern)

    def test_a_policy_document_is_followed_and_changed_while_serving(self):
        flags = ["--max-sequences", "8"]
        workers = [("prefill", SMALL, flags), ("decode", SMALL, flags), ("decode", SMALL, flags)]
        with Nodes(SMALL, workers, routing("least_loaded", "never")) as nodes:
            self.check_ways(nodes)
            self.check_worth(nodes)
            self.check_race(nodes)
            self.check_classes(nodes)
            self.check_quota(nodes)
            self.check_breakers(nodes)

    def check_ways(self, nodes):
        expected = self.answer(nodes, {"prompt": prompt(300, 1)})[1]["choices"][0]["text"]
        for salt, (worker, why_there, offload, why_so) in enumerate(FIVE_WAYS, 2):
            nodes.set_policy(routing(worker, offload))
            spent = self.answer(nodes, {"prompt": prompt(700, salt)})[1]["timings"]["cluster"]
            self.assertIn(spent["worker_reason"], why_there, spent)
            self.assertIn(spent["prefill_reason"], why_so, spent)
            self.assertEqual(spent["remote_tokens"] > 0, offload != "never" and spent["prefill_reason"] != "local_faster", spent)
            self.assertEqual(self.answer(nodes, {"prompt": prompt(300, 1)})[1]["choices"][0]["text"], expected)
        self.wait_for_decision(nodes, r"decode at [0-9a-f]{16}: route .*policy=kv_aware .*scores=\[.*=.*\]")
        nodes.set_policy("[routing]\nworker_policy = \"best\"\n", "refused")
        self.assertIn(self.answer(nodes, {"prompt": prompt(300, 1)})[1]["timings"]["cluster"]["worker_reason"], {"kv_match", "shortest_wait"})

    def check_worth(self, nodes):
        """Both ways are measured: of a bucket every second prompt takes the way believed to be worse, or the better one for its measured loss."""
        nodes.set_policy(routing("least_loaded", "threshold", worth="explore = 0.5\nmin_samples = 1"))
        seen = {self.answer(nodes, {"prompt": prompt(600, 100 + i)})[1]["timings"]["cluster"]["prefill_reason"] for i in range(8)}
        self.assertIn("exploring", seen)
        self.assertLessEqual(seen, {"exploring", "measured_loss", "long_prompt"})

    def check_race(self, nodes):
        nodes.set_policy(routing("least_loaded", "never", "race = true\nurgent_priority = 100") + CLASSES.format(share=1, more=""))
        once = self.answer(nodes, {"prompt": prompt(40, 3)})[1]["choices"][0]["text"]
        raced = self.answer(nodes, {"prompt": prompt(40, 3)}, {"x-tier": "urgent"})[1]["choices"][0]["text"]
        self.assertEqual(once, raced)
        wait_until(lambda: nodes.count("cheetah_cluster_races_total") == 1, "one race")

    def check_classes(self, nodes):
        nodes.set_policy(routing("least_loaded", "never") + CLASSES.format(share=0.04, more=""))  # one of 16 places is more
        self.answer(nodes, {"prompt": "once"})  # waits rather than is refused
        self.wait_until_idle(nodes)
        self.refused(nodes, 503, "overloaded", "decode_share", {"X-Tier": "hasty"})
        self.wait_until_idle(nodes)
        head, answer = self.answer(nodes, {"prompt": "once"}, {"x-tier": "modest"})
        self.assertEqual((answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]), (3, "length"))
        self.assertEqual((head["x-cheetah-degraded"], answer["timings"]["cluster"]["degraded"]), ("output", "output"))
        wait_until(lambda: nodes.count('cheetah_cluster_degraded_total{class="modest"}') == 1, "the degraded one to be counted")

    def check_quota(self, nodes):
        quota = '[[qos.quota]]\ntenant = "*"\ntokens_per_s = 0.001\nburst_tokens = 100\n'
        nodes.set_policy(routing("least_loaded", "never") + CLASSES.format(share=1, more=quota))
        self.answer(nodes, {"prompt": prompt(60, 1), "max_tokens": 40})
        self.refused(nodes, 429, "quota_exceeded", "quota")

    def check_breakers(self, nodes):
        prefill, *decode, _ = nodes.nodes
        breakers = "[qos.prefill_breaker]\nfailures = 1\nopen_ms = 600000\nmax_open_ms = 600000\n[qos.decode_breaker]\nfailures = 1\nopen_ms = 600000\nmax_open_ms = 600000\n"
        nodes.set_policy(routing("least_loaded", "always") + breakers)
        prefill.signal(signal.SIGSTOP)
        spent = self.answer(nodes, {"prompt": prompt(700, 150)})[1]["timings"]["cluster"]
        if spent["prefill_reason"] == "policy_always":  # otherwise its silence was noticed first
            self.assertTrue(spent["fallback"], spent)
            self.assertEqual(spent["remote_tokens"], 0, spent)
            spent = self.answer(nodes, {"prompt": prompt(700, 151)})[1]["timings"]["cluster"]
            self.assertEqual((spent["prefill_reason"], spent["fallback"]), ("breaker_open", ""), spent)
        for node in decode:
            node.kill()
        wait_until(lambda: nodes.count("cheetah_cluster_worker_ready") <= 1, "the decode workers to be missed")
        status, _, answer = nodes.ask({"prompt": "once", "max_tokens": 2})
        self.assertEqual((status, answer["error"]["code"]), (503, "overloaded"), answer)
        decode[0].start()
        wait_until(lambda: nodes.count('cheetah_cluster_worker_ready{worker="decode-1"') == 1, "a decode worker to come back")
        self.answer(nodes, {"prompt": "once"})  # its breaker, open for ten minutes, was about the others

    def test_a_busy_model_gives_way_to_a_smaller_one(self):
        # Only places count: on a loaded machine a worker that has not reported for a while is not full.
        policy = '[routing]\nstale_after_ms = 60000\nsilent_after_ms = 60000\n[qos]\nqueue_places = 0.0\n[[qos.class]]\nname = "default"\nttft_slo_ms = 1000000\ntpot_slo_ms = 1000000\ndegrade_to = "cub-1m"\n'
        workers = [("both", LARGE, ["--max-sequences", "1"]), ("both", SMALL, ["--max-sequences", "8"]), ("both", OTHER_WORDS, ["--max-sequences", "8"])]
        with Nodes(LARGE, workers, policy, ["--also-serve", f"{SMALL},{OTHER_WORDS}"]) as nodes:
            listed = nodes.ask(path="/v1/models", method="GET")[2]["data"]
            self.assertEqual([model["id"] for model in listed], ["cub-7m", "cub-1m", "llama"])
            question = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 12}
            alone = {}
            for name in ("cub-7m", "cub-1m", "llama"):
                self.wait_until_idle(nodes)
                status, head, alone[name] = nodes.ask({**question, "model": name}, path="/v1/chat/completions")
                self.assertEqual((status, alone[name]["model"], head["x-cheetah-degraded"]), (200, name, None), nodes.ask(path="/v1/decisions", method="GET")[2])
            status, _, answer = nodes.ask({**question, "model": "cub-9m"}, path="/v1/chat/completions")
            self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))
            self.assertIn("cub-1m", answer["error"]["message"])
            self.check_degraded(nodes, question, alone["cub-1m"], "cub-1m", ids=True)
            nodes.set_policy(policy.replace("cub-1m", "llama"))
            self.check_degraded(nodes, question, alone["llama"], "llama", ids=False)
            nodes.set_policy(policy.replace("cub-1m", "cub-9m"), "refused")

    def wait_until_idle(self, nodes):
        """Nothing runs, and the workers have said so: what is not known to have ended counts as running."""
        wait_until(lambda: nodes.all_there() and nodes.count("cheetah_cluster_worker_running") + nodes.count("cheetah_cluster_worker_waiting") == 0,
                   "the workers to be idle")

    def check_degraded(self, nodes, question, expected, name, ids):
        """The one place of the large model is taken, by somebody whose worker stands still: the other answers as if it had been asked.
        Token ids are the same in it or the request is not given to it."""
        self.wait_until_idle(nodes)
        large = nodes.nodes[0]
        busy = nodes.stream({"prompt": "Once", "max_tokens": 900})
        try:
            self.assertTrue(busy.begun.wait(PATIENCE))
            large.signal(signal.SIGSTOP)
            status, head, answer = nodes.ask(question, path="/v1/chat/completions")
            self.assertEqual((status, answer["model"]), (200, name), answer)
            self.assertEqual(answer["choices"], expected["choices"])
            self.assertEqual(answer["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"])
            self.assertEqual(head["x-cheetah-degraded"], f"model; asked=cub-7m; answered={name}")
            self.assertEqual(answer["timings"]["cluster"]["degraded"], "model")
            schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["age"], "additionalProperties": False}
            status, _, answer = nodes.ask({**question, "max_tokens": 40, "guided_json": schema}, path="/v1/chat/completions")
            self.assertEqual((status, answer["model"]), (200, name), answer)
            self.assertIsInstance(json.loads(answer["choices"][0]["message"]["content"])["age"], int)
            for bound in ({"prompt": prompt(9, 1)}, {"prompt": "once", "logit_bias": {"7": 5}}):
                status, _, answer = nodes.ask({**bound, "max_tokens": 4})
                self.assertEqual(status, 200 if ids else 503, answer)
        finally:
            large.signal(signal.SIGCONT)
            busy.close()
        self.wait_for_decision(nodes, r"other model: other_model .*why=(share|decode_share|queue_time|no_worker)")

    def test_a_flood_does_not_keep_a_reserved_class_from_its_place(self):
        policy = ('[qos]\ndefault_class = "free"\n[[qos.class]]\nname = "premium"\nreserved = 0.5\nreject_early = false\n[[qos.class]]\nname = "free"\n'
                  'reject_early = false\n[[qos.match]]\nheader = "x-tier"\nvalue = "premium"\nclass = "premium"\n')
        with Nodes(SMALL, [("both", SMALL, ["--max-sequences", "4"])], policy) as nodes:
            body = {"max_tokens": 700}
            alone = nodes.stream({**body, "prompt": prompt(30, 1)})
            self.assertTrue(alone.ended.wait(PATIENCE))
            flood = [nodes.stream({**body, "prompt": prompt(30, 1)}) for _ in range(12)]
            wait_until(lambda: sum(stream.begun.is_set() for stream in flood) >= 4, "four of the flood to run")
            for i in range(3):  # each has its place at once: four run, eight wait, and none of them has to end for it
                status, _, answer = nodes.ask({"prompt": prompt(20, 50 + i), "max_tokens": 8, "ignore_eos": True}, {"x-tier": "premium"})
                self.assertEqual(status, 200, answer)
                self.assertEqual(sum(stream.ended.is_set() for stream in flood), 0, "premium waited for the free tier")
            for stream in flood:
                self.assertTrue(stream.ended.wait(PATIENCE))
                self.assertEqual(stream.text, alone.text)  # whoever gave way lost nothing by it
            wait_until(lambda: nodes.count('cheetah_cluster_own_place_total{class="premium"}') == 3, "three places of its own")
            worker = re.search(r"at http://127\.0\.0\.1:(\d+)", nodes.nodes[0].output())[1]
            connection = http.client.HTTPConnection("127.0.0.1", int(worker), timeout=PATIENCE)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            self.assertGreaterEqual(float(re.search(r"^vllm:num_preemptions_total(?:\{.*\})? (\S+)", text, re.M)[1]), 1)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Workers that keep their pages differently, and one trace of a request across all who worked for it."""
import time
import unittest

from server import Server
from span_collector import Collector
from test_cluster import MODEL, PATIENCE, SMALL, Cluster, cases, post, prompt, texts


class Traces(Collector):
    def wait_for_trace(self, counts):
        """The spans of one trace by name, once it has so many of each."""
        def whole(spans):
            traces = {}
            for span in spans:
                traces.setdefault(span["traceId"], {}).setdefault(span["name"], []).append(span)
            return next((by_name for by_name in traces.values() if all(len(by_name.get(name, [])) >= count for name, count in counts.items())), None)
        return self.wait_for(whole, PATIENCE)


def worker_of(span):
    return next((one["value"]["stringValue"] for one in span["attributes"] if one["key"] == "cheetah.worker"), None)


def number_of(span, name):
    return next(int(one["value"]["intValue"]) for one in span["attributes"] if one["key"] == "cheetah." + name)


class ClusterPagesTest(unittest.TestCase):
    def remote_tokens(self, cluster, length, salt):
        case = {"prompt": prompt(length, salt), "max_tokens": 4, "temperature": 0, "ignore_eos": True, "timings": True}
        status, answer = post(cluster.port, case)
        self.assertEqual(status, 200, answer)
        return answer["timings"]["cluster"]["remote_tokens"]

    def test_pages_of_another_size_give_the_tokens_of_the_decode_worker_alone(self):
        with Server(MODEL, *SMALL, "--threads", "1") as one:
            expected = [texts(post(one.port, case)[1]) for case in cases()]
        cluster = Cluster(1, 1, "--prefill-flags=--page-tokens 64", "--decode-flags=--page-tokens 16")
        try:
            for case, wanted in zip(cases(), expected):
                status, answer = post(cluster.port, case)
                self.assertEqual((status, texts(answer)), (200, wanted), cluster.told())
            self.assertEqual(self.remote_tokens(cluster, 700, 9), 640)
            cluster.wait_for("memory: for keys and values each prefill worker takes as its flags say")
        finally:
            self.assertEqual(cluster.stop(), 0)

    def test_pages_of_another_type_are_taken_and_one_trace_tells_of_all(self):
        collector = Traces()
        cluster = Cluster(1, 1, "--prefill-flags=--kv-dtype bf16 --page-tokens 32", "--decode-flags=--kv-dtype f32",
                          serve_flags=["--otlp-endpoint", collector.url()])
        try:
            self.assertEqual(self.remote_tokens(cluster, 700, 9), 672)
            spans = collector.wait_for_trace({"text_completion cub-1m": 1, "answer": 1, "wait for a prefill worker": 1, "prefill job": 1,
                                              "compute prompt": 1, "send slab": 6, "receive pages": 1, "import slab": 6, "generate": 1})
            (call,), (answer,), (job,), (receive,) = (spans[name] for name in ("text_completion cub-1m", "answer", "prefill job", "receive pages"))
            below = {"answer": call, "prefill job": answer, "compute prompt": job, "send slab": job, "receive pages": answer,
                     "generate": answer, "import slab": receive}
            for name, parent in below.items():
                for span in spans[name]:
                    self.assertEqual(span["parentSpanId"], parent["spanId"], name)
            self.assertEqual((worker_of(answer), worker_of(job)), ("decode-0", "prefill-0"))
            self.assertEqual(sum(number_of(span, "tokens") for span in spans["send slab"]), 672)
        finally:
            self.assertEqual(cluster.stop(), 0)
            collector.shutdown()
            collector.server_close()


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each sampler: the same text for the same seed, from `generate` and from the server, and another text without it."""
import unittest

from program import MODELS, ProgramTest
from server import Server

PROMPT = "Once upon a time"
PLAIN = {"temperature": 1.2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 11}
SAMPLERS = {
    "dry": {"dry_multiplier": 5, "dry_base": 2, "dry_allowed_length": 1, "dry_penalty_last_n": 64,
            "dry_sequence_breakers": ["~"]},
    "xtc": {"xtc_probability": 1, "xtc_threshold": 0.05},
    "top-n-sigma": {"top_n_sigma": 0.5},
    "dynamic temperature": {"dynatemp_range": 1, "dynatemp_exponent": 2},
    "mirostat 1": {"mirostat": 1, "mirostat_tau": 2, "mirostat_eta": 0.3},
    "mirostat 2": {"mirostat": 2, "mirostat_tau": 2, "mirostat_eta": 0.3},
    "typical": {"typical_p": 0.2},
    "all but mirostat": {"dry_multiplier": 1, "xtc_probability": 0.5, "top_n_sigma": 2, "dynatemp_range": 0.5, "typical_p": 0.9,
                         "frequency_penalty": 0.3, "repetition_penalty": 1.1},
}


def flags(fields):
    result = []
    for name, value in fields.items():
        if name == "dry_sequence_breakers":
            result += [word for text in value for word in ("--dry-sequence-breaker", text)]
        else:
            result += ["--" + name.replace("_", "-"), str(value)]
    return result


class Samplers(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(MODELS / "cub-1m", "--kv-memory", "8MiB")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def served(self, fields, **more):
        status, answer = self.server.json("POST", "/v1/completions", {
            "model": "cub-1m", "prompt": PROMPT, "max_tokens": 24, "ignore_eos": True, **PLAIN, **fields, **more})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"]

    def generated(self, fields):
        return self.ok_json("generate", MODELS / "cub-1m", "-p", PROMPT, "-n", "24", "--ignore-eos", "--json",
                            *flags({**PLAIN, **fields}))["text"]

    def test_the_server_and_generate_choose_alike(self):
        plain = self.served({})
        for name, fields in SAMPLERS.items():
            with self.subTest(name):
                text = self.served(fields)
                self.assertEqual(text, self.served(fields), "the seed decides")
                self.assertEqual(text, self.generated(fields))
                self.assertNotEqual(text, plain)

    def test_they_are_there_for_other_servers_clients(self):
        fields = {**PLAIN, "mirostat": 2, "mirostat_tau": 2, "mirostat_eta": 0.3}
        expected = self.served(fields)
        native = self.server.json("POST", "/completion", {"prompt": PROMPT, "n_predict": 24, "ignore_eos": True, **fields})[1]
        self.assertEqual(native["content"], expected)
        self.assertEqual(native["generation_settings"]["mirostat"], 2)
        ollama = self.server.json("POST", "/api/generate", {"model": "cub-1m", "prompt": PROMPT, "raw": True, "stream": False,
                                                           "options": {**fields, "num_predict": 24, "repeat_penalty": 1}})[1]
        self.assertTrue(expected.startswith(ollama["response"]), ollama)

    def test_a_value_out_of_range_is_refused_by_name(self):
        for name, value in (("mirostat", 3), ("xtc_probability", 2), ("dry_base", 0), ("dry_sequence_breakers", [1])):
            status, answer = self.server.json("POST", "/v1/completions", {"model": "cub-1m", "prompt": PROMPT, name: value})
            self.assertEqual((status, answer["error"]["param"].split("[")[0]), (400, name))
        self.fails(2, "generate", "-p", "x", "--mirostat", "3", mentions=["--mirostat"])
        self.fails(2, "generate", "-p", "x", "--xtc-probability", "2", mentions=["--xtc-probability"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""verify, generate, inspect and bench over the models in the repository."""
import json
import pathlib
import shutil
import tempfile
import unittest

from program import MODELS, REFERENCES, ProgramTest, run

FOLDERS = [p.parent for p in sorted(REFERENCES.glob("*/golden.json"))]
GGUFS = [p.with_name(p.name.replace(".golden.json", ".gguf")) for p in sorted(REFERENCES.glob("*/*.golden.json"))]


class Verify(ProgramTest):
    def test_every_reference_model_matches(self):
        out = self.ok("verify", *FOLDERS, *GGUFS)
        self.assertIn(f"{len(FOLDERS) + len(GGUFS)} of {len(FOLDERS) + len(GGUFS)} models", out)

    def test_native_arithmetic_stays_in_its_bounds(self):
        self.ok("verify", "--compute", "native", *FOLDERS, *GGUFS)

    def test_embedded_model_matches_with_its_held_out_text(self):
        result = self.ok_json("verify", "--json", "cub-7m")
        self.assertTrue(result["passed"])
        heldout = result["models"][0]["heldout"]
        self.assertLess(abs(heldout["nll"] - heldout["expected"]), 1e-3)

    def test_held_out_loss_survives_other_weight_types(self):
        for dtype, compute, bound in (("bf16", "native", 1e-3), ("q8_0", "exact", 0.02), ("q8_0", "native", 0.02)):
            result = json.loads(run("verify", "--json", "--dtype", dtype, "--compute", compute, "cub-1m").out)
            heldout = result["models"][0]["heldout"]
            self.assertLess(abs(heldout["nll"] - heldout["expected"]), bound, (dtype, compute))

    def test_a_miss_is_exit_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(REFERENCES / "llama", pathlib.Path(folder) / "llama")
            golden = json.loads((copy / "golden.json").read_text())
            golden["cases"][0]["last_logits"][0] += 1
            (copy / "golden.json").write_text(json.dumps(golden))
            done = run("verify", copy)
            self.assertEqual(done.returncode, 1, done.err)
            self.assertIn("MISS", done.out)

    def test_no_reference_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            self.fails(1, "verify", folder)


class Generate(ProgramTest):
    def test_embedded_model_is_found_and_greedy_text_is_the_reference(self):
        golden = json.loads((MODELS / "cub-7m" / "golden.json").read_text())["cases"][0]
        out = self.ok("generate", "-p", golden["text"], "--temperature", "0", "-n", str(len(golden["greedy"])),
                      "--compute", "exact")
        self.assertEqual(out.rstrip("\n"), golden["greedy_text"].rstrip("\n"))

    def test_a_seed_decides_the_text(self):
        args = ("generate", "-p", "The dragon", "-n", "30", "--temperature", "1")
        first = self.ok(*args, "--seed", "5")
        self.assertEqual(self.ok(*args, "--seed", "5"), first)
        self.assertEqual(self.ok(*args, "--seed", "5", "--threads", "3"), first)
        self.assertNotEqual(self.ok(*args, "--seed", "6"), first)

    def test_prompt_from_standard_input_and_json(self):
        result = self.ok_json("generate", "--json", "-n", "5", "--ignore-eos", "--seed", "1", stdin="Once upon")
        self.assertEqual(len(result["tokens"]), 5)
        self.assertEqual((result["finish_reason"], result["seed"]), ("length", 1))
        self.assertGreater(result["timings"]["decode_tokens_per_second"], 0)

    def test_stop_text_and_statistics(self):
        full = self.ok("generate", "-p", "Once", "-n", "40", "--temperature", "0")
        word = full.split()[5]
        done = run("generate", "-p", "Once", "-n", "40", "--temperature", "0", "--stop", word, "--stats")
        self.assertEqual(done.out.rstrip("\n"), full[: full.index(word)])
        self.assertIn("tokens/s", done.err)
        self.assertIn("memory:", done.err)

    def test_chat_template(self):
        self.ok("generate", "--chat", "--system", "Be brief.", "-p", "Tell me a story.", "-n", "8")

    def test_context_limits(self):
        self.fails(1, "generate", "-p", "word " * 3000, mentions=["tokens", "1024"])
        self.fails(2, "generate", "-p", "x", "-c", "1M", mentions=["--ctx-size", "1024"])
        done = run("generate", "-p", "Once", "-n", "5k", "--ignore-eos", "-m", "cub-1m")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("full", done.err)

    def test_no_prompt_text_is_one_sentence(self):
        self.fails(1, "generate", "-m", REFERENCES / "qwen2", "-p", "")

    def test_other_weight_types_and_families_run(self):
        for dtype in ("f32", "f16", "bf16", "q8_0", "q4_0"):
            self.ok("generate", "-p", "Once", "-n", "3", "--dtype", dtype)
        for folder in FOLDERS + GGUFS[:1]:
            self.ok("generate", folder, "-p", "Once", "-n", "3", "--kv-dtype", "bf16")


class Inspect(ProgramTest):
    def test_tells_parameters_cache_and_cost(self):
        facts = self.ok_json("inspect", "cub-7m", "--json", "--memory", "1GiB")
        config = json.loads((MODELS / "cub-7m" / "config.json").read_text())
        self.assertEqual(facts["layers"], config["num_hidden_layers"])
        self.assertEqual(facts["kv_bytes_per_token"]["F16"], 6 * 2 * 3 * 48 * 2)
        self.assertGreater(facts["parameters"], 6_000_000)
        self.assertEqual(sum(share["bytes"] for share in facts["stored"].values()), facts["weight_bytes"])
        self.assertTrue(facts["fits"]["contexts"])

    def test_presets_need_no_memory(self):
        facts = self.ok_json("inspect", "random:llama-8b", "--json")
        self.assertEqual(facts["parameters"], 8_030_261_248)

    def test_every_format_prints_a_table(self):
        for path in FOLDERS + GGUFS:
            out = self.ok("inspect", path, "--memory", "24GiB")
            for word in ("parameters", "bytes per token", "decode at context", "batch 8"):
                self.assertIn(word, out)

    def test_bad_memory(self):
        self.fails(2, "inspect", "--memory", "lots", mentions=["--memory", "lots"])


class BenchEngine(ProgramTest):
    ARGS = ("bench", "engine", "-m", "cub-1m", "--prompt", "16", "--gen", "4", "--batch", "1,3", "--repeat", "1")

    def test_json_has_results_and_provenance(self):
        result = self.ok_json(*self.ARGS, "--json", "-")
        self.assertEqual((result["schema_version"], result["kind"]), (1, "bench-engine"))
        for key in ("cpu", "simd", "threads", "compiler", "commit", "date"):
            self.assertTrue(result["provenance"][key], key)
        self.assertGreater(result["prompt"]["tokens_per_second"], 0)
        self.assertEqual([row["batch"] for row in result["decode"]], [1, 3])
        for row in result["decode"]:
            self.assertGreater(row["tokens_per_second"], 0)
            self.assertGreater(row["bandwidth_ceiling_share"], 0)

    def test_table_and_file(self):
        with tempfile.TemporaryDirectory() as folder:
            out = self.ok(*self.ARGS, "--json", f"{folder}/bench.json")
            self.assertIn("decode, batch 3", out)
            with open(f"{folder}/bench.json") as file:
                self.assertEqual(json.load(file)["schema_version"], 1)

    def test_mistakes(self):
        self.fails(2, "bench", "engine", "-m", "random:llama-9t", mentions=["llama-134m"])
        self.fails(2, "bench", "engine", "--batch", "1,x", mentions=["--batch"])
        self.fails(2, "bench", "engine", "--prompt", "4k", mentions=["1024"])
        self.fails(1, *self.ARGS, "--json", "/no/such/folder/x.json", mentions=["/no/such/folder/x.json"])


if __name__ == "__main__":
    unittest.main()

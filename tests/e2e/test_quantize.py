#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""eval and quantize, through the real binary."""
import json
import pathlib
import tempfile
import unittest

from program import MODELS, ProgramTest, run

CUB = MODELS / "cub-1m"


class Eval(ProgramTest):
    def test_perplexity_of_the_held_out_text_beside_a_model(self):
        result = self.ok_json("eval", CUB, "--limit", "8", "--json")["evaluation"]
        self.assertEqual(result["tokens"], 8 * 511)
        self.assertLess(result["perplexity"]["low"], result["perplexity"]["mean"])
        self.assertLess(result["perplexity"]["mean"], result["perplexity"]["high"])
        self.assertNotIn("kl", result)

    def test_rounded_weights_diverge_and_the_gate_says_so(self):
        arguments = ("eval", CUB, "--dtype", "q4_0", "--against", CUB, "--limit", "4")
        result = self.ok_json(*arguments, "--json")
        self.assertGreater(result["evaluation"]["kl"]["mean"], 0)
        self.assertLess(result["evaluation"]["top1_agreement"]["mean"], 1)
        missed = run(*arguments, "--max-kl", "1e-9")
        self.assertEqual(missed.returncode, 1)
        self.assertIn("MISS", missed.out)

    def test_an_interrupted_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            state = pathlib.Path(folder) / "state"
            arguments = ("eval", CUB, "--limit", "4", "--json", "--state", state)
            whole = self.ok_json(*arguments)
            lines = state.read_text().splitlines(keepends=True)
            state.write_text("".join(lines[:3]) + lines[3][:10])
            self.assertEqual(self.ok_json(*arguments)["evaluation"], whole["evaluation"])
            other = run("eval", CUB, "--window", "100", "--state", state)
            self.assertEqual(other.returncode, 1)
            self.assertIn("another evaluation", other.err)

    def test_multiple_choice(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "questions.jsonl"
            path.write_text("".join(json.dumps(q) + "\n" for q in (
                {"prompt": "Once upon a", "choices": ["time", "xylophone zebra"], "answer": 0},
                {"prompt": "Once upon a", "choices": ["quartz", "time"], "answer": "B"})))
            result = self.ok_json("eval", CUB, "--against", CUB, "--data", path, "--json")["evaluation"]
            self.assertEqual((result["questions"], result["accuracy"]["mean"], result["answers_agree"]["mean"]), (2, 1, 1))

    def test_mistakes_are_one_sentence(self):
        for arguments, words in (((CUB, "--max-kl", "1"), "--against"), ((CUB, "--window", "4096"), "positions"),
                                 ((CUB, "--data", "no-such-file"), "no-such-file")):
            done = run("eval", *arguments)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(words, done.err)
            self.assertEqual(len(done.err.strip().splitlines()), 1)


class Quantize(ProgramTest):
    def test_the_result_runs_and_carries_its_evaluation(self):
        with tempfile.TemporaryDirectory() as folder:
            for to, name in (("q4_0", "cub.gguf"), ("int4", "cub-int4"), ("fp8-block", "cub-fp8")):
                out = pathlib.Path(folder) / name
                result = self.ok_json("quantize", CUB, "--to", to, "--out", out, "--limit", "2", "--json")
                self.assertLess(result["gate"]["evaluation"]["kl"]["mean"], 0.3)
                self.assertEqual(len(result["gate"]["weights_sha256"]), 64)
                again = self.ok_json("eval", out, "--against", CUB, "--data", CUB / "heldout.u16", "--limit", "2", "--json")
                self.assertEqual(again["evaluation"]["kl"], result["gate"]["evaluation"]["kl"])
                self.assertTrue(self.ok("generate", "-m", out, "-p", "Once upon a time", "--max-tokens", "8").strip())
            self.assertFalse(list(pathlib.Path(folder).glob("*.partial*")))

    def test_beyond_the_gate_is_exit_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            done = run("quantize", CUB, "--to", "int4", "--out", out, "--limit", "2", "--max-kl", "1e-9")
            self.assertEqual(done.returncode, 1)
            self.assertIn("marked as failed", done.err)
            self.assertFalse(json.loads((out / "cheetah_evaluation.json").read_text())["passed"])

    def test_mistakes_are_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            for arguments, words in ((("--to", "int5", "--out", out), "known:"), (("--to", "q4_0", "--out", out), ".gguf"),
                                     (("--to", "int4", "--out", out, "--group", "48"), "--group 48"),
                                     (("--to", "int4", "--out", out, "--calibration", "x"), "--calibration"),
                                     (("--to", "int4", "--out", out / "deep"), "missing")):
                done = run("quantize", CUB, *arguments)
                self.assertIn(done.returncode, (1, 2))
                self.assertIn(words, done.err)
                self.assertEqual(len(done.err.strip().splitlines()), 1)

    def test_damaged_files_are_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            self.ok("quantize", CUB, "--to", "rtn-int4", "--out", out, "--limit", "1")
            config = json.loads((out / "config.json").read_text())
            for change, words in (({"quant_method": "awq", "version": "gemm"}, "does not fit"),
                                  ({"quant_method": "nonsense"}, "quant_method"), ({"bits": 5}, "bits")):
                damaged = dict(config, quantization_config=dict(config["quantization_config"], **change))
                (out / "config.json").write_text(json.dumps(damaged))
                done = run("generate", "-m", out, "-p", "x", "--max-tokens", "1")
                self.assertEqual(done.returncode, 1)
                self.assertIn(words, done.err)
                self.assertEqual(len(done.err.strip().splitlines()), 1)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cheetah lab: every CPU variant is right, results go to JSON, history and page, and runs are compared. No times are judged."""
import copy
import json
import pathlib
import tempfile
import unittest

from program import SOURCE, ProgramTest, run

FIXTURE = SOURCE / "tests" / "lab" / "run.json"


class LabTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, value):
        path = self.folder / name
        path.write_text(json.dumps(value))
        return path

    def test_every_variant_of_every_cpu_experiment_is_right(self):
        done = run("lab", "run", "cpu/*", "--quick", "--check-only", "--json", "-", timeout=280)
        result = json.loads(done.out)
        wrong = [(e["id"], v) for e in result["experiments"] for s in e["sizes"] for v in s["variants"]
                 if v["verdict"] == "wrong"]
        self.assertEqual(wrong, [])
        self.assertEqual(done.returncode, 0, done.err)
        self.assertGreaterEqual(len(result["experiments"]), 20)

    def test_a_run_is_kept_shown_and_drawn(self):
        history, page = self.folder / "lab.sqlite", self.folder / "lab.html"
        keep = ["--history", history]
        result = self.ok_json("lab", "run", "cpu/simd-width", "--quick", "--json", "-", "--report", page, *keep)
        self.assertIn("hardware", result["provenance"])
        verdicts = {v["name"]: v["verdict"] for v in result["experiments"][0]["sizes"][0]["variants"]}
        self.assertNotIn("wrong", verdicts.values())
        self.assertIn("cpu/simd-width", self.ok("lab", "show", *keep))
        self.assertIn("1 float", self.ok("lab", "history", "cpu/simd-width", *keep))
        self.assertIn(result["provenance"]["hardware"], self.ok("lab", "history", *keep))
        self.assertIn("<figure data-chart=", page.read_text())
        self.ok("lab", "compare", "1", "last", *keep)

    def test_the_gate_fails_on_a_regression_alone(self):
        before = json.loads(FIXTURE.read_text())
        slower = copy.deepcopy(before)
        for size in slower["experiments"][0]["sizes"]:
            size["variants"][1]["median_s"] *= 1.3
        old, bad = self.write("old.json", before), self.write("bad.json", slower)
        self.assertEqual(run("lab", "compare", old, old, "--fail-on", "5%").returncode, 0)
        done = run("lab", "compare", old, bad, "--fail-on", "5%")
        self.assertEqual(done.returncode, 1)
        self.assertIn("SLOWER", done.out)
        self.assertEqual(run("lab", "compare", old, bad, "--fail-on", "50%").returncode, 0)
        self.assertEqual(run("lab", "compare", old, f"{bad},{old}", "--fail-on", "5%").returncode, 0, "not sustained")

    def test_other_hardware_is_not_compared(self):
        other = json.loads(FIXTURE.read_text())
        other["provenance"]["hardware"] = "another machine"
        self.fails(1, "lab", "compare", FIXTURE, self.write("other.json", other), mentions=["different hardware"])

    def test_mistakes_are_named(self):
        self.fails(2, "lab", "run", "moon/*", mentions=["moon/*"])
        self.fails(2, "lab", "compare", FIXTURE, FIXTURE, "--fail-on", "much", mentions=["much"])
        self.fails(1, "lab", "show", "--history", self.folder / "none.sqlite", mentions=["no run"])
        self.fails(1, "lab", "report", self.write("no.json", {}), "-o", self.folder / "x.html", mentions=["provenance"])

    def test_the_list_names_every_experiment(self):
        listed = self.ok_json("lab", "list", "--json", "-")
        self.assertEqual(len({e["id"] for e in listed}), len(listed))
        for experiment in listed:
            self.assertTrue(experiment["question"].endswith("?"), experiment["id"])
            self.assertGreaterEqual(len(experiment["variants"]), 2, experiment["id"])


if __name__ == "__main__":
    unittest.main()

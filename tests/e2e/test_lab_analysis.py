#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The lab's calculators as a person uses them."""
import json
import pathlib
import tempfile
import unittest

from program import ProgramTest

WASTE = {"dram_pct": 25, "load_efficiency_pct": 50, "sectors_per_request": 8, "lane_bytes": 4, "duration_us": 40}
CLEAN = {"dram_pct": 90, "load_efficiency_pct": 100, "sectors_per_request": 4, "lane_bytes": 4, "duration_us": 12}
PTXAS = """ptxas info    : Compiling entry function '_Z4axpyPf' for 'sm_90a'
ptxas info    : Function properties for _Z4axpyPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 1024 bytes smem
"""


class LabAnalysis(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def counters(self, name, values):
        return self.file(name, {"kernels": [{"name": "copy", "counters": values}]})

    def test_occupancy(self):
        found = self.ok_json("lab", "occupancy", "--arch", "9.0", "--threads", "256", "--registers", "40", "--json")
        self.assertEqual(found["occupancy"]["blocks"], 6)
        self.assertEqual(found["occupancy"]["limiters"], ["registers"])
        self.assertIn("75 %", self.ok("lab", "occupancy", "--arch", "sm_90a", "--registers", "40"))
        self.fails(2, "lab", "occupancy", "--arch", "7.0", mentions=["9.0"])
        self.fails(2, "lab", "occupancy", "--threads", "many", mentions=["--threads"])

    def test_access(self):
        found = self.ok_json("lab", "access", "--stride", "32", "--json")
        self.assertEqual(found["global"]["sectors"], 32)
        self.assertEqual(found["shared"]["degree"], 32)
        self.assertEqual(found["shared"]["cures"][0]["pad_bytes"], 4)
        self.assertEqual(self.ok_json("lab", "access", "--pattern", "lane ^ 1", "--json")["global"]["sectors"], 4)
        self.assertIn("misaligned", self.ok("lab", "access", "--offset", "4", "--memory", "global"))
        self.fails(2, "lab", "access", "--pattern", "lane +", mentions=["character 7"])
        self.fails(2, "lab", "access", "--addresses", "0,x", mentions=["x"])

    def test_diagnose(self):
        before, after = self.counters("before.json", WASTE), self.counters("after.json", CLEAN)
        self.assertEqual(self.ok_json("lab", "diagnose", before, "--json")["kernels"][0]["primary"], "M1")
        kernel = self.ok_json("lab", "diagnose", after, "--before", before, "--json")["kernels"][0]
        self.assertEqual(kernel["regime"], "bandwidth")
        self.assertEqual(kernel["comparison"]["cleared"], ["M1"])
        self.assertIn("it worked", self.ok("lab", "diagnose", after, "--before", before))
        table = self.file("ncu.csv", '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
                                     '"0","k","DRAM Throughput","%","91"\n')
        self.assertIn("regime: bandwidth", self.ok("lab", "diagnose", table))
        self.fails(1, "lab", "diagnose", self.file("x", "==ERROR== ERR_NVGPUCTRPERM"), mentions=["root"])
        self.fails(1, "lab", "diagnose", self.counters("typo.json", {"dram": 1}), mentions=["dram"])
        self.fails(2, "lab", "diagnose", mentions=["FILE"])

    def test_sass(self):
        report = self.file("report.txt", PTXAS)
        kernel = self.ok_json("lab", "sass", report, "--json", "--expect", "no-spills")["kernels"][0]
        self.assertEqual((kernel["registers"], kernel["shared_bytes"]), (14, 1024))
        self.fails(1, "lab", "sass", self.file("empty", "nothing"), mentions=["no kernel"])
        self.fails(2, "lab", "sass", report, "--expect", "speed", mentions=["--expect"])

    def test_roofline(self):
        roofs = self.file("roofs.json", {"memory": {"dram": 4e12}, "math": {"fp32": 8e13, "bf16": 8e14}})
        point = "name=add,flops=1e9,bytes=12e9,us=4000"
        found = self.ok_json("lab", "roofline", "--roofs", roofs, "--point", point, "--json")["points"][0]
        self.assertEqual(found["limit"], "dram bandwidth")
        self.assertAlmostEqual(found["headroom"], 4 / 3, 6)
        self.ok("lab", "roofline", "--roofs", roofs, "--point", point, "--svg", self.folder / "plot.svg")
        self.assertIn("<svg", (self.folder / "plot.svg").read_text())
        self.assertIn("these were not measured", self.ok("lab", "roofline", "--card", "h200"))
        self.fails(2, "lab", "roofline", "--history", self.folder / "none", mentions=["--roofs"])
        self.fails(1, "lab", "roofline", "7", "--history", self.folder / "none", mentions=["no run"])
        self.fails(2, "lab", "roofline", "--card", "h200", "--point", "bytes=1", mentions=["flops"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""A short version of scripts/cluster_storm.py: routers and workers die under load, and no client that resumes misses anything."""
import sys
import types
import unittest

from program import PROGRAM, SOURCE, run

sys.path.insert(0, str(SOURCE / "scripts"))
from cluster_storm import storm  # noqa: E402


@unittest.skipUnless(run("cluster", "--help").returncode == 0, "this program has no cluster")
class Storm(unittest.TestCase):
    def test_no_stream_is_wrong_or_cut(self):
        told = []
        result = storm(types.SimpleNamespace(requests=300, faults=20, rounds=1, clients=6, seed=5, most_workers=2, program=PROGRAM, out=""), told.append)
        self.assertEqual((result["requests"], result["wrong"], result["cut"]), (300, 0, 0), told)
        self.assertGreaterEqual(result["faults"], 10)


if __name__ == "__main__":
    unittest.main()

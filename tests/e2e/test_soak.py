#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A short version of scripts/soak.py: hundreds of clients that misbehave, and nothing left behind."""
import sys
import unittest

from program import SOURCE

sys.path.insert(0, str(SOURCE / "scripts"))
from soak import soak  # noqa: E402


class Soak(unittest.TestCase):
    def test_nothing_is_left_of_clients_that_misbehave(self):
        soak(requests=600, concurrency=24, seed=7, say=lambda text: None)


if __name__ == "__main__":
    unittest.main()

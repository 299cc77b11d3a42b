# SPDX-License-Identifier: MIT
"""Runs the built program as a person would: arguments and standard input in; exit code and text out."""
import json
import os
import pathlib
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("CHEETAH", str(SOURCE / "build" / "cheetah"))
MODELS = SOURCE / "models"
REFERENCES = SOURCE / "tests" / "models"
os.environ.setdefault("CHEETAH_THREADS", "1")  # tests run side by side; one thread each shares the machine best


def run(*args, stdin=b"", timeout=120, **options):
    """The finished process; stdout and stderr are bytes decoded as UTF-8 with replacement."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    done = subprocess.run([PROGRAM, *map(os.fspath, args)], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout, check=False, **options)
    done.out = done.stdout.decode("utf-8", "replace")
    done.err = done.stderr.decode("utf-8", "replace")
    return done


class ProgramTest(unittest.TestCase):
    def ok(self, *args, **options):
        done = run(*args, **options)
        self.assertEqual(done.returncode, 0, f"{args}: {done.err}")
        return done.out

    def ok_json(self, *args, **options):
        return json.loads(self.ok(*args, **options))

    def fails(self, code, *args, mentions=(), **options):
        """The program refuses with one sentence on stderr and nothing on stdout."""
        done = run(*args, **options)
        self.assertEqual(done.returncode, code, f"{args}: {done.out} {done.err}")
        self.assertEqual(done.out, "", args)
        self.assertTrue(done.err.startswith("cheetah: error: "), f"{args}: {done.err}")
        self.assertEqual(done.err.count("\n"), 1, f"{args}: {done.err}")
        for text in mentions:
            self.assertIn(text, done.err, args)
        return done.err

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Help, version, usage mistakes, broken pipes, signals: what holds for every command."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from program import PROGRAM, ProgramTest, run

COMMANDS = ["generate", "chat", "verify", "inspect", "tokenize", "render", "bench", "doctor"]


class Help(ProgramTest):
    def test_version_tells_commit_compiler_simd_and_cuda(self):
        out = self.ok("--version")
        for word in ("cheetah ", "compiler", "simd", "(chosen)", "cuda"):
            self.assertIn(word, out)

    def test_help_lists_every_command_and_each_has_examples(self):
        out = self.ok("--help")
        for command in COMMANDS:
            self.assertRegex(out, rf"(?m)^\s+{command}\b")
            args = [command, "engine"] if command == "bench" else [command]
            self.assertIn("Examples:", self.ok(*args, "--help"), command)

    def test_no_command_shows_the_short_help_as_a_mistake(self):
        for args in ((), ("bench",)):
            done = run(*args)
            self.assertEqual((done.returncode, done.out), (2, ""))
            self.assertIn("--help", done.err)


class Mistakes(ProgramTest):
    def test_unknown_command_suggests_the_nearest(self):
        self.fails(2, "tokenise", mentions=["tokenise", "'tokenize'"])
        self.fails(2, "xyzzy", mentions=["xyzzy"])

    def test_unknown_flag_is_named_with_a_suggestion(self):
        self.fails(2, "generate", "--promt", "x", mentions=["--promt", "'--prompt'"])
        self.fails(2, "--prot", "8000", mentions=["--prot"])

    def test_flag_without_value_and_value_for_a_switch(self):
        self.fails(2, "generate", "--prompt", mentions=["--prompt"])
        self.fails(2, "tokenize", "--json=maybe", mentions=["--json"])

    def test_numbers_out_of_range(self):
        for value in ("0", "100000", "-1", "many", "2.5"):
            self.fails(2, "generate", "-p", "x", "--threads", value, mentions=["--threads"])
        for flag, value in (("--temperature", "nan"), ("--top-p", "1.5"), ("--min-p", "-1"), ("-n", "x"),
                            ("--top-k", "-3"), ("--repetition-penalty", "0"), ("--seed", "x")):
            self.fails(2, "generate", "-p", "x", flag, value, mentions=[flag.lstrip("-")[:5]])

    def test_each_says_what_was_expected_and_what_to_do(self):
        for code, args, mentions in (
                (2, ("generate", "-p", "x", "-n", "-1"), ["--max-tokens: '-1' is not a whole number"]),
                (2, ("bench", "serve", "--rate", "0"), ["--rate: '0' is not a number from 0.001"]),
                (2, ("lab", "run"), ["name an experiment, e.g. 'cpu/*'"]),
                (2, ("serve", "--api-key", "abc"), ["--api-key-file"]),
                (1, ("generate", "-p", "x", "-m", "cub7m"), ["did you mean cub-7m?", "'cheetah list'"]),
                (1, ("generate", "-p", "x", "-m", "acme/none"), ["'cheetah pull acme/none'"]),
                (1, ("serve", "--port", "0", "--tls-cert", "no.pem", "--tls-key", "no.pem"), ["no.pem: no such file"]),
                (2, ("serve", "--config", "/no/file.toml"), ["--config: /no/file.toml: No such file"]),
                (1, ("verify", __file__), ["expected a model folder or a .gguf file"]),
                (1, ("verify", "random:llama-134m"), ["random weights have no reference"]),
                (2, ("inspect", "--memory", "24"), ["'24' is 24 bytes", "24GiB"]),
                (1, ("tokenize", "-m", "random:llama-134m"), ["random weights come without a tokenizer"]),
                (2, ("generate", "-p", "x", "--system", "y"), ["--system needs --chat"]),
        ):
            with self.subTest(" ".join(args)):
                self.fails(code, *args, mentions=mentions)
        self.assertIn("GPU-12", self.ok("doctor", "explain", "gpu-12"))
        for size, words in (("1KiB", "--kv-memory: 1.0 KiB is smaller than one page"), ("9000TiB", "are free")):
            done = run("serve", "--port", "0", "--kv-memory", size)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.err)

    def test_environment_value_that_is_not_a_number(self):
        env = dict(os.environ, CHEETAH_THREADS="many")
        self.fails(2, "generate", "-p", "x", env=env, mentions=["threads"])

    def test_unknown_device_lists_the_known_ones(self):
        self.fails(2, "generate", "-p", "x", "--device", "tpu", mentions=["--device", "cuda", "cpu", "auto"])

    def test_cuda_without_a_device_says_why_and_auto_takes_the_cpu(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("this machine has a device")
        for args in (("generate", "-p", "x"), ("verify",), ("inspect",), ("bench", "engine")):
            self.fails(1, *args, "--device", "cuda", mentions=["--device cuda"])
        self.assertIn('"device":"CPU"', self.ok("generate", "-p", "Once", "-n", "2", "--json").replace(" ", ""))

    def test_unknown_dtype_lists_the_known_ones(self):
        self.fails(2, "generate", "-p", "x", "--dtype", "fp3", mentions=["fp3", "q8_0", "bf16"])

    def test_escape_characters_and_bad_utf8_are_escaped_in_messages(self):
        for name in (b"\x1b[31mred", b"\xff\xfe"):
            done = run("generate", "-p", "x", "-m", name)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn(b"\x1b", done.stderr)
            done.stderr.decode("utf-8")


class Paths(ProgramTest):
    def test_model_paths_that_are_no_models(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            os.mkdir(f"{folder}/empty")
            open(f"{folder}/zero.gguf", "wb").close()
            for path in ("missing", f"{folder}/missing", f"{folder}/fifo", f"{folder}/empty", f"{folder}/zero.gguf",
                         "/dev/zero", "/etc"):
                for command in (["generate", "-p", "x"], ["tokenize"], ["inspect"], ["verify"]):
                    self.fails(1, *command, path, timeout=20)

    def test_a_name_that_is_not_found_tells_where_it_looked(self):
        env = dict(os.environ, CHEETAH_MODELS="/some/where")
        self.fails(1, "inspect", "no-such-model", env=env, mentions=["/some/where", "CHEETAH_MODELS"])


class Streams(ProgramTest):
    def test_a_reader_that_leaves_is_no_error(self):
        process = subprocess.Popen([PROGRAM, "generate", "-p", "Once", "-n", "400", "--ignore-eos"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(30), err), (0, b""))

    def test_closed_standard_files(self):
        done = subprocess.run(f"'{PROGRAM}' --version >&-; echo $?", shell=True, capture_output=True, check=False)
        self.assertEqual(done.stdout, b"0\n")
        done = subprocess.run(f"'{PROGRAM}' tokenize <&-", shell=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "--version"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left", done.stderr)

    def test_no_colour_codes_outside_a_terminal(self):
        self.assertNotIn("\x1b", self.ok("--help") + self.ok("inspect"))

    def test_works_without_term_and_in_any_locale(self):
        env = {"PATH": os.environ["PATH"], "LC_ALL": "en_US.ISO-8859-1"}
        self.assertRegex(self.ok("tokenize", stdin="Zoë", env=env), r"^\d")


class Results(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.old = f"{folder.name}/r.json"
        self.folder = folder.name
        with open(self.old, "w", encoding="utf-8") as file:
            file.write("old")

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_a_command_that_fails_leaves_the_old_result(self):
        for args in (("bench", "engine", "-m", "/no/model", "--json"), ("bench", "serve", "--url", "127.0.0.1:1", "--rate", "1", "--json"),
                     ("bench", "serve", "--url", "127.0.0.1:1", "--rate", "1", "--html"),
                     ("bench", "engine", "--scenario", "streams", "-m", "/no/model", "--json")):
            self.fails(1, *args, self.old)
            self.assertEqual(self.read(self.old), "old", args)
            self.assertEqual(os.listdir(self.folder), ["r.json"], args)

    def test_a_path_that_cannot_be_written_costs_no_measurement(self):
        start = time.monotonic()
        self.fails(1, "bench", "engine", "-m", "random:llama-8b", "--json", f"{self.folder}/no/r.json", mentions=["no/r.json"])
        self.assertLess(time.monotonic() - start, 20)

    def test_ctrl_c_keeps_the_experiments_that_were_run(self):
        history = f"{self.folder}/lab.sqlite"
        process = subprocess.Popen([PROGRAM, "lab", "run", "cpu/*", "--quick", "--json", self.old, "--history", history],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=250)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"interrupted", err)
        self.assertGreaterEqual(len(json.loads(self.read(self.old))["experiments"]), 1, first + out)
        self.assertIn("cpu/", self.ok("lab", "show", "--history", history))

    def test_reading_a_history_makes_none(self):
        path = f"{self.folder}/deep/lab.sqlite"
        for args in (("lab", "show"), ("lab", "history"), ("lab", "report", "-o", f"{self.folder}/page.html")):
            self.fails(1, *args, "--history", path, mentions=["no run is kept yet"])
        self.assertFalse(os.path.exists(f"{self.folder}/deep"))
        env = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_DATA_HOME")}
        self.fails(2, "lab", "history", env=env, cwd=self.folder, mentions=["--history", "HOME"])
        self.assertEqual(os.listdir(self.folder), ["r.json"])


class Interrupts(ProgramTest):
    def interrupted(self, *args, wait_for_output):
        process = subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        if wait_for_output:
            process.stdout.read(1)
        else:
            time.sleep(0.05)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertLess(time.monotonic() - start, 5)
        return process.returncode

    def test_ctrl_c_ends_with_130(self):
        generating = ("generate", "-p", "Once", "-n", "900", "--ignore-eos", "--temperature", "0")
        self.assertEqual(self.interrupted(*generating, wait_for_output=True), 130)
        # Before the handler is installed the signal itself ends the process.
        loading = ("bench", "engine", "--model", "random:llama-134m", "--dtype", "f32")
        self.assertIn(self.interrupted(*loading, wait_for_output=False), (130, -signal.SIGINT))


if __name__ == "__main__":
    unittest.main()

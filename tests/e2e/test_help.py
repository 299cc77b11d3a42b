#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every page of help: width, examples, topics, search, and the names other programs use."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata
import unittest

from fake_openai import FakeServer
from program import PROGRAM, SOURCE, ProgramTest, run


def columns_of(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def on_terminal(columns, *args):
    """What the program shows on a terminal of this width."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    process = subprocess.Popen([PROGRAM, *args], stdin=side, stdout=side, stderr=side, env=dict(env, TERM="xterm", NO_COLOR="1"))
    os.close(side)
    shown = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(main)
    process.wait(60)
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")


class HelpTest(ProgramTest):
    def page(self, command, columns=80):
        return self.ok(*command, "--help", env=dict(os.environ, COLUMNS=str(columns)))

    def below(self, command):
        match = re.search(r"\nCommands:\n((?:  .*\n)+)", self.page(command))
        return [[*command, name] for name in re.findall(r"(?m)^  ([a-z][a-z-]*)", match.group(1))] if match else []

    def all_commands(self):
        found, open_ = [], [[]]
        while open_:
            command = open_.pop()
            found.append(command)
            open_ += self.below(command)
        return found


class Pages(HelpTest):
    def test_every_page_fits_80_columns_uses_200_and_has_examples_of_its_own(self):
        commands = self.all_commands()
        self.assertGreater(len(commands), 30, commands)
        for command in commands:
            narrow, wide = self.page(command), self.page(command, 200)
            for line in narrow.splitlines():
                self.assertLessEqual(columns_of(line), 80, f"{command}: {line}")
            self.assertLessEqual(len(wide.splitlines()), len(narrow.splitlines()), command)
            self.assertTrue(narrow.endswith("\n") and not narrow.endswith("\n\n\n"), command)
            if command:
                self.assertIn("Examples:", narrow, command)
                self.assertIn("cheetah " + " ".join(command), narrow.split("Examples:")[1], f"{command}: examples of another command")
        self.assertTrue(any(columns_of(line) > 100 for line in self.page(["serve"], 200).splitlines()))

    def test_pages_speak_our_words(self):
        for command in self.all_commands():
            page = self.page(command)
            for word in ("Excludes", "Needs", "REQUIRED", "(1x)", "(2x)", "FLOAT", "UINT", "[OPTIONS]", "SUBCOMMAND", "TEXT:{", "INT in"):
                self.assertNotIn(word, page, command)

    def test_a_terminals_width_is_used(self):
        for columns in (60, 80, 132):
            for args in (("serve", "--help"), ("help", "models"), ("inspect",)):
                for line in on_terminal(columns, *args).splitlines():
                    self.assertLessEqual(columns_of(line), columns, f"{args} {columns}: {line}")

    def test_long_pages_are_grouped(self):
        page = self.page(["serve"])
        headings = re.findall(r"(?m)^(\S.*):$", page)
        for heading in ("Model", "Memory and batching", "Address and access", "Cluster"):
            self.assertIn(heading, headings)
        self.assertIn("16MiB", page)
        self.assertNotIn("16777216", page)

    def test_values_and_defaults_are_told(self):
        page = self.page(["cluster", "up"])
        for text in ("--prefill N", "[1]", "--port N"):
            self.assertIn(text, page)
        self.assertIn("--device auto|cuda|cpu", self.page(["generate"]))


class Progress(ProgramTest):
    def test_a_line_that_is_redrawn_is_not_wider_than_the_terminal(self):
        with FakeServer(ttft=0.2) as server:
            shown = on_terminal(80, "bench", "serve", "--url", server.url, "--rate", "20", "--duration", "2", "--output-tokens", "4",
                                "--slo-ttft", "500")
        drawn = re.findall(r"\r\x1b\[K([^\r\n\x1b]+)", shown)
        self.assertTrue(drawn, shown)
        for line in drawn:
            self.assertLess(columns_of(line), 80, line)
        for line in re.sub(r"\r\x1b\[K[^\r\n\x1b]*", "", shown).splitlines():
            self.assertLessEqual(columns_of(line), 80, line)


class HelpCommand(HelpTest):
    def test_it_shows_the_same_page(self):
        self.assertEqual(self.ok("help"), self.ok("--help"))
        self.assertEqual(self.ok("help", "bench", "serve"), self.ok("bench", "serve", "--help"))

    def test_topics(self):
        for topic, word in (("models", "ORG/NAME:Q8_0"), ("exit-codes", "130"), ("environment", "HF_TOKEN"), ("numbers", "32,768"),
                            ("output", "--json")):
            self.assertIn(word, self.ok("help", topic), topic)

    def test_search_finds_flags_commands_and_topics(self):
        out = self.ok("help", "--search", "prefix")
        self.assertIn("cheetah serve --no-prefix-cache", out)
        self.assertIn("cheetah bench serve --prefix-tokens", out)
        self.assertIn("cheetah help environment", self.ok("help", "-s", "Variables"))
        self.fails(1, "help", "--search", "xyzzy", mentions=["xyzzy"])

    def test_a_wrong_topic_names_the_nearest(self):
        self.fails(2, "help", "modles", mentions=["'models'", "--search"])
        self.fails(2, "help", "bench", "srve", mentions=["'serve'"])

    def test_version(self):
        self.assertEqual(self.ok("-V"), self.ok("--version"))


class Words(HelpTest):
    def test_mistakes_are_told_in_our_words(self):
        for args, mentions in ((("bench", "serve", "--rate", "0"), ["--rate: '0' is not a number from 0.001"]),
                               (("lab", "run"), ["name an experiment"]), (("cluster", "status"), ["--cluster is missing"]),
                               (("generate", "-n", "-1"), ["error: --max-tokens: '-1'"]), (("generate", "--prompt"), ["--prompt: its value is missing"]),
                               (("generate", "--device", "tpu"), ["'tpu' is not one of auto,cuda,cpu"]),
                               (("serve", "--api-key-fil", "x"), ["--api-key-file"])):
            self.fails(2, *args, mentions=mentions)

    def test_flags_of_other_programs_are_accepted_or_answered_as_the_guide_says(self):
        guide = (SOURCE / "docs" / "coming-from.md").read_text()
        rows = re.findall(r"(?m)^\| `(--?[\w-]+)`[^|]* \| (.*) \|$", guide)
        self.assertGreater(len(rows), 40)
        for flag, here in rows:
            err = run("serve", flag, "1", "--port", "x").err
            if here.startswith("the same"):
                self.assertNotIn("unknown flag", err, flag)
            else:
                self.assertIn(f"unknown flag '{flag}': ", err, flag)

    def test_underscores_are_dashes(self):
        self.assertNotIn("unknown", run("serve", "--max_model_len", "64", "--port", "x").err)


if __name__ == "__main__":
    unittest.main()

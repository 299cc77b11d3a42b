#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Completion in real shells, and manual pages as man shows them."""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile
import time
import unittest

from program import PROGRAM, ProgramTest


class Completion(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "cheetah").symlink_to(PROGRAM)
        self.env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "HOME": folder.name, "TERM": "dumb", "LC_ALL": "C.UTF-8"}

    def script(self, shell, name):
        path = self.folder / name
        path.write_text(self.ok("completion", shell))
        return path

    def shell(self, *command):
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def bash(self, line):
        script = self.script("bash", "cheetah.bash")
        words = line.split(" ")
        array = " ".join(f"'{word}'" for word in words)
        return self.shell("bash", "--norc", "-c", f"source {script}; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _cheetah; "
                          'printf "%s\\n" "${COMPREPLY[@]}"')

    def test_bash(self):
        if not shutil.which("bash"):
            self.skipTest("no bash")
        self.assertEqual(self.bash("cheetah ser"), ["serve"])
        self.assertEqual(self.bash("cheetah bench serve --slo-t"), ["--slo-ttft", "--slo-tpot"])
        self.assertEqual(self.bash("cheetah serve --device c"), ["cuda", "cpu"])
        self.assertEqual(self.bash("cheetah lab h"), ["history"])
        (self.folder / "model.gguf").write_text("")
        self.assertIn("model.gguf", self.bash("cheetah chat mod"))

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("no fish")
        script = self.script("fish", "cheetah.fish")

        def fish(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], env=self.env, cwd=self.folder,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [each.split("\t")[0] for each in done.stdout.splitlines()]

        self.assertIn("serve", fish("cheetah ser"))
        self.assertEqual(fish("cheetah bench serve --slo-t"), ["--slo-tpot", "--slo-ttft"])
        self.assertEqual(sorted(fish("cheetah serve --device c")), ["cpu", "cuda"])
        self.assertIn("history", fish("cheetah lab h"))

    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        functions = self.folder / "functions"
        functions.mkdir()
        (functions / "_cheetah").write_text(self.ok("completion", "zsh"))
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], dict(self.env, TERM="xterm", PS1="", ZDOTDIR=str(self.folder)))
        self.addCleanup(os.close, fd)

        def until(text, seconds=30):
            seen, end = b"", time.monotonic() + seconds
            while text not in seen:
                ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
                self.assertTrue(ready, f"{text!r} did not come after {seen!r}")
                seen += os.read(fd, 4096)
            return seen

        os.write(fd, f"unsetopt zle_bracketed_paste; fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; "
                     "echo read''y\n".encode())
        until(b"ready")
        for typed, completed in (("cheetah ser", b"cheetah serve"), ("cheetah bench serve --slo-tp", b"--slo-tpot"),
                                 ("cheetah serve --device cu", b"--device cuda"), ("cheetah lab hi", b"cheetah lab history")):
            os.write(fd, typed.encode() + b"\t")
            time.sleep(0.5)
            os.write(fd, b"\x01echo '[\x05]'\n")
            self.assertIn(completed, until(b"]\r\n"), typed)
        os.write(fd, b"exit\n")
        os.waitpid(pid, 0)

    def test_manual_pages(self):
        self.ok("man", "--dir", self.folder / "man")
        pages = sorted(path.name for path in (self.folder / "man").iterdir())
        for name in ("cheetah.1", "cheetah-serve.1", "cheetah-bench-serve.1", "cheetah-pull.1"):
            self.assertIn(name, pages)
        self.assertIn(".SH SYNOPSIS", self.ok("man", "serve"))
        self.fails(2, "man", "nothing", mentions=["nothing"])
        if shutil.which("man"):
            for name in pages:
                done = subprocess.run(["man", "--warnings", "-l", str(self.folder / "man" / name)], env=dict(self.env, MANWIDTH="80"),
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                self.assertIn("NAME", done.stdout)

    def test_version_is_a_command_too(self):
        self.assertEqual(self.ok("version"), self.ok("--version"))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""chat through a pipe and on a pseudo-terminal."""
import json
import os
import tempfile
import pty
import select
import signal
import time
import unittest

from program import PROGRAM, ProgramTest, run

QUICK = ("--temperature", "0", "-n", "12")


class Piped(ProgramTest):
    def test_answers_each_line_without_prompts(self):
        out = self.ok("chat", *QUICK, stdin="Tell me a story.\nAnd then?\n")
        self.assertNotIn("> ", out)
        self.assertEqual(self.ok("chat", *QUICK, stdin="Tell me a story.\nAnd then?"), out)

    def test_ends_at_once_on_no_input(self):
        self.assertEqual(self.ok("chat", stdin=""), "")

    def test_commands(self):
        out = self.ok("chat", *QUICK, stdin="/help\n/system Be kind.\nHello\n/stats\n/reset\n/nonsense\n/quit\nnever read\n")
        for text in ("/reset", "tokens/s", "/nonsense is not a command"):
            self.assertIn(text, out)

    def test_reset_gives_the_first_answer_again(self):
        first = self.ok("chat", *QUICK, stdin="Hello\n")
        twice = self.ok("chat", *QUICK, stdin="Hello\n/reset\nHello\n")
        self.assertEqual(twice.count(first.strip()), 2, twice)

    def test_forgets_the_oldest_messages_when_the_context_is_full(self):
        done = run("chat", *QUICK, "-c", "64", stdin="Tell me about a small dog.\n" * 8)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("oldest", done.err)

    def test_a_conversation_is_saved_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/talk.json"
            whole = self.ok("chat", *QUICK, stdin="Hello\nAnd then?\n")
            self.ok("chat", *QUICK, "--system", "Be kind.", stdin=f"Hello\n/save {path}\n")
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
            self.assertEqual([m["role"] for m in saved["messages"]], ["system", "user", "assistant"])
            self.assertEqual(saved["model"], "cub-7m")
            saved["messages"].pop(0)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(saved, file)
            self.assertIn("2 messages", self.ok("chat", *QUICK, stdin=f"/load {path}\nAnd then?\n"))
            self.assertTrue(whole)
            for bad in ("[]", '{"messages":[{"role":"king","content":"x"}]}', '{"messages":[{"role":"user"}]}', "{"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(bad)
                done = run("chat", *QUICK, stdin=f"/load {path}\n")
                self.assertEqual((done.returncode, done.err.count("\n")), (1, 1), done.err)

    def test_another_model_takes_over(self):
        out = self.ok("chat", *QUICK, stdin="Hello\n/model cub-1m\nAnd then?\n/model\n")
        self.assertEqual(out.count("cub-1m"), 2)
        done = run("chat", *QUICK, stdin="/model no-such\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such", done.err)

    def test_a_message_that_cannot_fit_is_one_sentence(self):
        done = run("chat", *QUICK, "-c", "32", stdin="word " * 200)
        self.assertEqual(done.returncode, 1)
        self.assertIn("context holds 32", done.err)


class Terminal(ProgramTest):
    """A person at a terminal: types, reads, presses keys."""

    def start(self, *args):
        pid, fd = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(PROGRAM, [PROGRAM, "chat", *args])
        self.addCleanup(os.close, fd)
        return pid, fd

    def read_until(self, fd, text, seconds=20):
        seen = b""
        end = time.monotonic() + seconds
        while text not in seen:
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"{text!r} did not come after {seen!r}")
            try:
                seen += os.read(fd, 4096)
            except OSError:
                self.fail(f"the program ended: {seen!r}")
        return seen

    def exit_code(self, pid, fd, seconds=20):
        end = time.monotonic() + seconds
        while True:  # a pty's reader must drain it, or the writer waits
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                self.fail("the program did not end")
            try:
                if not os.read(fd, 4096):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_a_conversation(self):
        pid, fd = self.start(*QUICK)
        self.assertIn(b"cub-7m", self.read_until(fd, b"> "))
        os.write(fd, b"Hello\n")
        self.read_until(fd, b"> ")
        os.write(fd, b"/stats\n")
        self.read_until(fd, b"tokens/s")
        os.write(fd, b"/quit\n")
        self.assertEqual(self.exit_code(pid, fd), 0)

    def test_end_of_input_ends(self):
        pid, fd = self.start(*QUICK)
        self.read_until(fd, b"> ")
        os.write(fd, b"\x04")
        self.assertEqual(self.exit_code(pid, fd), 0)

    def test_a_typed_line_is_edited_and_comes_back(self):
        with tempfile.TemporaryDirectory() as home:
            os.environ["XDG_STATE_HOME"] = home
            self.addCleanup(os.environ.pop, "XDG_STATE_HOME", None)
            path = f"{home}/talk.json"
            pid, fd = self.start(*QUICK)
            self.read_until(fd, b"> ")
            os.write(fd, b"Helo\x1b[D\x02l\x05!\r")  # left, left, insert, to the end
            self.read_until(fd, b"\x1b[?2004h")
            os.write(fd, b"\x1b[A?\r")  # the message before, and a question mark
            self.read_until(fd, b"\x1b[?2004h")
            os.write(fd, f"/save {path}\r".encode())
            self.read_until(fd, b"messages are in")
            os.write(fd, b"/quit\r")
            self.assertEqual(self.exit_code(pid, fd), 0)
            with open(path, encoding="utf-8") as file:
                asked = [m["content"] for m in json.load(file)["messages"] if m["role"] == "user"]
            self.assertEqual(asked, ["Hello!", "Hello!?"])
            pid, fd = self.start(*QUICK)
            self.read_until(fd, b"> ")
            os.write(fd, b"\x1b[A\x1b[A\r")  # from the session before: /quit, then /save
            self.read_until(fd, b"messages are in")
            os.write(fd, b"\x04")
            self.assertEqual(self.exit_code(pid, fd), 0)

    def test_a_paste_and_quotes_are_one_message(self):
        with tempfile.TemporaryDirectory() as home:
            path = f"{home}/talk.json"
            pid, fd = self.start(*QUICK)
            self.read_until(fd, b"> ")
            os.write(fd, b"\x1b[200~one\rtwo\nthree\x1b[201~\r")
            self.read_until(fd, b"\x1b[?2004h")
            os.write(fd, b'"""four\r')
            self.read_until(fd, b". ")
            os.write(fd, b'five"""\r')
            self.read_until(fd, b"\x1b[?2004h")
            os.write(fd, b"six\\\r")
            self.read_until(fd, b". ")
            os.write(fd, b"seven\r")
            self.read_until(fd, b"\x1b[?2004h")
            os.write(fd, f"/save {path}\r".encode())
            self.read_until(fd, b"messages are in")
            os.write(fd, b"/quit\r")
            self.assertEqual(self.exit_code(pid, fd), 0)
            with open(path, encoding="utf-8") as file:
                asked = [m["content"] for m in json.load(file)["messages"] if m["role"] == "user"]
            self.assertEqual(asked, ["one\ntwo\nthree", "four\nfive", "six\nseven"])

    def test_ctrl_c_throws_a_line_away_and_then_ends(self):
        pid, fd = self.start(*QUICK)
        self.read_until(fd, b"> ")
        os.write(fd, b"half a")
        self.read_until(fd, b"half a")
        os.write(fd, b"\x03")
        self.read_until(fd, b"> ")
        os.write(fd, b"\x03")
        self.assertEqual(self.exit_code(pid, fd), 130)

    def test_ctrl_c_stops_the_answer_and_then_the_program(self):
        pid, fd = self.start("-n", "100000", "--ignore-eos", "--temperature", "0")
        self.read_until(fd, b"> ")
        os.write(fd, b"Hello\n")
        self.read_until(fd, b" ")  # the echo has no space; the answer does
        os.write(fd, b"\x03")
        self.read_until(fd, b"> ")
        os.write(fd, b"\x03")
        self.assertEqual(self.exit_code(pid, fd), 130)


if __name__ == "__main__":
    unittest.main()

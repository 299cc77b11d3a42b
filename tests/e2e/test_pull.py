#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cheetah pull, list and rm against a local hub: resumed, checked, whole or nothing."""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from fake_hub import Hub
from program import MODELS, PROGRAM, ProgramTest, run

SIZE = 3 << 20


def content(size, seed):
    return random.Random(seed).randbytes(size)


def gguf_files(size=SIZE):
    return {"README.md": b"hello", "m-Q8_0.gguf": content(size, 1), "m-Q4_0.gguf": content(size // 2, 2)}


class PullTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def env(self, hub, **more):
        env = {key: value for key, value in os.environ.items() if not key.upper().endswith("_PROXY") and not key.startswith("HF_")}
        return dict(env, HF_ENDPOINT=hub.url, HF_HOME=str(self.home), **more)

    def pull(self, hub, model="org/name:Q8_0", *args, **more):
        return run("pull", model, *args, env=self.env(hub, **more), timeout=120)

    def snapshot(self, commit="1" * 40):
        return self.home / "hub" / "models--org--name" / "snapshots" / commit

    def shown(self):
        folder = self.snapshot().parent
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()) if folder.exists() else []


class Downloads(PullTest):
    def test_a_model_of_several_files_is_there_and_runs(self):
        source = MODELS / "cub-1m"
        files = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
        with Hub(files, commit="a" * 40) as hub:
            done = self.pull(hub, "org/name", "--json")
            self.assertEqual(done.returncode, 0, done.err)
            env = self.env(hub)
            self.assertTrue(self.ok("generate", "org/name", "-p", "Once", "-n", "4", env=env))
            listed = self.ok_json("list", "--json", env=env)
            self.assertIn("org/name", [model["name"] for model in listed["models"]])
            before = len(hub.asked)
            self.assertEqual(self.pull(hub, "org/name").returncode, 0)
            self.assertEqual(len(hub.asked), before + 1, "what is there is not downloaded again")
            self.assertIn("freed", self.ok("rm", "org/name", env=env))
            self.assertFalse((self.home / "hub" / "models--org--name").exists())
        for path, _, has_token in hub.asked:
            self.assertFalse(has_token, path)

    def test_a_quantization_is_one_file(self):
        files = gguf_files()
        with Hub(files) as hub:
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual(self.shown(), ["1" * 40 + "/m-Q8_0.gguf"])
            self.assertEqual((self.snapshot() / "m-Q8_0.gguf").read_bytes(), files["m-Q8_0.gguf"])
            self.assertEqual((self.snapshot().parent.parent / "refs" / "main").read_text().strip(), "1" * 40)
            self.assertEqual(self.pull(hub, "org/name@v1/").returncode, 2)
            self.assertEqual(self.pull(hub, "org/name:Q4_0@v1").returncode, 0)
            self.assertEqual(len(self.shown()), 2)

    def test_cut_connections_are_resumed(self):
        files = gguf_files()
        with Hub(files) as hub:
            hub.cut_after, hub.cuts_left = SIZE // 4, 5
            done = self.pull(hub)
            self.assertEqual(done.returncode, 0, done.err)
            self.assertEqual((self.snapshot() / "m-Q8_0.gguf").read_bytes(), files["m-Q8_0.gguf"])
            ranges = [wanted for path, wanted, _ in hub.asked if path.startswith("/blob/")]
            self.assertGreaterEqual(len(ranges), 4)
            self.assertTrue(all(wanted for wanted in ranges[1:]), ranges)

    def test_a_server_without_ranges_begins_anew(self):
        files = gguf_files()
        with Hub(files) as hub:
            hub.no_ranges, hub.cut_after, hub.cuts_left = True, SIZE // 4, 2
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual((self.snapshot() / "m-Q8_0.gguf").read_bytes(), files["m-Q8_0.gguf"])

    def test_a_busy_server_is_asked_again(self):
        with Hub(gguf_files()) as hub:
            hub.busy_left = 4
            self.assertEqual(self.pull(hub).returncode, 0)

    def test_wrong_bytes_are_not_kept(self):
        files = gguf_files()
        with Hub(files) as hub:
            hub.corrupt = {"m-Q8_0.gguf"}
            done = self.pull(hub)
            self.assertEqual(done.returncode, 1)
            self.assertIn("checksum", done.err)
            self.assertEqual(self.shown(), [])
            hub.corrupt = set()
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual((self.snapshot() / "m-Q8_0.gguf").read_bytes(), files["m-Q8_0.gguf"])

    def test_one_bad_file_leaves_nothing_of_the_model(self):
        files = {"config.json": b"{}", "model-00001-of-00002.safetensors": content(SIZE, 3),
                 "model-00002-of-00002.safetensors": content(SIZE, 4), "model.safetensors.index.json": b"{}" * 20}
        with Hub(files) as hub:
            hub.corrupt = {"model-00002-of-00002.safetensors"}
            self.assertEqual(self.pull(hub, "org/name").returncode, 1)
            self.assertEqual(self.shown(), [])
            self.assertNotIn("org/name", self.ok("list", env=self.env(hub)))

    def test_kill_9_at_any_time_leaves_nothing_shown_and_the_next_resumes(self):
        files = gguf_files()
        with Hub(files, chunk=1 << 14) as hub:
            begun = threading.Event()
            hub.pause = lambda name, at: (begun.set(), time.sleep(0.005))
            for round_ in range(4):
                begun.clear()
                process = subprocess.Popen([PROGRAM, "pull", "org/name:Q8_0"], env=self.env(hub), stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                self.assertTrue(begun.wait(30))
                time.sleep(0.05 * round_)
                process.kill()
                process.wait()
                self.assertEqual(self.shown(), [])
            hub.pause = None
            self.assertEqual(self.pull(hub).returncode, 0)
            self.assertEqual((self.snapshot() / "m-Q8_0.gguf").read_bytes(), files["m-Q8_0.gguf"])
            self.assertTrue(any(wanted for path, wanted, _ in hub.asked if path.startswith("/blob/")), "resumed")

    def test_ctrl_c_says_how_to_go_on(self):
        with Hub(gguf_files(), chunk=1 << 12) as hub:
            begun = threading.Event()
            hub.pause = lambda name, at: (begun.set(), time.sleep(0.01))
            process = subprocess.Popen([PROGRAM, "pull", "org/name:Q8_0"], env=self.env(hub), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            self.assertTrue(begun.wait(20))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
            self.assertEqual(process.returncode, 130)
            self.assertIn(b"goes on", err)
            hub.pause = None
            self.assertEqual(self.pull(hub).returncode, 0)

    def test_two_pulls_at_once_download_once(self):
        with Hub(gguf_files(), chunk=1 << 14) as hub:
            hub.pause = lambda name, at: time.sleep(0.001)
            two = [subprocess.Popen([PROGRAM, "pull", "org/name:Q8_0"], env=self.env(hub), stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE) for _ in range(2)]
            for process in two:
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, err)
            self.assertEqual(len([path for path, _, _ in hub.asked if path.startswith("/blob/")]), 1)

    def test_a_full_disk_is_told_and_the_rest_fits_later(self):
        mount = shutil.which("mount")
        if os.geteuid() != 0 or not mount or subprocess.run(
                [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.home], capture_output=True, check=False).returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        try:
            with Hub(gguf_files(8 << 20)) as hub:
                done = self.pull(hub)
                self.assertEqual(done.returncode, 1)
                self.assertIn("are free", done.err)
            with Hub(gguf_files(3 << 20), chunk=1 << 16) as hub:
                hub.pause = lambda name, at: (self.home / "other").write_bytes(b"x" * (2 << 20)) if at == 1 << 18 else None
                done = self.pull(hub)
                self.assertEqual(done.returncode, 1)
                self.assertIn("no space is left", done.err)
                self.assertEqual(self.shown(), [])
                (self.home / "other").unlink()
                hub.pause = None
                self.assertEqual(self.pull(hub).returncode, 0)
        finally:
            subprocess.run(["umount", self.home], check=False)


class Access(PullTest):
    def test_a_token_goes_to_the_hub_alone(self):
        with Hub(gguf_files(), token="hf_secret") as hub:
            done = self.pull(hub)
            self.assertEqual(done.returncode, 1)
            self.assertIn("HF_TOKEN", done.err)
            self.assertEqual(self.pull(hub, HF_TOKEN="hf_secret").returncode, 0)
            (self.home / "my-token").write_text("hf_secret\n")
            self.assertEqual(self.pull(hub, "org/name:Q4_0", "--token-file", str(self.home / "my-token")).returncode, 0)
            self.assertTrue(any(has for path, _, has in hub.asked if path.startswith("/org/")))
            self.assertFalse(any(has for path, _, has in hub.asked if path.startswith("/blob/")))

    def test_a_proxy_is_asked_for_whole_addresses(self):
        with Hub(gguf_files()) as hub, socket.create_server(("127.0.0.1", 0)) as listener:
            seen = []

            def forward():
                while True:
                    try:
                        client, _ = listener.accept()
                    except OSError:
                        return
                    threading.Thread(target=relay, args=(client,), daemon=True).start()

            def relay(client):
                with client:
                    head = b""
                    while b"\r\n\r\n" not in head:
                        head += client.recv(4096)
                    line = head.split(b"\r\n")[0].decode()
                    seen.append(line)
                    host, port = line.split("/")[2].split(":")
                    fields = b"\r\n".join(head.split(b"\r\n")[1:]).replace(b"\r\nUser-Agent", b"\r\nConnection: close\r\nUser-Agent")
                    with socket.create_connection((host, int(port))) as server:
                        server.sendall(("GET /" + line.split("/", 3)[3] + "\r\n").encode() + fields)
                        while piece := server.recv(65536):
                            client.sendall(piece)

            threading.Thread(target=forward, daemon=True).start()
            done = self.pull(hub, HTTP_PROXY=f"http://user:pw@127.0.0.1:{listener.getsockname()[1]}")
            self.assertEqual(done.returncode, 0, done.err)
            self.assertTrue(all(line.startswith("GET http://127.0.0.1:") for line in seen), seen)

    def test_what_cannot_be_had_is_one_sentence(self):
        with Hub(gguf_files()) as hub:
            env = self.env(hub)
            self.fails(1, "pull", "org/other", env=env, mentions=["org/other", "not there"])
            self.fails(1, "pull", "org/name:Q5_0", env=env, mentions=["Q5_0", "Q4_0", "Q8_0"])
            self.fails(2, "pull", "../name", env=env, mentions=["ORG/NAME"])
            self.fails(1, "rm", "org/other", env=env, mentions=["org/other"])
            self.fails(1, "pull", "org/name:Q8_0", env=dict(env, HF_HUB_OFFLINE="1"), mentions=["HF_HUB_OFFLINE"])
            self.fails(2, "pull", "org/name:Q8_0", env=dict(env, HF_ENDPOINT="ftp://x"), mentions=["HF_ENDPOINT"])
            self.fails(1, "generate", "org/missing", "-p", "x", env=env, mentions=["cheetah pull org/missing"])
        self.fails(1, "pull", "org/name:Q8_0", env=env, mentions=["127.0.0.1"], timeout=60)

    def test_the_embedded_models_are_listed(self):
        with Hub({}) as hub:
            out = self.ok("list", env=self.env(hub))
        for name in ("cub-7m", "cub-1m", "cub-moe"):
            self.assertIn(name, out)


if __name__ == "__main__":
    unittest.main()

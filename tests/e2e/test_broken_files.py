#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Damaged and hostile model files: one sentence, exit code 1, little memory."""
import json
import pathlib
import random
import resource
import shutil
import struct
import tempfile
import unittest

from program import REFERENCES, ProgramTest, run

LLAMA = REFERENCES / "llama"
GGUF = REFERENCES / "gguf" / "llama-Q8_0.gguf"
ADDRESS_SPACE = 4 << 30


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


class BrokenFiles(ProgramTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def refuses(self, path):
        for command in (["generate", "-p", "x", "-n", "1"], ["inspect"]):
            done = run(*command, path, timeout=30, preexec_fn=limit_memory)
            self.assertEqual(done.returncode, 1, f"{command} {path.name}: {done.out} {done.err}")
            self.assertTrue(done.err.startswith("cheetah: error: "), done.err)
            self.assertEqual(done.err.count("\n"), 1, done.err)

    def hugging_face(self, name, config=None, weights=None):
        folder = self.folder / name
        shutil.copytree(LLAMA, folder)
        if config is not None:
            (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        if weights is not None:
            (folder / "model.safetensors").write_bytes(weights)
        return folder

    def test_safetensors(self):
        good = (LLAMA / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", good[:8])[0]
        header = json.loads(good[8: 8 + length])
        first = next(k for k in header if k != "__metadata__")

        def with_header(change):
            copy = json.loads(json.dumps(header))
            change(copy)
            text = json.dumps(copy).encode()
            return struct.pack("<Q", len(text)) + text + good[8 + length:]

        cases = {
            "empty": b"",
            "seven": good[:7],
            "cut": good[: len(good) // 2],
            "long_header": struct.pack("<Q", 2**63) + good[8:],
            "past_end": struct.pack("<Q", len(good)) + good[8:],
            "not_json": struct.pack("<Q", 4) + b"abcd",
            "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "pickle": b"\x80\x02}q\x00.",
            "dtype": with_header(lambda h: h[first].update(dtype="F13")),
            "negative": with_header(lambda h: h[first].update(shape=[-1, 4])),
            "overflow": with_header(lambda h: h[first].update(shape=[2**62, 8])),
            "reversed": with_header(lambda h: h[first].update(data_offsets=[64, 0])),
            "missing": with_header(lambda h: h.pop(first)),
        }
        for name, data in cases.items():
            self.refuses(self.hugging_face(name, weights=data))

    def test_config(self):
        good = json.loads((LLAMA / "config.json").read_text())
        cases = {
            "empty": "", "list": "[]", "deep": "[" * 100000, "unknown": {**good, "model_type": "martian"},
            "no_heads": {**good, "num_attention_heads": 0}, "huge": {**good, "vocab_size": 2**62},
            "layers": {**good, "num_hidden_layers": 10**9}, "text": {**good, "hidden_size": "big"},
            "negative": {**good, "intermediate_size": -1},
        }
        for name, config in cases.items():
            self.refuses(self.hugging_face(name, config=config))

    def test_gguf(self):
        good = GGUF.read_bytes()
        cases = {
            "magic": b"GGML" + good[4:], "version": good[:4] + struct.pack("<I", 99) + good[8:],
            "tensors": good[:8] + struct.pack("<Q", 2**63) + good[16:],
            "keys": good[:16] + struct.pack("<Q", 2**61) + good[24:], "only_magic": b"GGUF",
        }
        rng = random.Random(1)
        for cut in [8, 23, 24, 100, len(good) - 1] + [rng.randrange(24, len(good)) for _ in range(6)]:
            cases[f"cut_{cut}"] = good[:cut]
        for name, data in cases.items():
            path = self.folder / f"{name}.gguf"
            path.write_bytes(data)
            self.refuses(path)

    def test_random_damage_never_crashes(self):
        good = GGUF.read_bytes()
        rng = random.Random(2)
        for trial in range(15):
            data = bytearray(good)
            for _ in range(4):
                data[rng.randrange(0, 4096)] = rng.randrange(256)
            path = self.folder / f"damaged_{trial}.gguf"
            path.write_bytes(data)
            done = run("inspect", path, timeout=30, preexec_fn=limit_memory)
            self.assertIn(done.returncode, (0, 1), done.err)

    def test_tokenizer(self):
        for name, text in {"empty": "", "list": "[]", "deep": "[" * 50000, "model": '{"model": {"type": "None"}}'}.items():
            path = self.folder / f"{name}.json"
            path.write_text(text)
            done = run("tokenize", "-m", path, stdin="x", timeout=30, preexec_fn=limit_memory)
            self.assertEqual(done.returncode, 1, done.err)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tokenize: every option, over folders, tokenizer.json and GGUF."""
import json
import unittest

from program import MODELS, REFERENCES, ProgramTest

TEXTS = ["Once upon a time", "", " ", "héllo wörld\n\n\tx", "日本語 🙂", "a" * 500, "<|endoftext|>hi", "don't\r\n 123,456.78"]


class Tokenize(ProgramTest):
    def test_batch_round_trip_over_all_models(self):
        folders = [p.parent for p in sorted(REFERENCES.glob("*/tokenizer.json"))] + [MODELS / "cub-7m"]
        for folder in folders:
            ids = self.ok_json("tokenize", folder, "--batch", stdin=json.dumps(TEXTS))
            self.assertEqual(len(ids), len(TEXTS))
            again = self.ok_json("tokenize", "-m", folder, "--batch", "--decode", stdin=json.dumps(ids))
            self.assertEqual(again, TEXTS, folder)

    def test_one_text_equals_its_batch_in_every_form(self):
        ids = self.ok_json("tokenize", "--batch", stdin=json.dumps(["Once upon a time"]))[0]
        self.assertEqual(self.ok_json("tokenize", "--json", stdin="Once upon a time"), ids)
        self.assertEqual(self.ok("tokenize", stdin="Once upon a time"), " ".join(map(str, ids)) + "\n")
        self.assertEqual(self.ok("tokenize", "--decode", stdin=" ".join(map(str, ids))), "Once upon a time")
        self.assertEqual(self.ok("tokenize", "--decode", stdin=json.dumps(ids)), "Once upon a time")
        self.assertEqual(self.ok_json("tokenize", "--decode", "--json", stdin=json.dumps(ids)), "Once upon a time")

    def test_golden_ids_of_the_embedded_model(self):
        golden = json.loads((MODELS / "cub-7m" / "golden.json").read_text())
        for case in golden["cases"]:
            self.assertEqual(self.ok_json("tokenize", "--json", stdin=case["text"]), case["ids"])

    def test_special_tokens(self):
        parsed = self.ok_json("tokenize", "--json", stdin="<|endoftext|>")
        self.assertEqual(parsed, [0])
        plain = self.ok_json("tokenize", "--json", "--no-parse-special", stdin="<|endoftext|>")
        self.assertGreater(len(plain), 1)
        self.assertEqual(self.ok("tokenize", "--decode", "--skip-special", stdin="0"), "")
        self.assertEqual(self.ok("tokenize", "--decode", stdin="0"), "<|endoftext|>")

    def test_tokenizer_file_and_gguf_agree_with_the_folder(self):
        folder = REFERENCES / "llama"
        batch = json.dumps(TEXTS)
        ids = self.ok_json("tokenize", folder, "--batch", stdin=batch)
        self.assertEqual(self.ok_json("tokenize", folder / "tokenizer.json", "--batch", stdin=batch), ids)

    def test_bad_input_is_one_sentence(self):
        self.fails(1, "tokenize", "--decode", stdin="999999", mentions=["999999"])
        self.fails(1, "tokenize", "--decode", stdin="-1")
        self.fails(1, "tokenize", "--decode", stdin="one two", mentions=["one"])
        self.fails(1, "tokenize", "--batch", stdin="{}", mentions=["list"])
        self.fails(1, "tokenize", "--batch", stdin="[1]", mentions=["strings"])
        self.fails(1, "tokenize", "--batch", stdin="[")
        self.fails(1, "tokenize", "--batch", "--decode", stdin='["a"]')

    def test_bytes_that_are_not_utf8_do_not_fail(self):
        self.ok("tokenize", stdin=b"a\xff\xfe\x80b\x00c")


if __name__ == "__main__":
    unittest.main()

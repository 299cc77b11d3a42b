#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""render: templates of models and of the input itself."""
import json
import tempfile
import unittest

from program import MODELS, REFERENCES, ProgramTest

HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi there"}]


class Render(ProgramTest):
    def render(self, **variables):
        return self.ok("render", "--input", "-", stdin=json.dumps(variables))

    def test_goldens_of_the_reference_models(self):
        for golden in sorted(REFERENCES.glob("*/golden.json")):
            expected = json.loads(golden.read_text()).get("chat")
            if not expected:
                continue
            out = self.render(model=str(golden.parent), messages=HELLO, add_generation_prompt=True)
            self.assertEqual(out, expected, golden)

    def test_a_template_in_the_input_and_a_file(self):
        source = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}{% endfor %}{{ name }}"
        request = {"template": source, "messages": HELLO, "name": "!"}
        self.assertEqual(self.render(**request), "[system] Be brief.[user] Hi there!")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(request, file)
            file.flush()
            self.assertEqual(self.ok("render", "--input", file.name), "[system] Be brief.[user] Hi there!")

    def test_model_by_name(self):
        out = self.render(model="cub-7m", messages=HELLO[1:], add_generation_prompt=True)
        self.assertEqual(out, "<|user|>Hi there<|assistant|>")
        self.assertTrue((MODELS / "cub-7m" / "chat_template.jinja").exists())

    def test_template_errors_are_one_sentence(self):
        for source in ("{{ raise_exception('no way') }}", "{% for %}", "{{ x | nonsense }}", "{% import 'os' %}",
                       "{{ ''.__class__.__mro__ }}", "{% for i in range(10**9) %}x{% endfor %}"):
            self.fails(1, "render", "--input", "-", stdin=json.dumps({"template": source, "messages": []}))

    def test_bad_input(self):
        for text in ("", "[]", "{}", '{"template": 3}', "{"):
            self.fails(1, "render", "--input", "-", stdin=text)
        self.fails(1, "render", "--input", "/no/such/file.json")
        self.fails(2, "render")


if __name__ == "__main__":
    unittest.main()

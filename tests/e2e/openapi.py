# SPDX-License-Identifier: MIT
"""Holds requests and answers to the server's OpenAPI document: the part of JSON Schema that the document uses."""
import json
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Document:
    def __init__(self, text):
        self.document = json.loads(text)
        self.seen = set()

    def find(self, method, path):
        """The operation of a request, and the path it stands under."""
        path = path.split("?")[0]
        for template, operations in self.document["paths"].items():
            pattern = re.sub(r"\\\{[^/]*\\\}", "[^/]+", re.escape(template))
            if method.lower() in operations and re.fullmatch(pattern, path):
                self.seen.add((method, template))
                return operations[method.lower()]
        raise AssertionError(f"{method} {path} is not in the document")

    def check(self, value, schema, where):
        if "$ref" in schema:
            return self.check(value, self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], where)
        if "type" in schema:
            names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            assert any(is_type(value, name) for name in names), f"{where}: expected {names}, got {value!r:.200}"
        if "enum" in schema and value is not None:
            assert value in schema["enum"], f"{where}: {value!r} is none of {schema['enum']}"
        if isinstance(value, dict):
            for name in schema.get("required", ()):
                assert name in value, f"{where}: {name} is missing in {value!r:.300}"
            for name, inner in schema.get("properties", {}).items():
                if name in value:
                    self.check(value[name], inner, f"{where}.{name}")
        if isinstance(value, list):
            for i, item in enumerate(value):
                self.check(item, schema.get("items", {}), f"{where}[{i}]")

    def check_answer(self, method, path, status, content_type, body):
        responses = self.find(method, path)["responses"]
        content = responses["200" if status == 200 else "default"]["content"]
        kind = content_type.split(";")[0]
        assert kind in content, f"{method} {path}: {status} as {kind}, expected {list(content)}"
        schema, where = content[kind]["schema"], f"{method} {path} {status}"
        if kind == "application/json":
            self.check(json.loads(body), schema, where)
        elif kind == "application/x-ndjson":
            for line in body.splitlines():
                self.check(json.loads(line), schema, where)
        elif kind == "text/event-stream" and "$ref" in schema:
            for line in body.decode().split("\n\n"):
                if line.startswith("data: {"):
                    self.check(json.loads(line[6:]), schema, where)

    def check_request(self, method, path, body):
        content = self.find(method, path)["requestBody"]["content"]
        self.check(body, content["application/json"]["schema"], f"{method} {path} request")

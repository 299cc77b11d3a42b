# SPDX-License-Identifier: MIT
"""Renders a Helm chart as `helm template` does, for charts that keep to the part of Go's templates below; anything else is an
error, so a chart cannot drift out of what is tested.

Actions: if, else, else if, range (of a list; of a map with two variables), with, define, include, end, comments, variables,
pipelines. Functions: FUNCTIONS."""
import pathlib
import re

import yaml

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|:=|[()|,]|[^\s()|,"]+')
ACTION = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)


class ChartError(Exception):
    pass


def required(message, value):
    if value in (None, ""):
        raise ChartError(message)
    return value


def to_yaml(value):
    return yaml.safe_dump(value, default_flow_style=False, sort_keys=True, width=10000).rstrip("\n").removesuffix("\n...")


def indent(width, text):
    return "\n".join(" " * width + line if line else line for line in text.split("\n"))


def spelled(value):
    """As Go prints it."""
    if isinstance(value, (list, dict)):
        raise ChartError(f"{value}: a list or a map is no text: toYaml makes one")
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


FUNCTIONS = {
    "default": lambda other, value: value or other, "quote": lambda value: '"' + spelled(value).replace("\\", "\\\\").replace('"', '\\"') + '"',
    "printf": lambda form, *values: form % values, "required": required, "toYaml": to_yaml, "indent": indent,
    "nindent": lambda width, text: "\n" + indent(width, text), "not": lambda value: not value, "int": lambda value: int(value or 0),
    "and": lambda *values: next((value for value in values if not value), values[-1]), "or": lambda *values: next((value for value in values if value), values[-1]),
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "gt": lambda a, b: a > b, "add": lambda *values: sum(values), "div": lambda a, b: a // b,
    "ternary": lambda yes, no, what: yes if what else no, "dict": lambda *pairs: dict(zip(pairs[::2], pairs[1::2]))}


class Template:
    """The parsed text of one file: a list of ("text", t), ("value", expression), ("if", [(condition, body)]), ("range", ...), ("with", ...)."""

    def __init__(self, text, where):
        self.where, self.defined = where, {}
        self.parts = self._split(text)
        self.body = self._parse(set())
        if self.parts:
            raise ChartError(f"{where}: an end too many")

    def _split(self, text):
        parts, at = [], 0
        for found in ACTION.finditer(text):
            before = text[at:found.start()]
            parts += [before.rstrip() if found[1] else before, found]
            at = found.end()
            if found[3]:
                at += len(text[at:]) - len(text[at:].lstrip())
        return [part for part in [*parts, text[at:]] if part != ""]

    def _parse(self, ends):
        body = []
        while self.parts:
            part = self.parts.pop(0)
            if isinstance(part, str):
                body.append(("text", part))
                continue
            action = part[2].strip()
            word = action.split()[0] if action else ""
            if word in ("end", "else"):
                if word not in ends:
                    raise ChartError(f"{self.where}: {action} out of place")
                self.ending = action
                return body
            if action.startswith("/*"):
                continue
            if word == "define":
                self.defined[action.split('"')[1]] = self._parse({"end"})
            elif word == "if":
                branches = [(action[2:], self._parse({"end", "else"}))]
                while self.ending != "end":
                    condition = self.ending[4:].strip().removeprefix("if") or "true"
                    branches.append((condition, self._parse({"end", "else"})))
                body.append(("if", branches))
            elif word in ("range", "with"):
                body.append((word, action[len(word):], self._parse({"end"})))
            else:
                body.append(("value", action))
        if ends:
            raise ChartError(f"{self.where}: an end is missing")
        return body


class Chart:
    def __init__(self, folder, values=None, release="cheetah", revision=1):
        folder = pathlib.Path(folder)
        self.metadata = yaml.safe_load((folder / "Chart.yaml").read_text())
        chart = {"Name": self.metadata["name"], "AppVersion": self.metadata["appVersion"], "Version": self.metadata["version"]}
        self.root = {"Values": merge(yaml.safe_load((folder / "values.yaml").read_text()), values or {}), "Chart": chart,
                     "Release": {"Name": release, "Revision": revision, "Namespace": "cheetah"}}
        self.templates = {path.name: Template(path.read_text(), path.name) for path in sorted((folder / "templates").iterdir())}
        self.defined = {name: body for template in self.templates.values() for name, body in template.defined.items()}

    def render(self):
        """Of each file that is no helper, its text."""
        return {name: self._run(template.body, self.root, {"$": self.root}) for name, template in self.templates.items() if not name.startswith("_")}

    def objects(self):
        return [each for text in self.render().values() for each in yaml.safe_load_all(text) if each]

    def _run(self, body, dot, variables):
        text = []
        for node in body:
            kind = node[0]
            if kind == "text":
                text.append(node[1])
            elif kind == "if":
                chosen = next((branch for condition, branch in node[1] if self._value(condition, dot, variables)), [])
                text.append(self._run(chosen, dot, dict(variables)))
            elif kind == "with":
                value = self._value(node[1], dot, variables)
                text.append(self._run(node[2], value, dict(variables)) if value else "")
            elif kind == "range":
                text.append(self._range(node, dot, variables))
            elif (assigned := re.match(r"(\$\w+)\s*:=\s*(.*)", node[1], re.DOTALL)):
                variables[assigned[1]] = self._value(assigned[2], dot, variables)
            else:
                text.append(spelled(self._value(node[1], dot, variables)))
        return "".join(text)

    def _range(self, node, dot, variables):
        names, over = re.match(r"\s*(?:(\$\w+)\s*,\s*(\$\w+)\s*:=)?(.*)", node[1], re.DOTALL).group(1, 2), node[1].split(":=")[-1]
        values = self._value(over, dot, variables) or []
        pairs = sorted(values.items()) if isinstance(values, dict) else list(enumerate(values))
        return "".join(self._run(node[2], value, {**variables, **({names[0]: key, names[1]: value} if names[0] else {})}) for key, value in pairs)

    def _value(self, expression, dot, variables):
        tokens = TOKEN.findall(expression)
        value = self._pipeline(tokens, dot, variables)
        if tokens:
            raise ChartError(f"{expression.strip()!r}: what is {tokens[0]!r} here?")
        return value

    def _pipeline(self, tokens, dot, variables):
        value = self._call(tokens, dot, variables, [])
        while tokens and tokens[0] == "|":
            tokens.pop(0)
            value = self._call(tokens, dot, variables, [value])
        return value

    def _call(self, tokens, dot, variables, piped):
        name = tokens[0]
        if name in FUNCTIONS or name == "include":
            tokens.pop(0)
            arguments = self._arguments(tokens, dot, variables) + piped
            if name == "include":
                return self._run(self.defined[arguments[0]], arguments[1], {"$": arguments[1]})
            return FUNCTIONS[name](*arguments)
        arguments = self._arguments(tokens, dot, variables)
        if len(arguments) != 1 or piped:
            raise ChartError(f"{name!r} is no function of this part of the templates")
        return arguments[0]

    def _arguments(self, tokens, dot, variables):
        found = []
        while tokens and tokens[0] not in ("|", ")"):
            token = tokens.pop(0)
            if token == "(":
                found.append(self._pipeline(tokens, dot, variables))
                if not tokens or tokens.pop(0) != ")":
                    raise ChartError("a bracket is not closed")
            else:
                found.append(self._operand(token, dot, variables))
        return found

    @staticmethod
    def _operand(token, dot, variables):
        if token.startswith('"'):
            return yaml.safe_load(token)
        if token in ("true", "false"):
            return token == "true"
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        base, *path = token.split(".")
        if base and not base.startswith("$"):
            raise ChartError(f"{token!r}: neither a value nor a function of this part of the templates")
        value = variables[base] if base else dot
        for step in path:
            if step == "":
                continue
            if not isinstance(value, dict) or step not in value:
                raise ChartError(f"{token}: there is no {step}")
            value = value[step]
        return value


def merge(values, more):
    if not isinstance(values, dict) or not isinstance(more, dict):
        return more
    return {key: merge(values[key], more[key]) if key in values and key in more else more.get(key, values.get(key)) for key in {**values, **more}}

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds classes of src/ with more than 40 methods or 25 data members, from their definitions in headers and sources.

Data structs (no methods of their own) may have any number of members: they are a list of fields, not an object.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_METHODS = 40
MAX_MEMBERS = 25

HEAD = re.compile(r"\b(?:class|struct)\s+(?:\[\[[^\]]*\]\]\s*|alignas\([^)]*\)\s*)*([A-Za-z_][\w:]*)(?:<[^;{}]*>)?"
                  r"(?:\s+final)?(?:\s*:\s*[^;{}()]*)?\s*\{")
NOT_A_MEMBER = re.compile(r"^(?:using|typedef|friend|static_assert|enum|class|struct|union|template\s*<[^;]*>\s*(?:class|struct|friend))\b")
ACCESS = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")


def without_comments(text):
    """The code with comments blanked and the contents of texts removed, so that braces and semicolons count."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*',
                         re.DOTALL | re.MULTILINE)

    def blank(match):
        text = match.group(0)
        return '""' if text[0] in 'R"' else "0" if text[0] == "'" else " "
    # A digit separator (1'000) is not the start of a character.
    return pattern.sub(blank, re.sub(r"(?<=\d)'(?=\d)", "", text))


def end_of_block(code, start):
    depth = 0
    for at in range(start, len(code)):
        if code[at] == "{":
            depth += 1
        elif code[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return len(code)


def declarations(body):
    """The declarations of a class body, nested blocks replaced by {}."""
    flat, at = [], 0
    while at < len(body):
        if body[at] == "{":
            end = end_of_block(body, at)
            flat.append("{}")
            at = end + 1
            # A function's body ends its declaration; an initialiser or a nested type is followed by its ';'.
            if not re.match(r"\s*[;,(){]", body[at:at + 40]):
                flat.append(";")
        else:
            flat.append(body[at])
            at += 1
    for part in "".join(flat).split(";"):
        while ACCESS.match(part):
            part = ACCESS.sub("", part, count=1)
        part = " ".join(part.split())
        if part and part not in {"{}", "}"}:
            yield part


def is_method(declaration):
    head = declaration.replace("operator<=>", "operator_").replace("operator<", "operator_")
    for _ in range(4):
        head = re.sub(r"<[^<>()]*>", "", head)
    head = re.split(r"(?<![=!<>])=(?!=)", re.sub(r"operator\s*(?:\(\)|[^\s(]+)", "operator_", head))[0]
    head = re.sub(r"alignas\([^)]*\)|\[\[.*?\]\]|std::function<.*>", "", head)
    return "(" in head.split("{}")[0]


def sizes(body):
    methods = members = 0
    for declaration in declarations(body):
        if NOT_A_MEMBER.match(declaration):
            continue
        if is_method(declaration):
            if not re.search(r"=\s*(?:delete|default)$", declaration):
                methods += 1
        elif not re.match(r"^(?:static|constexpr|inline)\b", declaration):
            members += 1 + len(re.findall(r",(?![^<(\[{]*[>)\]}])", re.sub(r"\{\}", "", re.sub(r"<.*>", "", declaration))))
    return methods, members


def classes(path):
    code = without_comments(path.read_text(encoding="utf-8"))
    for match in HEAD.finditer(code):
        if re.search(r"\benum\s*$", code[:match.start()]):
            continue
        start = match.end() - 1
        yield match.group(1), *sizes(code[start + 1:end_of_block(code, start)])


def main():
    problems = []
    for path in sorted(ROOT.joinpath("src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        for name, methods, members in classes(path):
            if methods > MAX_METHODS or (members > MAX_MEMBERS and methods > 0):
                problems.append(f"{path.relative_to(ROOT)}: {name}: {methods} methods, {members} data members; at most "
                                f"{MAX_METHODS} and {MAX_MEMBERS}")
    print("\n".join(problems) or "no class is too large")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

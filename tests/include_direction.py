#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules of the house that a compiler does not check, over every file of src/:

- modules include only what lies below them (docs/architecture.md);
- the folders of a module include each other in one direction only (tests, benches and fuzzers apart);
- no file or folder carries a name that says nothing;
- a file over 600 lines says why on its first line;
- a type has a name of its own: two of one name in one namespace would share their functions in the binary;
- getenv stays in src/cli and in tests (which ask where larger references are), headers start with #pragma once;
- with --headers COMPILER: every header compiles alone (those that a source includes first do in every build).
"""
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# Module -> the modules right below it. What those may include, it may too.
BELOW = {
    "base": [],
    "observe": ["base"],
    "net": ["base", "observe"],
    "hw": ["base"],
    "gpu": ["base", "hw"],
    "tensor": ["base", "gpu"],
    "kernels": ["tensor"],
    "model": ["kernels"],
    "quantize": ["model"],
    "hub": ["model", "net"],
    "engine": ["model", "observe"],
    "serve": ["engine", "net"],
    "load": ["net"],
    "cluster": ["engine", "net"],
    "testing": ["cluster"],
    "lab": ["kernels"],
    "doctor": ["hw", "net"],
}
BANNED_NAMES = {"util", "utils", "common", "helper", "helpers", "misc", "manager", "v2", "new", "legacy"}
MAX_LINES = 600
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace (\w+(?:::\w+)*) \{", re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: : [^;{]*)? \{", re.MULTILINE)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def reachable(module):
    """The modules that `module` may include, itself among them."""
    if module == "cli":
        return (set(BELOW) - {"testing"}) | {"cli"}
    seen, open_ = set(), [module]
    while open_:
        at = open_.pop()
        if at not in seen:
            seen.add(at)
            open_ += BELOW[at]
    return seen


def check_includes(where, module, text):
    allowed = reachable(module)
    for target in INCLUDE.findall(text):
        if "/" not in target:
            yield f'{where}: "{target}": write the path from src/, as in "{module}/{target}"'
        elif target.startswith("hwy/"):
            continue
        elif target.split("/")[0] not in set(BELOW) | {"cli"}:
            yield f'{where}: "{target}": {target.split("/")[0]} is no module; other libraries are included with <>'
        elif target.split("/")[0] not in allowed:
            yield f'{where}: "{target}": {module} lies below {target.split("/")[0]} and must not know it'


def check_names(where):
    for part in where.parts:
        words = set(re.split(r"[._-]", part.lower()))
        if words & BANNED_NAMES:
            yield f"{where}: the name {part} says nothing about what is inside"


def is_inline_part(path):
    """Highway's "-inl.h" files are included once per instruction set, from inside a source."""
    return path.name.endswith("-inl.h")


def check_file(path):
    where = path.relative_to(ROOT)
    module = path.relative_to(SRC).parts[0]
    if module not in set(BELOW) | {"cli"}:
        yield f"{where}: {module} is not a module of the architecture"
        return
    text = path.read_text(encoding="utf-8")
    yield from check_names(path.relative_to(SRC))
    yield from check_includes(where, module, text)
    lines = text.splitlines()
    if len(lines) > MAX_LINES and not lines[0].startswith("//"):
        yield f"{where}: {len(lines)} lines; over {MAX_LINES} the first line must be a comment that says why"
    if module != "cli" and not path.name.endswith("_test.cpp") and GETENV.search(text):
        yield f"{where}: getenv belongs in src/cli"
    first = next((line for line in lines if line and not line.startswith("//")), "")
    if path.suffix in {".h", ".cuh"} and not is_inline_part(path) and first != "#pragma once":
        yield f"{where}: a header starts with #pragma once"


def check_types(paths):
    """Names of types that two headers define."""
    first = {}
    for path in paths:
        if path.suffix != ".h":
            continue
        text = path.read_text(encoding="utf-8")
        space = NAMESPACE.search(text)
        for name in TYPE.findall(text):
            key = (space.group(1) if space else "", name)
            other = first.setdefault(key, path)
            if other != path:
                yield f"{path.relative_to(ROOT)}: {name} is also a type of {other.relative_to(ROOT)}"


def test_sources():
    """Files that only test programs are made of, with their headers: without suffix, from src/."""
    found = set()
    for listed in SRC.rglob("CMakeLists.txt"):
        folder = listed.parent.relative_to(SRC)
        for names in re.findall(r"cheetah_(?:cuda_)?tests\(\w+([^)]*)\)", listed.read_text(encoding="utf-8")):
            found |= {(folder / name).with_suffix("") for name in names.split()}
    return found


def is_test_part(path, tests):
    return path.with_suffix("") in tests or re.search(r"_(test|bench|fuzz|fixture)$", path.stem)


def folder_includes(paths):
    """Folder -> folder of the same module beside or elsewhere (not above or inside it) -> an include that says so."""
    arrows, tests = {}, test_sources()
    for path in paths:
        where = path.relative_to(SRC)
        at = where.parent
        if is_test_part(where, tests):
            continue
        for target in map(Path, INCLUDE.findall(path.read_text(encoding="utf-8"))):
            to = target.parent
            nested = to == at or to in at.parents or at in to.parents
            if to.parts[:1] == at.parts[:1] and not nested and not is_test_part(target, tests):
                arrows.setdefault(at, {}).setdefault(to, f"{path.relative_to(ROOT)} includes {target}")
    return arrows


def check_folder_cycles(paths):
    """Groups of folders of one module that reach each other."""
    arrows = folder_includes(paths)

    def reached(start):
        seen, open_ = set(), list(arrows.get(start, {}))
        while open_:
            at = open_.pop()
            if at not in seen:
                seen.add(at)
                open_ += arrows.get(at, {})
        return seen

    reach = {folder: reached(folder) for folder in arrows}
    reported = set()
    for folder in sorted(arrows):
        ring = {other for other in reach[folder] if folder in reach.get(other, set())}
        if not ring or folder in reported:
            continue
        reported |= ring
        why = [arrows[a][b] for a in sorted(ring) for b in sorted(arrows[a]) if b in ring]
        yield f"src/{folder}: a cycle of {', '.join(str(each) for each in sorted(ring))}: " + "; ".join(why)


def sources():
    return sorted(p for p in SRC.rglob("*") if p.suffix in SUFFIXES)


def compile_alone(compiler, header):
    """Problems of a header compiled with nothing before it."""
    command = compiler + ["-std=c++20", "-fsyntax-only", "-x", "c++", "-Wall", "-Wextra", f"-I{SRC}",
                          "-Wno-pragma-once-outside-header", "-DFMT_HEADER_ONLY=1", "-DPCRE2_CODE_UNIT_WIDTH=8",
                          '-DCHEETAH_SOURCE_DIR="."',
                          str(header)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        first = next((l for l in result.stderr.splitlines() if "error" in l), result.stderr.strip())
        return [f"{header.relative_to(ROOT)}: does not compile alone: {first}"]
    return []


# Modules that .ci/run builds with GCC alone, whose precompiled headers hide what a header forgot to include.
ONLY_PRECOMPILED = {"cli", "doctor", "lab", "load"}


def is_built_alone(header):
    """Does a source include it before anything else? Then Clang's builds compile it alone."""
    name = header.relative_to(SRC).as_posix()
    if name.split("/")[0] in ONLY_PRECOMPILED:
        return False
    for source in (header.with_suffix(".cpp"), header.with_name(header.stem + "_test.cpp")):
        if source.exists():
            first = re.search(r'^#include\s+[<"]([^>"]+)[>"]', source.read_text(encoding="utf-8"), re.MULTILINE)
            if first and first.group(1) == name:
                return True
    return False


def main():
    problems = [problem for path in sources() for problem in check_file(path)]
    problems += check_types(sources())
    problems += check_folder_cycles(sources())
    if sys.argv[1:2] == ["--headers"]:
        headers = [p for p in sources() if p.suffix == ".h" and not is_inline_part(p) and not is_built_alone(p)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda header: compile_alone(sys.argv[2:], header), headers):
                problems += found
    print("\n".join(problems) or "the house is in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

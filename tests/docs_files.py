#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the documents and results refer to exists: source files, linked pages and commits.

A source file is named in backticks and may leave out leading folders (`core.h`). Names with capitals, spaces or
placeholders are not looked at. A commit is looked up where the repository has its whole history.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"`([a-z0-9_./-]+\.(?:cpp|cuh|cu|h|py|sh|mjs|cmake))`")
# Files without a known suffix and folders, where the first part is a folder of the tree or of src/.
PATH = re.compile(r"`([a-z0-9_][a-z0-9_.-]*/[a-z0-9_./-]*)`")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)")
COMMIT = re.compile(r'"commit": "([0-9a-f]+)"|\bcommit ([0-9a-f]{7,40})\b|cheetah [0-9.]+ \(([0-9a-f]{7,40})')
# Names of other programs' files and of examples.
ELSEWHERE = {"math.h"}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def missing_commits(paths):
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        return
    for path in paths:
        for found in sorted({next(filter(None, groups)) for groups in COMMIT.findall(path.read_text(encoding="utf-8"))}):
            # A clone beside its origin shares loose objects: only what HEAD reaches is everyone's history.
            if git("merge-base", "--is-ancestor", found, "HEAD").returncode != 0:
                yield f"{path.relative_to(ROOT)}: commit {found} is not in the history"


def main():
    tracked = git("ls-files", "--cached", "--others", "--exclude-standard").stdout.splitlines()
    problems = []
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/NOTES.md")]
    for path in sorted(documents):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in NAME.findall(line):
                wanted = name.removeprefix("./")
                if wanted not in ELSEWHERE and not any(f == wanted or f.endswith("/" + wanted) for f in tracked):
                    problems.append(f"{path.relative_to(ROOT)}:{number}: {name} is not in the tree")
            for name in PATH.findall(line):
                first = name.split("/")[0]
                homes = [home for home in (ROOT, ROOT / "src") if (home / first).is_dir() and first != "build"]
                if homes and not NAME.fullmatch(f"`{name}`") and not any((home / name).exists() for home in homes):
                    problems.append(f"{path.relative_to(ROOT)}:{number}: {name} is not in the tree")
            for target in LINK.findall(line):
                if not path.parent.joinpath(target).exists():
                    problems.append(f"{path.relative_to(ROOT)}:{number}: {target} is not in the tree")
    results = [f for f in ROOT.glob("results/**/*") if f.suffix in {".json", ".md", ".txt"}]
    problems += missing_commits(sorted([*documents, *results]))
    print("\n".join(problems) or "the documents name files and commits that exist")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

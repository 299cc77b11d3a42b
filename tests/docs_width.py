#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lines of the documents stay under 120 columns, tables, code and lone links apart, so that a change shows as one.

docs_width.py           what is too long
docs_width.py --wrap    wraps the paragraphs and list items that are
"""
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120


def documents():
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "models/README.md", ROOT / "results/README.md",
                   ROOT / "tests/models/README.md"])


def blocks(lines):
    """(is text, lines): paragraphs and list items, and what keeps its lines (code, tables, headings, blank lines)."""
    in_code, block = False, []
    for line in lines:
        fence = line.lstrip().startswith("```")
        keeps = in_code or fence or not line.strip() or re.match(r"\s*(\||#|<|>)", line)
        if fence:
            in_code = not in_code
        if keeps:
            if block:
                yield True, block
            block = []
            yield False, [line]
        elif re.match(r"\s*([-*]|\d+\.) ", line):
            if block:
                yield True, block
            block = [line]
        else:
            block.append(line)
    if block:
        yield True, block


def wrapped(block):
    first = block[0]
    lead = re.match(r"\s*(?:[-*] |\d+\. )?", first).group(0)
    text = " ".join(line.strip() for line in [first[len(lead):], *block[1:]])
    # Code in backticks stays on one line, as a break would become part of it.
    held = re.sub(r"`[^`]*`", lambda m: m.group(0).replace(" ", "\0"), text)
    lines = textwrap.wrap(held, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def too_long(line):
    return len(line) > WIDTH and " " in line.strip().lstrip("-*0123456789. ")


def main():
    problems = []
    for path in documents():
        lines = path.read_text(encoding="utf-8").splitlines()
        out, at = [], 0
        for is_text, block in blocks(lines):
            long = is_text and any(too_long(line) for line in block)
            if long and sys.argv[1:] == ["--wrap"]:
                block = wrapped(block)
            elif long and any(too_long(line) for line in block) and wrapped(block) != block:
                problems.append(f"{path.relative_to(ROOT)}:{at + 1}: over {WIDTH} columns; --wrap breaks it")
            out += block
            at += len(block)
        if sys.argv[1:] == ["--wrap"]:
            path.write_text("\n".join(out) + "\n", encoding="utf-8")
    print("\n".join(problems) or "the documents are within their width")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

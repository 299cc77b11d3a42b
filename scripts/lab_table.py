#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lab_table.py RESULT.json [DOC.md]: claim, measured and verdict of every experiment as a Markdown table.

Without DOC.md the table is printed. With it, the lines between <!-- lab table --> and <!-- end of lab table --> are
replaced. The reason where claim and measurement differ comes from lab_reasons.json beside RESULT.json, if it is there:
{"ch07/coalescing": "why"}.
"""
import json
import pathlib
import sys
import textwrap

BEGIN, END = "<!-- lab table -->", "<!-- end of lab table -->"


def chosen(experiment, size):
    """The variant the claim is about, or the fastest right one."""
    right = [v for v in size["variants"] if v.get("median_s") and v["verdict"] not in ("wrong", "impossible")]
    named = [v for v in right if v["name"] == experiment["claim"].get("variant")]
    others = [v for v in right if v["verdict"] != "baseline"] or right
    return (named or sorted(others, key=lambda v: v["median_s"]) or [None])[0]


def differs(experiment, variant):
    """Does the measurement contradict the claim's number?"""
    claimed = experiment["claim"].get("speedup", 0)
    if not claimed:
        return False
    if claimed > 1.05 and variant["verdict"] != "faster":
        return True
    return not 0.67 <= variant["speedup"] / claimed <= 1.5


def row(experiment, reasons):
    claim = experiment["claim"].get("text", "")
    speedup = experiment["claim"].get("speedup", 0)
    claimed = f"{claim} ({speedup:g}x)" if speedup else claim
    if experiment.get("skipped") or not experiment["sizes"]:
        return [experiment["id"], claimed, "", "", "skipped", experiment.get("skipped", "")]
    size = experiment["sizes"][-1]
    variant = chosen(experiment, size)
    wrong = [v["name"] for s in experiment["sizes"] for v in s["variants"] if v["verdict"] == "wrong"]
    if variant is None:
        return [experiment["id"], claimed, size["size"], "", "wrong", ", ".join(wrong)]
    measured = f"{variant['speedup']:.2f}x [{variant['speedup_low']:.2f}, {variant['speedup_high']:.2f}] {variant['name']}"
    if variant.get("roof_rate", 0) > 0:
        measured += f", {100 * variant['roof_share']:.0f} % of {variant['roof']}"
    reason = reasons.get(experiment["id"], experiment["mechanism"] if differs(experiment, variant) else "")
    return [experiment["id"], claimed, size["size"], measured, variant["verdict"], reason]


def table(run, reasons):
    lines = ["| experiment | claim | size | measured | verdict | where they differ |", "|---|---|---|---|---|---|"]
    for experiment in run["experiments"]:
        cells = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row(experiment, reasons)]
        lines.append("| " + " | ".join(cells) + " |")
    p = run["provenance"]
    where = ", ".join(filter(None, [p["hardware"], p.get("driver") and "driver " + p["driver"], "commit " + p["commit"], p["time"]]))
    return "\n".join(lines + ["", *textwrap.wrap(f"Measured on {where}.", 120)])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    result = pathlib.Path(sys.argv[1])
    reasons_file = result.with_name("lab_reasons.json")
    reasons = json.loads(reasons_file.read_text()) if reasons_file.exists() else {}
    text = table(json.loads(result.read_text()), reasons)
    if len(sys.argv) == 2:
        print(text)
        return
    page = pathlib.Path(sys.argv[2])
    before, rest = page.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()

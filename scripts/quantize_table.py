#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantizes a model to every format, evaluates each beside its source, and writes the table of docs/quantize.md.

usage: scripts/quantize_table.py [--cheetah PATH] [--model DIR] [--write] [FORMAT ...]
Prints the table; --write puts it into docs/quantize.md and the numbers with their provenance into results/quantize.json.
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- scripts/quantize_table.py writes this -->", "<!-- until here -->"
FORMATS = ["q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "gguf-mxfp4", "fp8", "fp8-tensor", "fp8-block",
           "w8a8", "int8", "mxfp4", "nvfp4", "int4", "rtn-int4", "gptq-int4", "awq-int4", "rtn-int3", "gptq-int3", "awq-int3",
           "gptq-int2"]
GROUPED = ("int", "rtn", "gptq", "awq")


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def quantize(program, model, to, group, folder):
    out = pathlib.Path(folder) / (to + (".gguf" if to[0] == "q" or to.startswith("gguf") else ""))
    command = [program, "quantize", str(model), "--to", to, "--out", str(out), "--json"]
    if to.startswith(GROUPED):
        command += ["--group", str(group)]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    result = json.loads(done.stdout)
    return {"format": to, "bytes": result["bytes"], "seconds": round(time.monotonic() - start, 1), "notes": result["notes"],
            "gate": result["gate"]}


def with_interval(value, digits):
    return f"{value['mean']:.{digits}f} ({value['low']:.{digits}f} – {value['high']:.{digits}f})"


def table(rows, source_bytes):
    before = rows[0]["gate"]["evaluation"]["reference_perplexity"]["mean"]
    lines = ["| `--to` | MB | KL divergence, nats | perplexity | top-1 agreement |", "|---|---|---|---|---|",
             f"| the source | {source_bytes / 1e6:.1f} | 0 | {before:.4f} | 100 % |"]
    for row in rows:
        evaluation = row["gate"]["evaluation"]
        lines.append(f"| `{row['format']}` | {row['bytes'] / 1e6:.1f} | {with_interval(evaluation['kl'], 4)} | "
                     f"{evaluation['perplexity']['mean']:.4f} | {100 * evaluation['top1_agreement']['mean']:.1f} % |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=FORMATS)
    parser.add_argument("--cheetah", default=str(ROOT / "build" / "cheetah"))
    parser.add_argument("--model", default=str(ROOT / "models" / "cub-7m"))
    parser.add_argument("--group", type=int, default=32)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for to in options.formats or FORMATS:
            rows.append(quantize(options.cheetah, options.model, to, options.group, folder))
            print(f"{to}: {rows[-1]['gate']['evaluation']['kl']['mean']:.4f} in {rows[-1]['seconds']} s", file=sys.stderr)
    source_bytes = sum(p.stat().st_size for p in pathlib.Path(options.model).glob("*.safetensors"))
    text = table(rows, source_bytes)
    print(text)
    if not options.write:
        return
    version = subprocess.run([options.cheetah, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    result = {"schema_version": 1, "kind": "quantize", "model": pathlib.Path(options.model).name, "group": options.group,
              "cheetah": version, "cpu": cpu_model(), "date": time.strftime("%Y-%m-%d"), "source_bytes": source_bytes,
              "command": "scripts/quantize_table.py --write", "formats": rows}
    (ROOT / "results" / "quantize.json").write_text(json.dumps(result, indent=1) + "\n")
    page = ROOT / "docs" / "quantize.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + "\n\n" + text + "\n\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()

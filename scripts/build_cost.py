#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a build cost: seconds per module from Ninja's log, tests and CUDA sources apart.

scripts/build_cost.py [BUILD_DIR]    the last time of every output; only of a cold build is it the whole cost
"""
import collections
import pathlib
import re
import sys


def part_of(output):
    match = re.match(r"src/(\w+)/", output)
    module = match.group(1) if match else "other"
    if re.search(r"_test\.dir/|_test$", output):
        return "tests"
    return f"{module} (CUDA)" if output.endswith(".cu.o") else module


def main():
    log = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build") / ".ninja_log"
    times = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output = line.split("\t")[:4]
        times[output] = (int(end) - int(start)) / 1000
    parts = collections.defaultdict(lambda: [0, 0.0])
    for output, seconds in times.items():
        parts[part_of(output)][0] += 1
        parts[part_of(output)][1] += seconds
    for name, (steps, seconds) in sorted(parts.items(), key=lambda item: -item[1][1]):
        print(f"{name:24}{steps:6} steps{seconds:9.0f} s")
    print(f"{'all':24}{len(times):6} steps{sum(times.values()):9.0f} s")


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# clang-tidy over the sources that differ from the merge base with main, on main itself over all sources; of many, over a
# part that changes from commit to commit, so that a commit that passed passes again. Findings fail.
#   scripts/tidy.sh [most files, default 24] [file ...]
set -euo pipefail
cd "$(dirname "$0")/.."
most=${1:-24}
shift || true

[ -f build/compile_commands.json ] || cmake --preset release >/dev/null
if [ $# -gt 0 ]; then
  files=("$@")
else
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  mapfile -t files < <({ git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp'; git ls-files --others --exclude-standard -- 'src/*.cpp'; } | sort -u)
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cpp')
  if [ ${#files[@]} -gt "$most" ]; then
    mapfile -t files < <(printf '%s\n' "${files[@]}" | shuf --random-source=<(yes "$(git rev-parse HEAD)") -n "$most")
  fi
fi

# clang reads neither GCC's precompiled headers nor some of its flags.
mkdir -p build/tidy
python3 - >build/tidy/compile_commands.json <<'P'
import json, re
commands = json.load(open("build/compile_commands.json"))
for entry in commands:
    command = re.sub(r"-include \S*cmake_pch\.hxx|-Winvalid-pch|-fpch-preprocess|-Werror\S*|-Wno-maybe-uninitialized", "", entry["command"])
    entry["command"] = command.split(" -Xclang")[0] if "-Xclang" in command else command
print(json.dumps([e for e in commands if e["file"].endswith(".cpp")]))
P
# Fuzz targets and the like are no part of this build: clang-tidy would have to guess their flags.
mapfile -t files < <(printf '%s\n' "${files[@]}" | python3 -c '
import json, os, sys
known = {os.path.relpath(e["file"]) for e in json.load(open("build/tidy/compile_commands.json"))}
print("\n".join(f for f in sys.stdin.read().split() if f in known))')
echo "clang-tidy: ${#files[@]} sources"
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet 2>/dev/null

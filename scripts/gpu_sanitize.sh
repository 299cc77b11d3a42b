#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs every kernel's tests under compute-sanitizer's four tools, a test at a time and several side by side:
#   scripts/gpu_sanitize.sh [cuda_test, default build/cuda_test] [seconds a test may take, default 240] [tool ...]
# Needs a GPU. Tests of whole models are left out: they run the same kernels and would take hours under the tools.
set -uo pipefail
cd "$(dirname "$0")/.."
program=${1:-build/cuda_test}
limit=${2:-240}
tools=("${@:3}")
[ ${#tools[@]} -gt 0 ] || tools=(racecheck memcheck initcheck synccheck)
[ -x "$program" ] || { echo "gpu_sanitize: $program is not there: make build, or name it" >&2; exit 2; }
command -v compute-sanitizer >/dev/null || { echo "gpu_sanitize: compute-sanitizer is not in PATH: it comes with the CUDA toolkit" >&2; exit 2; }
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

tests=$("$program" --gtest_list_tests --gtest_filter='-*Golden*:*Runner*:*Engine*:Transfer*:Launches*' |
  awk '/^[^ ]/ {suite = $1} /^ / {print suite $1}')
[ -n "$tests" ] || { echo "gpu_sanitize: $program lists no test: it needs a GPU" >&2; exit 2; }

check() {
  local tool=$1 test=$2 log=$3/$1.${2//\//_}.log
  timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" --gtest_brief=1 --gtest_filter="$test" >"$log" 2>&1
  local code=$? verdict=clean
  if [ $code -eq 124 ]; then
    verdict="not done in $limit s"
  elif [ $code -ne 0 ]; then
    verdict="FOUND: $(grep -m1 -E '^========= (Error|Warning|Invalid|Uninit|Barrier|Program|Potential|Race)|Failure|\] .*FAILED' "$log" | cut -c1-160)"
  fi
  printf '%-10s %-90s %s\n' "$tool" "$test" "$verdict" | tee "$log.verdict"
}
export -f check
export program limit
# What takes longest comes first, so that nothing is waited for at the end.
for tool in "${tools[@]}"; do
  grep -E 'Attention|GemmCuda|Sample|Activation' <<<"$tests" | sed "s/^/$tool /"
  grep -vE 'Attention|GemmCuda|Sample|Activation' <<<"$tests" | sed "s/^/$tool /"
done | xargs -P "$(nproc)" -L1 bash -c 'check "$1" "$2" "$0"' "$logs"
clean=$(cat "$logs"/*.verdict | grep -c ' clean$')
all=$(cat "$logs"/*.verdict | wc -l)
echo "$clean of $all clean"
[ "$clean" -eq "$all" ]

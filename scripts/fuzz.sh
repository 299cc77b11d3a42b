#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes every parser of untrusted bytes with address and undefined-behaviour checks:
#   scripts/fuzz.sh [seconds per target, default 60] [target ...]
#   FUZZ_SEED=n (default 1)  a run with the same seed tries the same inputs; "fresh" takes a new one and prints it
#   FUZZ_THIRD=1             only a third of the targets, another one every day
# Seeds: tests/fuzz/corpus/NAME. New finds and crashes stay in build-fuzz/; a crasher belongs among the seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
export FUZZ_SEED=${FUZZ_SEED:-1}
[ "$FUZZ_SEED" = fresh ] && FUZZ_SEED=$((RANDOM * 32768 + RANDOM + 1))

cmake --preset fuzz >build-fuzz-configure.log || { cat build-fuzz-configure.log; exit 1; }
rm -f build-fuzz-configure.log
cmake --build --preset fuzz --target fuzzers -j "$(nproc)" >build-fuzz/build.log || { cat build-fuzz/build.log; exit 1; }

fuzz_one() {
  local name=$1 seconds=$2 log=build-fuzz/$1.log
  local finds=build-fuzz/finds/$name crashes=build-fuzz/crashes/$name seeds=tests/fuzz/corpus/$name
  local options=(-seed="$FUZZ_SEED" -max_total_time="$seconds" -max_len=16384 -rss_limit_mb=512 -timeout=10 -print_final_stats=1
    -artifact_prefix="$crashes/")
  [ -f "tests/fuzz/$name.dict" ] && options+=(-dict="tests/fuzz/$name.dict")
  mkdir -p "$finds" "$crashes"
  local corpus=("$finds")
  [ -d "$seeds" ] && corpus+=("$seeds")
  local result=ok
  # A small quarantine: freed memory would count against the limit otherwise.
  ASAN_OPTIONS=quarantine_size_mb=16 "build-fuzz/${name}_fuzz" "${options[@]}" "${corpus[@]}" >"$log" 2>&1 ||
    result="FAILED, see $log and $crashes/"
  local executions
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  printf 'fuzz %-16s %12s executions  %s\n' "$name" "${executions:-?}" "$result"
  [ "$result" = ok ] || { grep -m1 -E 'ERROR|SUMMARY|runtime error' "$log" || tail -5 "$log"; return 1; }
}
export -f fuzz_one

if [ $# -eq 0 ]; then
  mapfile -t targets < <(find build-fuzz -maxdepth 1 -name '*_fuzz' -executable -printf '%f\n' | sed 's/_fuzz$//' | sort)
  if [ -n "${FUZZ_THIRD:-}" ]; then
    third=()
    for i in "${!targets[@]}"; do
      [ $(((i + 10#$(date +%j)) % 3)) -ne 0 ] || third+=("${targets[i]}")
    done
    targets=("${third[@]}")
  fi
  set -- "${targets[@]}"
fi
echo "fuzz: $# targets, $seconds s each, FUZZ_SEED=$FUZZ_SEED"
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one "$@"' _ {} "$seconds"

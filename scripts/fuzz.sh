#!/usr/bin/env bash
# Fuzzes every parser of untrusted bytes with address and undefined-behaviour checks:
#   scripts/fuzz.sh [seconds per target, default 60] [target ...]
# Seeds: tests/fuzz/corpus/NAME. New finds and crashes stay in build-fuzz/; a crasher belongs among the seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true

cmake --preset fuzz >build-fuzz-configure.log || { cat build-fuzz-configure.log; exit 1; }
rm -f build-fuzz-configure.log
cmake --build --preset fuzz --target fuzzers -j "$(nproc)" >build-fuzz/build.log || { cat build-fuzz/build.log; exit 1; }

fuzz_one() {
  local name=$1 seconds=$2 log=build-fuzz/$1.log
  local finds=build-fuzz/finds/$name crashes=build-fuzz/crashes/$name seeds=tests/fuzz/corpus/$name
  # A fixed seed: a run that passed once passes again, and longer runs go further on the same way.
  local options=(-seed=1 -max_total_time="$seconds" -max_len=16384 -rss_limit_mb=512 -timeout=10 -print_final_stats=1
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
  set -- "${targets[@]}"
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one "$@"' _ {} "$seconds"

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Walks the ways that README.md and docs/install.md describe, each in a bare Debian 12 of its own (debootstrap, needs
# root and a Debian mirror), from nothing to a chat, and prints what each step took.
#   scripts/newcomer.sh [source] [deb] [container] [gpu]    default: all of them
#     source      make run's steps: packages, build, server, chat
#     deb         the package of `make package`: install, server, chat
#     container   the RUN lines of the Containerfile's CPU stages, without a container engine
#     gpu         a host with an NVIDIA GPU and no nvcc is told what it misses
#   KEEP=DIR      keeps the bare system in DIR for the next run
#   DEB=FILE      the package to install (default: the newest of build/cheetah_*.deb)
#   BUILD=no      leaves the long builds out: the table says so, and the steps after them use DEB
set -euo pipefail
cd "$(dirname "$0")/.."
ways=("$@")
[ $# -gt 0 ] || ways=(source deb container gpu)
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
bare=${KEEP:-$work/bare}
port=${PORT:-18090}
server=
root=

finish() {
  stop_server
  for mounted in "$work"/*/proc; do umount "$mounted" 2>/dev/null || true; done
  rm -rf "$work"
}
stop_server() {
  [ -n "$server" ] || return 0
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}
trap finish EXIT

rows=()
# step NAME COMMAND...: runs it, keeps its time, and shows the end of its output when it fails.
step() {
  local name=$1 begin end
  shift
  begin=$(date +%s%N)
  "$@" >"$work/log" 2>&1 || { echo "newcomer: '$name' failed:" >&2; tail -30 "$work/log" >&2; exit 1; }
  end=$(date +%s%N)
  rows+=("$way|$name|$(awk -v ns=$((end - begin)) 'BEGIN { printf "%.1f s", ns / 1e9 }')")
  echo "newcomer: $way: $name: ${rows[-1]##*|}" >&2
}
skipped() { rows+=("$way|$1|$2"); }

# A bare system as $root; what a container engine or a login gives: /proc, /dev/null, a resolver.
fresh() {
  root=$work/$1
  cp -a "$bare" "$root"
  mount -t proc proc "$root/proc"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
}
inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
checkout() { # the tracked files, as a clone has them
  mkdir -p "$root$1"
  git ls-files -z | xargs -0 tar cf - | tar xf - -C "$root$1"
}

# Until the server answers; what `serve` prints names the address.
start_server() { # COMMAND...
  "$@" >"$work/serve" 2>&1 &
  server=$!
  for _ in $(seq 240); do
    curl -sf "http://127.0.0.1:$port/health/ready" >/dev/null && return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.25
  done
  cat "$work/serve"
  return 1
}
chat() { # [HEADER]
  local answer
  answer=$(curl -sf "http://127.0.0.1:$port/v1/chat/completions" -H 'content-type: application/json' "$@" \
    -d '{"model":"cub-7m","messages":[{"role":"user","content":"Tell me a story."}],"max_tokens":40}')
  python3 -c 'import json, sys; assert json.loads(sys.argv[1])["choices"][0]["message"]["content"]' "$answer"
}

newest_deb() { echo "${DEB:-$(ls -t build/cheetah_*.deb 2>/dev/null | head -1)}"; }
need_deb() {
  deb=$(newest_deb)
  [ -f "$deb" ] || { echo "newcomer: no package: run 'make package' first, or name one with DEB=FILE" >&2; exit 1; }
}
install_deb() {
  cp "$deb" "$root/tmp/cheetah.deb"
  step "apt-get update" inside apt-get update -qq
  step "apt-get install ./cheetah_*.deb" inside apt-get install -y -qq --no-install-recommends "$@" /tmp/cheetah.deb
}

way_source() {
  fresh source
  checkout /src
  step "apt-get install git make" inside sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends git make ca-certificates'
  step "make setup (packages)" inside make -C /src setup
  if [ "${BUILD:-yes}" = no ]; then
    skipped "make build" "not run: BUILD=no"
    return
  fi
  step "make build" inside make -C /src build
  step "build/cheetah serve, until ready" start_server inside env -C /src build/cheetah serve --port "$port"
  step "first chat" chat
  stop_server
}

way_deb() {
  need_deb
  fresh deb
  install_deb
  step "cheetah serve, until ready" start_server inside cheetah serve --port "$port"
  step "first chat" chat
  stop_server
}

# The RUN lines of one stage of the Containerfile, continued lines joined.
runs_of() { # STAGE
  awk -v stage="$1" '/^FROM /{ here = $NF == stage } here' Containerfile |
    sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' | sed -n 's/^RUN //p'
}
way_container() {
  if [ "${BUILD:-yes}" = no ]; then
    need_deb
    skipped "RUN … make package" "not run: BUILD=no"
  else
    fresh build-cpu
    checkout /src
    while IFS= read -r line; do step "RUN $line" inside env -C /src sh -c "$line"; done < <(runs_of build-cpu)
    deb=$(ls "$root"/src/build/cheetah_*.deb)
  fi
  fresh cpu
  cp "$deb" "$root/tmp/"
  while IFS= read -r line; do step "RUN ${line:0:60}…" inside sh -c "$line"; done < <(runs_of cpu)
  mkdir -p "$root/models"
  # USER, ENTRYPOINT and CMD as they stand there; a server for a network needs a key, which the engine passes in.
  local user command
  user=$(sed -n 's/^USER //p' Containerfile | head -1)
  command=$(sed -n 's/^ENTRYPOINT //p; s/^CMD //p' Containerfile | python3 -c 'import json, sys; print(" ".join(w for l in sys.stdin for w in json.loads(l)))')
  # shellcheck disable=SC2086  # the words of the command
  step "ENTRYPOINT, until ready" start_server chroot --userspec="$user:$user" "$root" /usr/bin/env -i PATH=/usr/bin:/bin \
    HF_HOME=/models/huggingface CHEETAH_API_KEY=newcomer $command --port "$port"
  step "first chat" chat -H 'authorization: Bearer newcomer'
  stop_server
}

# The configuration in a system without nvcc that has the device file of a GPU.
way_gpu() {
  fresh gpu
  checkout /src
  mknod "$root/dev/nvidia0" c 195 0 2>/dev/null || : >"$root/dev/nvidia0"
  step "make setup (packages)" inside sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends make ca-certificates && make -C /src setup'
  step "configuration" inside env -C /src cmake --preset release
  grep -q 'install the CUDA toolkit 12.4 or later' "$work/log" || { echo "newcomer: nothing is said about the CUDA toolkit" >&2; cat "$work/log" >&2; exit 1; }
  grep '^-- CUDA' "$work/log" >&2
}

way=bare
[ -e "$bare/etc/debian_version" ] || step "debootstrap --variant=minbase bookworm" debootstrap --variant=minbase bookworm "$bare" "$mirror"
for way in "${ways[@]}"; do
  case $way in
    source | deb | container | gpu) "way_$way" ;;
    *) echo "newcomer: '$way' is none of source, deb, container, gpu" >&2; exit 2 ;;
  esac
done
{
  echo "way|step|time"
  printf '%s\n' "${rows[@]}"
} | column -t -s '|'

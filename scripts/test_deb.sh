#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a .deb in a bare Debian 12 (debootstrap, needs root and a Debian mirror), lets it answer a request with the
# embedded model, and removes it again.
#   scripts/test_deb.sh [FILE.deb]        default: the newest of build/cheetah_*.deb
#   KEEP=DIR scripts/test_deb.sh          keeps the bare system in DIR for the next run
set -euo pipefail
cd "$(dirname "$0")/.."
deb=${1:-$(ls -t build/cheetah_*.deb | head -1)}
port=${PORT:-18080}
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
root=$work/root
bare=${KEEP:-$work/bare}
server=

finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  umount "$root/proc" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

say() { echo "test_deb: $*"; }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }

[ -e "$bare/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$bare" "$mirror" >"$work/log" || { tail "$work/log"; exit 1; }
say "a bare Debian $(cat "$bare/etc/debian_version"), $(du -sm "$bare" | cut -f1) MiB"
cp -a "$bare" "$root"
mount -t proc proc "$root/proc" 2>/dev/null || say "no /proc in the chroot: not allowed to mount"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$deb" "$root/tmp/cheetah.deb"

inside apt-get update -qq
inside apt-get install -y -qq --no-install-recommends /tmp/cheetah.deb >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
say "installed $(inside dpkg-query -W -f '${Package} ${Version}, depends on ${Depends}' cheetah)"

inside cheetah version
inside getent passwd cheetah >/dev/null
for file in /usr/share/man/man1/cheetah.1.gz /usr/share/bash-completion/completions/cheetah \
  /usr/share/zsh/vendor-completions/_cheetah /usr/share/fish/vendor_completions.d/cheetah.fish \
  /usr/lib/systemd/system/cheetah@.service /lib/systemd/system/cheetah@.service /usr/share/doc/cheetah/copyright; do
  # /lib is a link to /usr/lib in Debian 12.
  inside test -e "$file" || { say "$file is missing"; exit 1; }
done
inside bash -n /usr/share/bash-completion/completions/cheetah

inside cheetah serve --port "$port" >"$work/serve" 2>&1 &
server=$!
for _ in $(seq 120); do
  curl -sf "http://127.0.0.1:$port/health/ready" >/dev/null && break
  kill -0 "$server" 2>/dev/null || { cat "$work/serve"; exit 1; }
  sleep 0.5
done
answer=$(curl -sf "http://127.0.0.1:$port/v1/completions" -H 'content-type: application/json' \
  -d '{"model":"cub-7m","prompt":"Once upon a time","max_tokens":16,"temperature":0}')
say "answered: $answer"
python3 -c 'import json, sys; assert json.loads(sys.argv[1])["usage"]["completion_tokens"] == 16' "$answer"
curl -sf "http://127.0.0.1:$port/" | grep -qi '<html'
kill "$server"
wait "$server" || true
server=

inside apt-get purge -y -qq cheetah >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
! inside test -e /usr/bin/cheetah
say "passed"

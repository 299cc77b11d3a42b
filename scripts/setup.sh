#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages of packages.txt that are missing; quick when none is.
#   scripts/setup.sh run     what building and running the program needs
#   scripts/setup.sh [test]  that and what the tests need
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-test} in
  run) last='[test]' ;;
  test) last='' ;;
  *) echo "setup: '$1' is neither run nor test" >&2; exit 2 ;;
esac
mapfile -t wanted < <(awk -v last="$last" 'last != "" && $0 == last { exit } /^[a-z]/' "$here/packages.txt")

is_present() {
  case $1 in
    # A Node.js from elsewhere (nvm, NodeSource) serves as well as Debian's, and Debian's npm conflicts with it.
    nodejs) command -v node >/dev/null && return 0 ;;
    npm) command -v npm >/dev/null && return 0 ;;
  esac
  [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ]
}

missing=()
for package in "${wanted[@]}"; do
  is_present "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo)
else
  echo "setup: ${#missing[@]} Debian packages are missing and installing them needs root. Run:" >&2
  echo "  sudo sh -c 'apt-get update && $install'" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

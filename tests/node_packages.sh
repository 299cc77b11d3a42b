# SPDX-License-Identifier: MIT
# Sourced by the tests that need packages of npm, after they set `here` (their folder) and `folder` (where to install).
# Exit 77 tells ctest that a test was skipped.
skip() {
  echo "skipped: $1"
  exit 77
}

need_node() { # [least major version]
  command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are needed"
  [ -z "$1" ] || node -e "process.exit(parseInt(process.versions.node) < $1 ? 1 : 0)" || skip "node $1 is needed"
}

# The packages of package-lock.json, once: a folder that has them is left alone.
install_locked() { # what they are called in messages
  cp "$here/package.json" "$here/package-lock.json" . || exit 1
  cmp -s package-lock.json installed-lock.json && return
  timeout 300 npm ci --no-audit --no-fund --ignore-scripts --fetch-retries=1 >install.log 2>&1 ||
    skip "npm could not install $1 (see $folder/install.log)"
  cp package-lock.json installed-lock.json
}

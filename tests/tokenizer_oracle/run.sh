#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh CHEETAH FOLDER: installs the oracle and the vocabularies into FOLDER once, then compares.
# Exit 77 (skipped) without node, npm or the registry; 1 on a difference.
here=$(cd "$(dirname "$0")" && pwd)
cheetah=$1
folder=$2
. "$here/../node_packages.sh"
need_node
mkdir -p "$folder" && cd "$folder" || exit 1
if ! cmp -s "$here/package.json" installed.json; then
  cp "$here/package.json" package.json
  timeout 300 npm install --no-audit --no-fund --ignore-scripts --fetch-retries=1 >install.log 2>&1 ||
    skip "npm could not install the vocabularies (see $folder/install.log)"
  cp package.json installed.json
fi
node -e 'require("tokenizers")' 2>/dev/null || skip "the native library does not run here"
exec node "$here/compare.mjs" --cheetah "$cheetah" --modules "$folder/node_modules"

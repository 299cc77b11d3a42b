#!/bin/sh
# run.sh CHEETAH MODEL FOLDER: installs the clients into FOLDER once, then lets them talk to `CHEETAH serve MODEL`.
# Exit 77 (skipped) without node 20, npm or the registry; 1 when a test fails.
here=$(cd "$(dirname "$0")" && pwd)
cheetah=$1
model=$2
folder=$3
skip() {
  echo "skipped: $1"
  exit 77
}
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are needed"
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || skip "the clients need node 20"
mkdir -p "$folder" && cd "$folder" || exit 1
cp "$here/package.json" "$here/package-lock.json" . || exit 1
if ! cmp -s package-lock.json installed-lock.json; then
  timeout 300 npm ci --no-audit --no-fund --ignore-scripts --fetch-retries=1 >install.log 2>&1 ||
    skip "npm could not install the clients (see $folder/install.log)"
  cp package-lock.json installed-lock.json
fi
cp "$here"/*.mjs . || exit 1  # beside node_modules, where imports are looked up
export CHEETAH="$cheetah" CHEETAH_MODEL="$model"
exec node --test openai.test.mjs openai_errors.test.mjs responses.test.mjs anthropic.test.mjs

#!/bin/sh
# run.sh CHEETAH FOLDER: installs playwright-core into FOLDER once, then drives the page of `CHEETAH serve` in Chromium.
# Exit 77 (skipped) without node, npm, Chromium or the registry; 1 when a test fails.
here=$(cd "$(dirname "$0")" && pwd)
cheetah=$1
folder=$2
skip() {
  echo "skipped: $1"
  exit 77
}
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are needed"
mkdir -p "$folder/web" && cd "$folder" || exit 1
cp "$here/package.json" "$here/package-lock.json" . && cp "$here"/../../web/*.js web/ || exit 1
node "$here/units.mjs" "$folder" || exit 1
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || skip "playwright-core needs node 20"
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "Chromium is needed"
if ! cmp -s "$here/package-lock.json" installed-lock.json; then
  timeout 300 npm ci --no-audit --no-fund --ignore-scripts --fetch-retries=1 >install.log 2>&1 ||
    skip "npm could not install playwright-core (see $folder/install.log)"
  cp package-lock.json installed-lock.json
fi
exec node "$here/page.mjs" "$cheetah" "$chromium" "$folder"

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh CHEETAH FOLDER: installs playwright-core into FOLDER once, then drives the page of `CHEETAH serve` in Chromium.
# Exit 77 (skipped) without node, npm, Chromium or the registry; 1 when a test fails.
here=$(cd "$(dirname "$0")" && pwd)
cheetah=$1
folder=$2
. "$here/../node_packages.sh"
need_node
mkdir -p "$folder/web" && cd "$folder" || exit 1
cp "$here/package.json" . && cp "$here"/../../web/*.js web/ || exit 1
node "$here/units.mjs" "$folder" || exit 1
need_node 20
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "Chromium is needed"
install_locked playwright-core
node "$here/page.mjs" "$cheetah" "$chromium" "$folder" || exit 1
exec node "$here/reports.mjs" "$cheetah" "$chromium" "$folder"

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh CHEETAH MODEL FOLDER: installs gRPC's client into FOLDER once, then asks the endpoint picker of a small cluster.
# Exit 77 (skipped) without node 20, npm or the registry, or where this cheetah has no endpoint picker; 1 when a test fails.
here=$(cd "$(dirname "$0")" && pwd)
cheetah=$1
model=$2
folder=$3
. "$here/../node_packages.sh"
need_node 20
"$cheetah" serve --print-config 2>/dev/null | grep -q '^endpoint-picker-port' || skip "this cheetah has no endpoint picker"
mkdir -p "$folder" && cd "$folder" || exit 1
install_locked "gRPC's client"
cp "$here"/*.mjs "$here"/*.proto . || exit 1  # beside node_modules, where imports are looked up
export CHEETAH="$cheetah" CHEETAH_MODEL="$model"
exec node --test picker.test.mjs

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh CHEETAH MODEL FOLDER: installs the clients into FOLDER once, then lets them talk to `CHEETAH serve MODEL`.
# Exit 77 (skipped) without node 20, npm or the registry; 1 when a test fails.
here=$(cd "$(dirname "$0")" && pwd)
cheetah=$1
model=$2
folder=$3
. "$here/../node_packages.sh"
need_node 20
mkdir -p "$folder" && cd "$folder" || exit 1
install_locked "the clients"
cp "$here"/*.mjs . || exit 1  # beside node_modules, where imports are looked up
export CHEETAH="$cheetah" CHEETAH_MODEL="$model"
exec node --test openai.test.mjs openai_errors.test.mjs responses.test.mjs kept_responses.test.mjs batches.test.mjs anthropic.test.mjs ollama.test.mjs \
  langchain.test.mjs vercel.test.mjs

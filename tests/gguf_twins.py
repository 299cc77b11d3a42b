#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every GGUF architecture against the golden outputs of its Hugging Face form.

usage: gguf_twins.py CHEETAH_BINARY
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TWINS = ["llama", "llama3-rope", "llama-yarn", "llama-linear", "llama-bias", "mixtral", "granite", "qwen2", "qwen3", "gemma2", "olmo2",
         "phi3", "phi3-longrope", "gpt2", "gpt_oss", "deepseek_v2", "deepseek_v2-lite", "deepseek_v3", "deepseek_v3-yarn",
         "glm4_moe", "cohere2", "olmoe", "starcoder2", "gpt_neox"]
F16_TWINS = ["llama-bias", "mixtral", "gpt2"]  # stored in BF16


def main():
    cheetah = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, options in [(name, []) for name in TWINS] + [(name, ["--f16"]) for name in F16_TWINS]:
            paths.append(pathlib.Path(folder) / f"{name}{'-F16' if options else ''}.gguf")
            subprocess.run([sys.executable, HERE / "gguf_from_hf.py", HERE / "models" / name, paths[-1], *options], check=True)
        result = subprocess.run([cheetah, "verify", *map(str, paths)], capture_output=True, text=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
        sys.exit(1)
    print(f"{len(paths)} passed, 0 failed")


if __name__ == "__main__":
    main()

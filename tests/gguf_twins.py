#!/usr/bin/env python3
"""Every GGUF architecture against the golden outputs of its Hugging Face form.

usage: gguf_twins.py CHEETAH_BINARY
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TWINS = ["llama", "llama3-rope", "llama-yarn", "llama-linear", "llama-bias", "mixtral", "granite", "qwen2", "qwen3", "gemma2", "olmo2",
         "phi3", "phi3-longrope", "gpt2", "gpt_oss", "deepseek_v2", "deepseek_v2-lite", "deepseek_v3", "deepseek_v3-yarn"]


def main():
    cheetah = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{name}.gguf" for name in TWINS]
        for name, path in zip(TWINS, paths):
            subprocess.run([sys.executable, HERE / "gguf_from_hf.py", HERE / "models" / name, path], check=True)
        result = subprocess.run([cheetah, "verify", *map(str, paths)], capture_output=True, text=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
        sys.exit(1)
    print(f"{len(TWINS)} passed, 0 failed")


if __name__ == "__main__":
    main()

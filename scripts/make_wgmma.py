#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/gpu/wgmma.cuh, wgmma_fp8.cuh and wgmma_rows.cuh: the warpgroup products whose operand lists are too long to
write by hand. With --check it only compares them with what it would write."""
import subprocess
import sys
from pathlib import Path

# The instruction's inner dimension (32 bytes of each operand), its types, and what follows the scales.
TYPES = {"kBf16": ("k16.f32.bf16.bf16", ", 0, 0"), "kF16": ("k16.f32.f16.f16", ", 0, 0"), "kE4m3": ("k32.f32.e4m3.e4m3", "")}

HEAD = '''// SPDX-License-Identifier: MIT
#pragma once
// Warpgroup matrix products, D[64, N] += A[64, K] B[N, K]^T with both operands in shared memory, K innermost.
// Written by scripts/make_wgmma.py.
#include <cstdint>

namespace cheetah::wgmma {

__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Where an operand lies: rows of 128 bytes, swizzled as the copy engine writes them in 128-byte mode, eight
// rows a group of 1024 bytes. Base addresses are multiples of 1024; moving along K within the 128 bytes adds
// to them.
__device__ inline uint64_t descriptor(uint32_t shared_address) {
  return (uint64_t{1} << 62) | (uint64_t{64} << 32) | (uint64_t{1} << 16) | ((shared_address & 0x3FFFF) >> 4);
}

enum class Input { kBf16, kF16, kE4m3 };  // kE4m3: products in wgmma_fp8.cuh

template <Input kInput, int kN>
struct Product;  // static void add(float (&d)[kN / 2], uint64_t a, uint64_t b)
'''

REGISTER_HEAD = '''
// The same with A in registers and B's N innermost: groups of eight rows of K follow each other every 1024
// bytes, blocks of 64 columns every `block_bytes`.
__device__ inline uint64_t transposed_descriptor(uint32_t shared_address, uint32_t block_bytes) {
  return (uint64_t{1} << 62) | (uint64_t{64} << 32) | (uint64_t{block_bytes >> 4} << 16) |
         ((shared_address & 0x3FFFF) >> 4);
}

template <Input kInput, int kN>
struct RegisterProduct;
'''


def product(kind, n):
    count = n // 2
    types, layouts = TYPES[kind]
    regs = ["%" + str(i) for i in range(count)]
    lines = [", ".join(regs[i:i + 16]) for i in range(0, count, 16)]
    body = '"\n        "'.join(line + (", " if i + 1 < len(lines) else "") for i, line in enumerate(lines))
    outs = [f'"+f"(d[{i}])' for i in range(count)]
    out_lines = [", ".join(outs[i:i + 6]) for i in range(0, count, 6)]
    return f'''
template <>
struct Product<Input::{kind}, {n}> {{
  __device__ static void add(float (&d)[{count}], uint64_t a, uint64_t b, int accumulate) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}{types} {{"
        "{body}"
        "}}, %{count}, %{count + 1}, p, 1, 1{layouts};\\n}}"
        : {(','+chr(10)+'          ').join(out_lines)}
        : "l"(a), "l"(b), "r"(accumulate));
  }}
}};
'''


def product_from_registers(kind, n, name="RegisterProduct", b_layout=1):
    """A from registers (four of them), B with N innermost (1: the second product of attention) or K (0)."""
    count = n // 2
    types = TYPES[kind][0]
    regs = ["%" + str(i) for i in range(count)]
    lines = [", ".join(regs[i:i + 16]) for i in range(0, count, 16)]
    body = '"\n        "'.join(line + (", " if i + 1 < len(lines) else "") for i, line in enumerate(lines))
    outs = [f'"+f"(d[{i}])' for i in range(count)]
    out_lines = [", ".join(outs[i:i + 6]) for i in range(0, count, 6)]
    return f'''
template <>
struct {name}<Input::{kind}, {n}> {{
  __device__ static void add(float (&d)[{count}], const uint32_t (&a)[4], uint64_t b, int accumulate) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 5}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}{types} {{"
        "{body}"
        "}}, {{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}, %{count + 4}, p, 1, 1, {b_layout};\\n}}"
        : {(','+chr(10)+'          ').join(out_lines)}
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }}
}};
'''


FP8_HEAD = '''// SPDX-License-Identifier: MIT
#pragma once
// Warpgroup products of E4M3 numbers: as in wgmma.cuh, 32 of K an instruction. Written by
// scripts/make_wgmma.py.
#include "gpu/wgmma.cuh"

namespace cheetah::wgmma {
'''

ROWS_HEAD = '''// SPDX-License-Identifier: MIT
#pragma once
// Warpgroup products with A, [64, 16] a step, in registers and B in shared memory as in wgmma.cuh, K
// innermost. A warp has 16 of A's rows; a lane the pairs at (lane / 4, lane % 4 * 2), eight rows below, and
// both eight columns on. Written by scripts/make_wgmma.py.
#include "gpu/wgmma.cuh"

namespace cheetah::wgmma {

template <Input kInput, int kN>
struct RowsProduct;
'''


def files():
    """Name in src/gpu -> its text, before formatting."""
    end = "\n}  // namespace cheetah::wgmma\n"
    shared = "".join(product(kind, n) for kind in ("kBf16", "kF16") for n in (8, 16, 32, 64, 128, 256))
    registers = "".join(product_from_registers(kind, n) for kind in ("kBf16", "kF16") for n in (64, 128))
    rows = "".join(product_from_registers("kBf16", n, "RowsProduct", 0) for n in (16, 32, 64))
    fp8 = "".join(product("kE4m3", n) for n in (16, 64, 128, 256))
    return {"wgmma.cuh": HEAD + shared + REGISTER_HEAD + registers + end,
            "wgmma_fp8.cuh": FP8_HEAD + fp8 + end,
            "wgmma_rows.cuh": ROWS_HEAD + rows + end}


def main():
    check = sys.argv[1:] == ["--check"]
    folder = Path(__file__).resolve().parent.parent / "src/gpu"
    differing = []
    for name, text in files().items():
        formatted = subprocess.run(["clang-format", f"--assume-filename={folder / name}"], input=text, capture_output=True,
                                   text=True, check=True).stdout
        if not check:
            (folder / name).write_text(formatted, encoding="utf-8")
        elif formatted != (folder / name).read_text(encoding="utf-8"):
            differing.append(f"src/gpu/{name}: not what scripts/make_wgmma.py writes; run it")
    print("\n".join(differing) or ("src/gpu/wgmma*.cuh are as written" if check else "written"))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

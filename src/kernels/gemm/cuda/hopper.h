// SPDX-License-Identifier: MIT
#pragma once
// y = x W^T on Hopper's tensor cores: BF16, F16 or FP8 in, sums in F32. Device pointers everywhere.
#include <cstddef>
#include <cstdint>

#include "gpu/stream.h"
#include "gpu/tensor_map.h"
#include "tensor/bf16.h"
#include "tensor/dtype.h"

namespace cheetah::gpu {

struct HopperGemmArgs {
  DType dtype = DType::kBF16;  // of x and w: BF16, F16 or F8E4M3
  const void* x = nullptr;     // [m, k]
  int64_t x_stride = 0;        // elements between rows: 16 bytes, or a multiple of them
  int64_t m = 0;
  const void* w = nullptr;  // [n, k], dense; rows as x's
  int64_t n = 0;
  int64_t k = 0;
  // What each row of x (FP8; F16 or none), and of W each row or 128 x 128 numbers (FP8), is to be multiplied with.
  const float* x_scales = nullptr;  // [m]
  const float* w_scales = nullptr;  // [n] or none, or [n / 128, k / 128] rounded up
  bool block_scales = false;
  const float* bias = nullptr;     // [n]
  const void* residual = nullptr;  // [m, outputs] BF16, added to the result
  int64_t residual_stride = 0;
  // The first half of W's rows are gates, the second half what they let through: y = silu(gate) * up, n / 2
  // outputs.
  bool gated = false;
  DType y_dtype = DType::kBF16;  // or F32 (skinny only)
  void* y = nullptr;             // [m, outputs]
  int64_t y_stride = 0;          // a multiple of 8
  // W was not written by the kernel just before: its copies may start before that one ends.
  bool w_is_settled = true;
  // Room for what a library's kernel leaves behind, or none: it then has fewer kernels to choose from.
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;

  int64_t outputs() const { return gated ? n / 2 : n; }
};

// Whether the tensor cores and the copy engine can read these operands.
bool hopper_gemm_fits(const HopperGemmArgs& args, const DeviceInfo& device);

// Prompts: tiles of 128 x 256 (128 x 128 with block scales), persistent, W shared by pairs of blocks. 2 m n k
// FLOP.
void hopper_tile_gemm(const HopperGemmArgs& args, Stream& stream);

// How the tiles share the card: pairs of blocks above or beside each other, or the two blocks of a cluster
// each with a part of K for one tile (not with scales of blocks).
struct TilePlan {
  bool beside = false;
  int splits = 1;       // or 2
  bool narrow = false;  // tiles of 128 x 128, in two parts
};
TilePlan plan_tiles(const HopperGemmArgs& args, int num_multiprocessors);
void hopper_planned_tiles(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream);
void hopper_split_gemm(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream);

// Decode steps: at most 64 rows of x. W is read once at memory speed. Outputs in groups of four.
inline constexpr int64_t kMaxSkinnyRows = 64;
void hopper_skinny_gemm(const HopperGemmArgs& args, Stream& stream);
void hopper_skinny_fp8_gemm(const HopperGemmArgs& args, Stream& stream);
void hopper_skinny_f16_gemm(const HopperGemmArgs& args, Stream& stream);

// Logits of large batches: at most 256 rows of x, no scales of blocks, no gates. W is read
// once.
inline constexpr int64_t kMaxWideRows = 256;
bool hopper_wide_fits(const HopperGemmArgs& args);
void hopper_wide_gemm(const HopperGemmArgs& args, Stream& stream);

// Whether reading W once for every 64 rows takes less time than tiles that do not fill the card: batches a
// little above 64 rows, and few outputs.
bool prefers_skinny(const HopperGemmArgs& args, int num_multiprocessors);

// Blocks that share a skinny product's inner dimension, so that all multiprocessors have work: 1, 2, 4 or 8.
int skinny_splits(int64_t tiles, int64_t k_blocks, int num_multiprocessors);

// Rows [offsets[e], offsets[e + 1]) of x through matrix e, all of one shape and type: BF16, F16, or FP8
// with scales.
inline constexpr int64_t kMaxGroups = 384;
struct HopperGroupedArgs {
  DType dtype = DType::kBF16;
  const void* x = nullptr;  // [rows, k]
  int64_t x_stride = 0;
  int64_t rows = 0;
  const TensorMap* w = nullptr;  // [count] on the device, of grouped_weight_map
  int64_t count = 0;             // at most kMaxGroups
  int64_t n = 0;
  int64_t k = 0;
  const int32_t* offsets = nullptr;        // [count + 1], ascending from 0 to rows
  const float* x_scales = nullptr;         // FP8 and F16: [rows]
  const float* const* w_scales = nullptr;  // FP8: [count] of HopperGemmArgs::w_scales
  bool block_scales = false;
  const float* const* biases = nullptr;  // [count] of [n]
  bool gated = false;
  void* y = nullptr;  // [rows, outputs] BF16
  int64_t y_stride = 0;

  int64_t outputs() const { return gated ? n / 2 : n; }
};
TensorMap grouped_weight_map(const void* w, DType dtype, int64_t n, int64_t k);
bool hopper_grouped_fits(const HopperGroupedArgs& args, const DeviceInfo& device);
void hopper_grouped_tiles(const HopperGroupedArgs& args, Stream& stream);   // many rows per expert
void hopper_grouped_skinny(const HopperGroupedArgs& args, Stream& stream);  // a few

// x [m, k] BF16, rows x_stride apart, as E4M3 numbers: dense rows, each with the scale that makes its largest
// number 448. k a multiple of 8.
struct NarrowRowsArgs {
  const Bf16* x = nullptr;
  int64_t x_stride = 0;
  int64_t m = 0;
  int64_t k = 0;
  std::byte* y = nullptr;   // [m, k], 16-byte aligned
  float* scales = nullptr;  // [m]
};
void narrow_rows(const NarrowRowsArgs& args, Stream& stream);
// … as F16 numbers, [m, k], each row with the power of two that makes them fit.
void narrow_rows_to_f16(const NarrowRowsArgs& args, Stream& stream);

}  // namespace cheetah::gpu

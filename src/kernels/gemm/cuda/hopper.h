#pragma once
// y = x W^T on Hopper's tensor cores: BF16 or F16 in, sums in F32. Device pointers everywhere.
#include <cstdint>

#include "gpu/stream.h"
#include "tensor/dtype.h"

namespace cheetah::gpu {

struct HopperGemmArgs {
  DType dtype = DType::kBF16;  // of x, w, residual: BF16 or F16
  const void* x = nullptr;     // [m, k]
  int64_t x_stride = 0;        // elements between rows, a multiple of 8
  int64_t m = 0;
  const void* w = nullptr;  // [n, k], dense; k a multiple of 8
  int64_t n = 0;
  int64_t k = 0;
  const float* bias = nullptr;     // [n]
  const void* residual = nullptr;  // [m, outputs], added to the result
  int64_t residual_stride = 0;
  // The first half of W's rows are gates, the second half what they let through: y = silu(gate) * up, n / 2
  // outputs.
  bool gated = false;
  DType y_dtype = DType::kBF16;  // as dtype, or F32 (skinny only)
  void* y = nullptr;             // [m, outputs]
  int64_t y_stride = 0;          // a multiple of 8
  // W was not written by the kernel just before: its copies may start before that one ends.
  bool w_is_settled = true;

  int64_t outputs() const { return gated ? n / 2 : n; }
};

// Whether the tensor cores and the copy engine can read these operands.
bool hopper_gemm_fits(const HopperGemmArgs& args, const DeviceInfo& device);

// Prompts: tiles of 128 x 256, persistent, W shared by pairs of blocks. 2 m n k FLOP.
void hopper_tile_gemm(const HopperGemmArgs& args, Stream& stream);

// Decode steps: at most 64 rows of x. W is read once at memory speed: n k 2 bytes. Outputs in groups of four.
inline constexpr int64_t kMaxSkinnyRows = 64;
void hopper_skinny_gemm(const HopperGemmArgs& args, Stream& stream);

// Whether reading W once for every 64 rows takes less time than tiles that do not fill the card: batches a
// little above 64 rows, and few outputs.
bool prefers_skinny(const HopperGemmArgs& args, int num_multiprocessors);

// Blocks that share a skinny product's inner dimension, so that all multiprocessors have work: 1, 2, 4 or 8.
int skinny_splits(int64_t tiles, int num_multiprocessors);

}  // namespace cheetah::gpu

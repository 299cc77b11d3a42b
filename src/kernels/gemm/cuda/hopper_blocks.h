// SPDX-License-Identifier: MIT
#pragma once
// Decode products with weights in blocks of four to eight bits. Device pointers everywhere.
#include "gpu/stream.h"
#include "kernels/gemm/gemm.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// x is rounded to eight bits in blocks of 32: gemm.h's bound for native products of quantized weights.
struct HopperBlocksArgs {
  const Bf16* x = nullptr;  // [m, w.cols]
  int64_t x_stride = 0;     // a multiple of 8
  int64_t m = 0;
  WeightMatrix w;               // Q8_0, Q4_0, Q4_K, Q5_K or Q6_K
  const float* bias = nullptr;  // [w.rows]
  bool gated = false;           // as GemmArgs
  const Bf16* residual = nullptr;
  int64_t residual_stride = 0;
  bool f32_output = false;
  void* y = nullptr;  // [m, outputs] F32 or BF16
  int64_t y_stride = 0;
};
inline constexpr int64_t kMaxBlocksRows = 8;  // above, widening W once costs less
bool hopper_blocks_fits(const HopperBlocksArgs& args, const DeviceInfo& device);
void hopper_blocks_gemm(const HopperBlocksArgs& args, Stream& stream);

}  // namespace cheetah::gpu

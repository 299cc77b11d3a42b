// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_blocks.h"

namespace cheetah::gpu {

bool hopper_gemm_fits(const HopperGemmArgs& args, const DeviceInfo& device) {
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  const bool fp8 = args.dtype == DType::kF8E4M3;
  if (fp8 && (!args.x_scales || (args.block_scales && !args.w_scales))) return false;
  if (args.block_scales && args.gated && args.n % 256 != 0) return false;  // 64 of each half have one scale
  const int64_t piece = fp8 ? 16 : 8;                                      // of 16 bytes
  return device.is_hopper() && (fp8 || args.dtype == DType::kBF16 || args.dtype == DType::kF16) &&
         args.k > 0 && args.k % piece == 0 && args.x_stride % piece == 0 && args.y_stride % 8 == 0 &&
         args.outputs() % 8 == 0 && (!args.residual || args.residual_stride % 8 == 0) &&
         aligned(args.residual) && aligned(args.x) && aligned(args.w) && aligned(args.y) &&
         aligned(args.bias) && aligned(args.w_scales);
}

bool hopper_grouped_fits(const HopperGroupedArgs& args, const DeviceInfo& device) {
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  const bool fp8 = args.dtype == DType::kF8E4M3;
  if (fp8 && (!args.x_scales || (args.block_scales && !args.w_scales))) return false;
  if (args.block_scales && args.gated && args.n % 256 != 0) return false;  // 64 of each half have one scale
  const int64_t piece = fp8 ? 16 : 8;                                      // of 16 bytes
  return device.is_hopper() && (fp8 || args.dtype == DType::kBF16 || args.dtype == DType::kF16) && args.w &&
         args.offsets && args.count <= kMaxGroups && args.k > 0 && args.k % piece == 0 &&
         args.x_stride % piece == 0 && args.y_stride % 8 == 0 && args.outputs() % 8 == 0 && aligned(args.x) &&
         aligned(args.y);
}

bool hopper_blocks_fits(const HopperBlocksArgs& args, const DeviceInfo& device) {
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  constexpr std::array kTypes = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
  constexpr int64_t kMostCols = 64 << 10;  // of one row of x beside a ring
  const WeightMatrix& w = args.w;
  return device.is_hopper() && std::ranges::find(kTypes, w.dtype) != kTypes.end() &&
         args.m <= kMaxBlocksRows && w.cols > 0 && w.cols % 32 == 0 && w.cols <= kMostCols &&
         args.x_stride % 8 == 0 && w.rows * row_bytes(w.dtype, w.cols) % 16 == 0 && aligned(args.x) &&
         aligned(w.data);
}

namespace {

constexpr int64_t kTileRows = 128, kTileColumns = 256;
// What a tile's start and end take, in steps of 128 bytes along K (NOTES.md): whole, in parts, narrow in
// parts.
constexpr int64_t kTileSteps = 4, kPartSteps = 8, kNarrowSteps = 2;

int64_t ceil_of(int64_t count, int64_t each) { return (count + each - 1) / each; }
int64_t k_steps(const HopperGemmArgs& args) {
  return ceil_of(args.k, args.dtype == DType::kF8E4M3 ? 128 : 64);
}

// Steps until the last multiprocessor is done. Narrow tiles take three quarters of a step each.
int64_t steps_of(const HopperGemmArgs& args, const TilePlan& plan, int num_multiprocessors) {
  const int64_t rows = ceil_of(args.m, kTileRows), clusters = num_multiprocessors / 2,
                columns = ceil_of(args.n, args.block_scales || plan.narrow ? kTileColumns / 2 : kTileColumns);
  if (plan.splits > 1) {
    const int64_t steps = ceil_of(k_steps(args), plan.splits);
    return ceil_of(rows * columns, clusters) *
           (plan.narrow ? ceil_of(steps * 3, 4) + kNarrowSteps : steps + kPartSteps);
  }
  const int64_t pairs = plan.beside ? rows * ceil_of(columns, 2) : ceil_of(rows, 2) * columns;
  return ceil_of(pairs, clusters) * (k_steps(args) + kTileSteps);
}

}  // namespace

TilePlan plan_tiles(const HopperGemmArgs& args, int num_multiprocessors) {
  TilePlan best;
  int64_t least = steps_of(args, best, num_multiprocessors);
  const auto consider = [&](const TilePlan& plan) {
    const int64_t steps = steps_of(args, plan, num_multiprocessors);
    if (steps >= least) return;
    least = steps;
    best = plan;
  };
  consider({.beside = true});
  if (!args.block_scales && k_steps(args) >= 4) {
    consider({.splits = 2});
    consider({.splits = 2, .narrow = true});
  }
  return best;
}

// Rates of an H200 (NOTES.md): what a skinny product reads, and what a block takes for a step along K.
bool prefers_skinny(const HopperGemmArgs& args, int num_multiprocessors) {
  constexpr double kReadBytesAUs = 3.3e6, kStepUs = 0.7, kStartUs = 3;
  constexpr int64_t kMostParts = 4;
  const int64_t size = args.dtype == DType::kF8E4M3 ? 1 : 2, parts = ceil_of(args.m, kMaxSkinnyRows);
  if (parts == 1) return true;
  if (parts > kMostParts) return false;
  const auto bytes = static_cast<double>(size * args.n * args.k);
  const int64_t steps = steps_of(args, plan_tiles(args, num_multiprocessors), num_multiprocessors);
  return static_cast<double>(parts) * (bytes / kReadBytesAUs + kStartUs) <
         static_cast<double>(steps) * kStepUs + kStartUs;
}

int skinny_splits(int64_t tiles, int64_t k_blocks, int num_multiprocessors) {
  // More parts fill the card. Beyond one and a half blocks an SM their sums cost more than they hide, unless
  // each still has much to read (H200).
  constexpr int64_t kMuch = 28;
  const auto is_too_many = [&](int splits) {
    const int64_t blocks = tiles * splits;
    return blocks > 2 * num_multiprocessors ||
           (2 * blocks > 3 * num_multiprocessors && k_blocks < kMuch * splits);
  };
  int splits = 8;
  while (splits > 1 && is_too_many(splits)) splits /= 2;
  return splits;
}

bool hopper_wide_fits(const HopperGemmArgs& args) { return !args.gated && !args.block_scales; }

}  // namespace cheetah::gpu

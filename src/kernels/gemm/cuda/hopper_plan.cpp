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
  return device.is_hopper() && (fp8 || args.dtype == DType::kBF16) && args.w && args.offsets &&
         args.count <= kMaxGroups && args.k > 0 && args.k % piece == 0 && args.x_stride % piece == 0 &&
         args.y_stride % 8 == 0 && args.outputs() % 8 == 0 && aligned(args.x) && aligned(args.y);
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

// Rates of an H200 (NOTES.md): what a skinny product reads, and what a block takes for 64 of K.
bool prefers_skinny(const HopperGemmArgs& args, int num_multiprocessors) {
  constexpr double kReadBytesAUs = 3.3e6, kStepUs = 0.7, kStartUs = 3;
  const int64_t size = args.dtype == DType::kF8E4M3 ? 1 : 2, tile_k = 128 / size;
  constexpr int64_t kMostParts = 4, kTilePairRows = 256, kTileColumns = 256;
  const auto ceil_of = [](int64_t count, int64_t each) { return (count + each - 1) / each; };
  const int64_t parts = ceil_of(args.m, kMaxSkinnyRows);
  if (parts == 1) return true;
  if (parts > kMostParts) return false;
  const int64_t blocks = 2 * ceil_of(args.m, kTilePairRows) * ceil_of(args.n, kTileColumns);
  const auto bytes = static_cast<double>(size * args.n * args.k);
  const double skinny_us = static_cast<double>(parts) * (bytes / kReadBytesAUs + kStartUs);
  const double tiles_us = static_cast<double>(ceil_of(blocks, num_multiprocessors)) *
                          (static_cast<double>(ceil_of(args.k, tile_k)) * kStepUs + kStartUs);
  return skinny_us < tiles_us;
}

int skinny_splits(int64_t tiles, int num_multiprocessors) {
  // More parts fill the card; beyond one and a half blocks an SM their sums cost more than they hide (H200).
  int splits = 8;
  while (splits > 1 && 2 * tiles * splits > 3 * num_multiprocessors) splits /= 2;
  return splits;
}

}  // namespace cheetah::gpu

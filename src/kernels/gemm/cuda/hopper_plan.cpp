#include <cstdint>

#include "kernels/gemm/cuda/hopper.h"

namespace cheetah::gpu {

bool hopper_gemm_fits(const HopperGemmArgs& args, const DeviceInfo& device) {
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  return device.is_hopper() && (args.dtype == DType::kBF16 || args.dtype == DType::kF16) && args.k > 0 &&
         args.k % 8 == 0 && args.x_stride % 8 == 0 && args.y_stride % 8 == 0 && args.outputs() % 8 == 0 &&
         (!args.residual || args.residual_stride % 8 == 0) && aligned(args.residual) && aligned(args.x) &&
         aligned(args.w) && aligned(args.y) && aligned(args.bias);
}

// Rates of an H200 (NOTES.md): what a skinny product reads, and what a block takes for 64 of K.
bool prefers_skinny(const HopperGemmArgs& args, int num_multiprocessors) {
  constexpr double kReadBytesAUs = 3.3e6, kStepUs = 0.7, kStartUs = 3;
  constexpr int64_t kMostParts = 4, kTilePairRows = 256, kTileColumns = 256, kTileK = 64;
  const auto ceil_of = [](int64_t count, int64_t size) { return (count + size - 1) / size; };
  const int64_t parts = ceil_of(args.m, kMaxSkinnyRows);
  if (parts == 1) return true;
  if (parts > kMostParts) return false;
  const int64_t blocks = 2 * ceil_of(args.m, kTilePairRows) * ceil_of(args.n, kTileColumns);
  const auto bytes = 2.0 * static_cast<double>(args.n * args.k);
  const double skinny_us = static_cast<double>(parts) * (bytes / kReadBytesAUs + kStartUs);
  const double tiles_us = static_cast<double>(ceil_of(blocks, num_multiprocessors)) *
                          (static_cast<double>(ceil_of(args.k, kTileK)) * kStepUs + kStartUs);
  return skinny_us < tiles_us;
}

int skinny_splits(int64_t tiles, int num_multiprocessors) {
  // More parts fill the card; beyond one and a half blocks an SM their sums cost more than they hide (H200).
  int splits = 8;
  while (splits > 1 && 2 * tiles * splits > 3 * num_multiprocessors) splits /= 2;
  return splits;
}

}  // namespace cheetah::gpu

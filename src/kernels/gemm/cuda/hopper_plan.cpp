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

int skinny_splits(int64_t tiles, int num_multiprocessors) {
  // More parts fill the card; beyond one and a half blocks an SM their sums cost more than they hide (H200).
  int splits = 8;
  while (splits > 1 && 2 * tiles * splits > 3 * num_multiprocessors) splits /= 2;
  return splits;
}

}  // namespace cheetah::gpu

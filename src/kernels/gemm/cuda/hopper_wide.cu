// SPDX-License-Identifier: MIT
// Products of 65 to 256 rows and many outputs: the skinny kernel with as many rows of x as one or two blocks
// a multiprocessor have registers for their sums.
#include "kernels/gemm/cuda/hopper_skinny.cuh"

namespace cheetah::gpu {
namespace {

template <wgmma::Input kInput>
void launch_wide(const HopperGemmArgs& args, Stream& stream) {
  const int64_t tiles = (args.n + skinny::kRows - 1) / skinny::kRows;
  if (args.m <= 128) return skinny::launch_product<kInput, 128, 1, false>(args, tiles, stream);
  skinny::launch_product<kInput, 256, 1, false>(args, tiles, stream);
}

}  // namespace

void hopper_wide_gemm(const HopperGemmArgs& args, Stream& stream) {
  if (args.dtype == DType::kF8E4M3) return launch_wide<wgmma::Input::kE4m3>(args, stream);
  if (args.dtype == DType::kF16) return launch_wide<wgmma::Input::kF16>(args, stream);
  launch_wide<wgmma::Input::kBf16>(args, stream);
}

}  // namespace cheetah::gpu

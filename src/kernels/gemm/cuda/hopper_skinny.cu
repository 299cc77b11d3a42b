// SPDX-License-Identifier: MIT
// The skinny products of BF16, and the choice by type.
#include "kernels/gemm/cuda/hopper_skinny.cuh"

namespace cheetah::gpu {

void hopper_skinny_gemm(const HopperGemmArgs& args, Stream& stream) {
  constexpr wgmma::Input kBf16 = wgmma::Input::kBf16;
  if (args.dtype == DType::kF8E4M3) return hopper_skinny_fp8_gemm(args, stream);
  if (args.dtype == DType::kF16) return hopper_skinny_f16_gemm(args, stream);
  if (args.m <= 8) return skinny::launch_product<kBf16, 8>(args, stream);
  if (args.m <= 16) return skinny::launch_product<kBf16, 16>(args, stream);
  if (args.m <= 32) return skinny::launch_product<kBf16, 32>(args, stream);
  skinny::launch_product<kBf16, 64>(args, stream);
}

}  // namespace cheetah::gpu

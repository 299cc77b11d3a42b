// The skinny products of BF16 and F16.
#include "kernels/gemm/cuda/hopper_skinny.cuh"

namespace cheetah::gpu {
namespace {

template <int kTokens>
void launch_skinny(const HopperGemmArgs& args, Stream& stream) {
  if (args.dtype == DType::kF16)
    skinny::launch_product<wgmma::Input::kF16, kTokens>(args, stream);
  else
    skinny::launch_product<wgmma::Input::kBf16, kTokens>(args, stream);
}

}  // namespace

void hopper_skinny_gemm(const HopperGemmArgs& args, Stream& stream) {
  if (args.dtype == DType::kF8E4M3) return hopper_skinny_fp8_gemm(args, stream);
  if (args.m <= 8) return launch_skinny<8>(args, stream);
  if (args.m <= 16) return launch_skinny<16>(args, stream);
  if (args.m <= 32) return launch_skinny<32>(args, stream);
  launch_skinny<64>(args, stream);
}

}  // namespace cheetah::gpu

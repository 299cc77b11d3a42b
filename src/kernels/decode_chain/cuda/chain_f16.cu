// SPDX-License-Identifier: MIT
// The chain with weights in F16, over either cache.
#include "kernels/decode_chain/cuda/chain_kernel.cuh"

namespace cheetah::gpu::chain {

void launch_chain_of_f16_weights(const Params& params, const ChainTypes& types, Stream& stream) {
  constexpr Weights kF16 = Weights::kF16;
  const bool fp8_cache = types.cache == DType::kF8E4M3;
  if (types.head_dim == 64) {
    if (fp8_cache) return launch_rows<kF16, Fp8Unit<64>>(params, stream);
    return launch_rows<kF16, Bf16Unit<64>>(params, stream);
  }
  if (fp8_cache) return launch_rows<kF16, Fp8Unit<128>>(params, stream);
  launch_rows<kF16, Bf16Unit<128>>(params, stream);
}

}  // namespace cheetah::gpu::chain

// SPDX-License-Identifier: MIT
// The chain over a cache of BF16, and the choice among the kernels.
#include "kernels/decode_chain/cuda/chain_kernel.cuh"

namespace cheetah::gpu::chain {

void launch_chain(const Params& params, const ChainTypes& types, Stream& stream) {
  if (types.weights == DType::kF16) return launch_chain_of_f16_weights(params, types, stream);
  if (types.cache == DType::kF8E4M3) return launch_chain_of_fp8_cache(params, types, stream);
  if (types.head_dim == 64)
    launch_with<Bf16Unit<64>>(params, types.weights, stream);
  else
    launch_with<Bf16Unit<128>>(params, types.weights, stream);
}

}  // namespace cheetah::gpu::chain

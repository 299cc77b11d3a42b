// SPDX-License-Identifier: MIT
// The chain over a cache of FP8.
#include "kernels/decode_chain/cuda/chain_kernel.cuh"

namespace cheetah::gpu::chain {

void launch_chain_of_fp8_cache(const Params& params, const ChainTypes& types, Stream& stream) {
  if (types.head_dim == 64)
    launch_with<Fp8Unit<64>>(params, types.weights, stream);
  else
    launch_with<Fp8Unit<128>>(params, types.weights, stream);
}

}  // namespace cheetah::gpu::chain

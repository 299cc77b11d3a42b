// SPDX-License-Identifier: MIT
#pragma once
// From the list of operations to the kernel.
#include "gpu/stream.h"
#include "kernels/decode_chain/cuda/chain_ops.h"
#include "tensor/dtype.h"

namespace cheetah::gpu::chain {

struct ChainTypes {
  DType weights;
  DType cache;
  int head_dim;
};

void launch_chain(const Params& params, const ChainTypes& types, Stream& stream);
void launch_chain_of_fp8_cache(const Params& params, const ChainTypes& types, Stream& stream);
void launch_chain_of_f16_weights(const Params& params, const ChainTypes& types, Stream& stream);

}  // namespace cheetah::gpu::chain

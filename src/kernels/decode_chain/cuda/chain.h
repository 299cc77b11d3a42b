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
void launch_chain_of_fp8(const Params& params, const ChainTypes& types, Stream& stream);  // cache

}  // namespace cheetah::gpu::chain

#pragma once
// From the list of operations to the kernel.
#include "gpu/stream.h"
#include "kernels/decode_chain/cuda/chain_ops.h"
#include "tensor/dtype.h"

namespace cheetah::gpu::chain {

void launch_chain(const Params& params, DType weights, int head_dim, Stream& stream);

}  // namespace cheetah::gpu::chain

// SPDX-License-Identifier: MIT
// Blocks of 256 numbers.
#include "kernels/gemm/cuda/hopper_packed_grouped.cuh"
#include "kernels/gemm/cuda/hopper_packed_product.cuh"

namespace cheetah::gpu::packed {

template void run_packed<DType::kQ4_K>(const HopperBlocksArgs&, Stream&);
template void run_packed<DType::kQ5_K>(const HopperBlocksArgs&, Stream&);
template void run_packed<DType::kQ6_K>(const HopperBlocksArgs&, Stream&);
template void run_grouped<DType::kQ4_K>(const HopperGroupedArgs&, Stream&);
template void run_grouped<DType::kQ5_K>(const HopperGroupedArgs&, Stream&);
template void run_grouped<DType::kQ6_K>(const HopperGroupedArgs&, Stream&);

}  // namespace cheetah::gpu::packed

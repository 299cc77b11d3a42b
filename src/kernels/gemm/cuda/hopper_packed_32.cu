// SPDX-License-Identifier: MIT
// Blocks of 32 numbers.
#include "kernels/gemm/cuda/hopper_packed_grouped.cuh"
#include "kernels/gemm/cuda/hopper_packed_product.cuh"

namespace cheetah::gpu {

int packed_pitch(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return unpack::Rows<DType::kQ4_0>::kPitch;
    case DType::kQ8_0:
      return unpack::Rows<DType::kQ8_0>::kPitch;
    case DType::kQ4_K:
      return unpack::Rows<DType::kQ4_K>::kPitch;
    case DType::kQ5_K:
      return unpack::Rows<DType::kQ5_K>::kPitch;
    case DType::kQ6_K:
      return unpack::Rows<DType::kQ6_K>::kPitch;
    default:
      return unpack::Rows<DType::kMXFP4>::kPitch;
  }
}

namespace packed {

template void run_packed<DType::kQ4_0>(const HopperBlocksArgs&, Stream&);
template void run_packed<DType::kQ8_0>(const HopperBlocksArgs&, Stream&);
template void run_packed<DType::kMXFP4>(const HopperBlocksArgs&, Stream&);
template void run_grouped<DType::kQ4_0>(const HopperGroupedArgs&, Stream&);
template void run_grouped<DType::kQ8_0>(const HopperGroupedArgs&, Stream&);
template void run_grouped<DType::kMXFP4>(const HopperGroupedArgs&, Stream&);

}  // namespace packed
}  // namespace cheetah::gpu

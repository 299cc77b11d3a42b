// SPDX-License-Identifier: MIT
#pragma once
#include "gpu/ptx.cuh"

namespace cheetah::gpu {

// As ptx::align_shared, by adding to the pointer: so the compiler still sees that it points into shared
// memory, and loads through it are the shorter ones for that.
__device__ inline unsigned char* aligned_shared(unsigned char* pointer, uint32_t bytes) {
  return pointer + (0u - ptx::shared_address(pointer)) % bytes;
}

}  // namespace cheetah::gpu

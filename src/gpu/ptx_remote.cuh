// SPDX-License-Identifier: MIT
#pragma once
// Stores into the shared memory of another block of the cluster. One function per instruction.
#include "gpu/ptx.cuh"

namespace cheetah::ptx {

// Two numbers to an address of remote_address(); the barrier there, of the same block, gets their bytes.
__device__ inline void store_remote(uint32_t address, float2 v, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
      "f"(v.x), "f"(v.y), "r"(barrier)
      : "memory");
}

}  // namespace cheetah::ptx

// SPDX-License-Identifier: MIT
#pragma once
// Copies from global to shared memory that run beside the threads: cp.async by every thread, bulk copies by
// one. (Bulk copies, boxes of tensor maps and barriers: gpu/ptx.cuh.)
#include "gpu/ptx.cuh"

namespace cheetah::ptx {

// 16 bytes, both sides aligned to them; past L1.
__device__ inline void copy_16_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kPending of this thread's committed groups are under way.
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// A multiple of 16 bytes, aligned to 16, from shared to global memory; commit_stores and wait_stores of
// gpu/ptx.cuh follow.
__device__ inline void store_bulk(void* to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

}  // namespace cheetah::ptx

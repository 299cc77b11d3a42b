// SPDX-License-Identifier: MIT
#pragma once
// The ring of shared memory through which weights and rows of x reach the arithmetic.
#include "gpu/ptx.cuh"
#include "kernels/decode_chain/cuda/chain_ops.h"

namespace cheetah::gpu::chain {

// A stage holds boxes of W, 128 bytes of each of their rows, and the parts of x they are multiplied with: 64
// numbers of kRows tokens a box. The fewer rows, the more weights fit.
template <int kRows, Weights kWeights>
struct Ring {
  static constexpr int kMaxRows = kRows;
  static constexpr int kTokens = kRows < 8 ? 8 : kRows;  // as the tensor cores see them
  static constexpr int kXBoxBytes = kRows * 128;
  static constexpr int kXBoxesPerWBox =
      kWeights == Weights::kFp8 ? 2 : 1;  // 128 bytes of W are 128 or 64 numbers
  static constexpr int kStageBytes =
      (kStageWeightBytes + kMaxWBoxes * kXBoxesPerWBox * kXBoxBytes + 1023) / 1024 * 1024;
  static constexpr int kHeadsAtOnce = kRows == 1 ? 4 : 2;  // whose parts come together in attention
  // Partial sums of a tile, or of the warps in attention.
  static constexpr int kPartBytes = kRows == 1 ? 17 << 10 : 4 * kTokens * kPartPitch * 4;
  static constexpr int kStaticBytes = kRows == 1 ? 4096 : 7424;  // everything outside the ring
  static constexpr int kStages = ((227 << 10) - 1024 - kPartBytes - kStaticBytes) / kStageBytes;
  static constexpr int kBytes = kStages * kStageBytes + kPartBytes + 1024;
  // The weights behind attention wait until it has its queries: until then the memory is for those who wait.
  static constexpr bool kHoldsForAttention = kRows > 1 && kWeights != Weights::kFp8;

  unsigned char* data;
  uint64_t* w_full;
  uint64_t* x_full;
  uint64_t* empty;

  __device__ unsigned char* w(int i) const { return data + i % kStages * kStageBytes; }
  __device__ unsigned char* x(int i) const { return w(i) + kStageWeightBytes; }
  __device__ static uint32_t parity(int i) { return (i / kStages) & 1; }
  __device__ void wait_x(int i) const { ptx::barrier_wait(&x_full[i % kStages], parity(i)); }
  __device__ void wait_w(int i) const { ptx::barrier_wait(&w_full[i % kStages], parity(i)); }
  __device__ void wait_empty(int i) const {
    if (i >= kStages) ptx::barrier_wait(&empty[i % kStages], parity(i) ^ 1);
  }
};

__device__ inline unsigned load_acquire(const unsigned* address) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Adds one after everything the block wrote before its last barrier has become visible.
__device__ inline void add_release(unsigned* address) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(address) : "memory");
}
__device__ inline unsigned add_acquire_release(unsigned* address) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(address) : "memory");
  return before;
}

// Four 16-bit numbers that a reader may wait for.
__device__ inline void store_words(void* to, uint2 v) {
  const uint64_t word = static_cast<uint64_t>(v.y) << 32 | v.x;
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
// Words that may not have been written yet. Writers store 8 bytes at a time.
__device__ inline uint4 look_at(const uint4* address) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address)
               : "memory");
  return v;
}
__device__ inline uint2 look_at(const uint2* address) {
  uint2 v;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(address)
               : "memory");
  return v;
}
__device__ inline bool is_written(const uint4& v) { return v.x != kUnwritten && v.z != kUnwritten; }
__device__ inline bool is_written(const uint2& v) { return v.x != kUnwritten; }

// Until every block has arrived at all operations before `op`.
__device__ inline void wait_for_op(const Params& p, unsigned base, int op) {
  const unsigned target = base + static_cast<unsigned>(op) * gridDim.x;
  while (static_cast<int>(load_acquire(p.arrivals) - target) < 0) {
  }
}

// Copies carry whole stages: a box of a tensor map has 64 or 128 columns, rows, and as many such columns one
// behind the other as the stage holds. What lies behind the last column reads as zero and is not multiplied.
template <class R>
__device__ void copy_weights(const Op& op, const R& ring, int i, int tile, int k) {
  const int rows = op.box_rows, up = op.up_row, half = 2 * rows * 128;  // of a gated tile
  uint64_t* barrier = &ring.w_full[i % R::kStages];
  ptx::barrier_expect_bytes(barrier, up > 0 ? 2 * half : op.boxes_per_stage * rows * 128);
  if (up > 0) {
    ptx::copy_box_3d(ring.w(i), op.w, 0, tile * 2 * rows, k, barrier, ptx::kEvictFirst);
    ptx::copy_box_3d(ring.w(i) + half, op.w, 0, tile * 2 * rows + up, k, barrier, ptx::kEvictFirst);
  } else {
    ptx::copy_box_3d(ring.w(i), op.w, 0, tile * rows, k, barrier, ptx::kEvictFirst);
  }
}

// One thread: every product's weights, in order, as far ahead as the ring allows. Deep queues make every
// other access of the memory wait: two stages are in flight, and one of those that fill the ring while blocks
// agree on the operation before.
template <class R>
__device__ void stream_weights(const Params& p, const R& ring, uint64_t* queries_in) {
  int i = 0, attended = 0;
  for (int o = 0; o < p.num_ops; ++o) {
    const Op op = p.ops[o];
    if (op.kind != Kind::kProduct) continue;
    if (R::kHoldsForAttention && op.follows_attention) {
      if (static_cast<int>(blockIdx.x) < op.tiles) ptx::barrier_wait(queries_in, attended & 1);
      ++attended;
    }
    int in_op = 0;
    for (int tile = blockIdx.x; tile < op.tiles; tile += gridDim.x)
      for (int k = 0; k < op.k_boxes; k += op.boxes_per_stage, ++i, ++in_op) {
        ring.wait_empty(i);
        const int behind = i - (in_op < R::kStages ? 1 : 2);
        if (behind >= 0) ptx::barrier_wait(&ring.w_full[behind % R::kStages], R::parity(behind));
        copy_weights(op, ring, i, tile, k);
      }
  }
}

// One thread: x of every product, once the operation before has made it, which `begun` tells. `ended` hears
// that it has been told.
template <class R>
__device__ void stream_rows(const Params& p, const R& ring, uint64_t* begun, uint64_t* ended) {
  int i = 0;
  for (int o = 0; o < p.num_ops; ++o) {
    const Op& op = p.ops[o];
    const int per_stage = op.boxes_per_stage, k_boxes = op.k_boxes, tiles = op.tiles;
    const TensorMap* map = op.x;
    if (map) ptx::prefetch_map(map);
    ptx::barrier_wait(begun, o & 1);
    ptx::barrier_arrive(ended);
    if (op.kind != Kind::kProduct) continue;
    asm volatile("fence.proxy.async;" ::: "memory");  // x was written by ordinary stores
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
      for (int k = 0; k < k_boxes; k += per_stage, ++i) {
        ring.wait_empty(i);
        uint64_t* barrier = &ring.x_full[i % R::kStages];
        ptx::barrier_expect_bytes(barrier, per_stage * R::kXBoxesPerWBox * R::kXBoxBytes);
        ptx::copy_box_3d(ring.x(i), map, 0, 0, k * R::kXBoxesPerWBox, barrier, ptx::kEvictLast);
      }
  }
}

__device__ inline void sync_consumers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

}  // namespace cheetah::gpu::chain

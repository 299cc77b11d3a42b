// SPDX-License-Identifier: MIT
#pragma once
// What prefill attention keeps in shared memory and how it gets there: queries, and blocks of keys and values
// from the pages of the cache.
#include <type_traits>

#include "gpu/ptx.cuh"
#include "gpu/tensor_map.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/pairs.cuh"

namespace cheetah::gpu::prefill {

inline constexpr int kRows = 128;  // query rows per block
inline constexpr int kKeys = 128;
inline constexpr int kStages = 2;
inline constexpr int kThreads = 384;

struct PrefillParams {
  const SequenceEntry* sequences;
  const int32_t* pages;
  uint16_t* out;
  bool skip_single_rows;
  int64_t out_stride;
  int heads, group, page_tokens, window;
  float scale, soft_cap;
  const float* sinks;
};

// A cache of FP8 is copied as it lies, behind everything else, and widened to BF16 by the producers, each a
// row.
template <int kHeadDim, bool kIsFp8>
struct Layout {
  static constexpr int kDim = kHeadDim;
  static constexpr bool kFp8 = kIsFp8;
  static constexpr int kHalves = kDim / 64;  // a row of 64 numbers is the 128 bytes of a swizzled box
  static constexpr int kQBytes = kRows * kDim * 2;
  static constexpr int kBlockBytes = kKeys * kDim * 2;  // of K or of V
  static constexpr int kRowBytes = kDim + 4;            // of FP8: its scale behind it
  static constexpr int kStoredBytes = kFp8 ? kKeys * kRowBytes : 0;
  static constexpr int kSmemBytes = kQBytes + kStages * 2 * kBlockBytes + 2 * kStoredBytes + 1024;
  // Registers a thread that copies and a thread that computes may have.
  static constexpr int kFewRegisters = kFp8 ? 56 : 24, kManyRegisters = kFp8 ? 224 : 240;
};

// What the cache is copied from: boxes of a map, or rows of FP8.
struct CacheMaps {
  TensorMap keys, values;
};
struct CacheRows {
  const std::byte* keys;
  const std::byte* values;
  int64_t kv_heads;
};
template <class L>
using Cache = std::conditional_t<L::kFp8, CacheRows, CacheMaps>;

struct Barriers {
  uint64_t q_full, k_full[kStages], v_full[kStages], k_empty[kStages], v_empty[kStages];
  uint64_t stored_full[2];  // FP8 keys and values
};

// The keys a tile sees: blocks [first, end).
struct KeyBlocks {
  int first, end;
  __device__ int count() const { return end - first; }
};

template <class L>
__device__ void copy_queries(
    const TensorMap& q_map, int row, int head, unsigned char* smem, Barriers& barriers) {
  ptx::barrier_expect_bytes(&barriers.q_full, L::kQBytes);
  for (int h = 0; h < L::kHalves; ++h)
    ptx::copy_box_3d(smem + h * (kRows * 128), &q_map, h * 64, head, row, &barriers.q_full, ptx::kEvictFirst);
}

template <class L>
__device__ void copy_pages(const CacheMaps& cache, const PrefillParams& params, const SequenceEntry& sequence,
    int head, const KeyBlocks& blocks, unsigned char* smem, Barriers& barriers) {
  const int lane = threadIdx.x;
  const int kv_head = head / params.group;
  const int32_t* table = params.pages + sequence.first_page;
  const int num_pages = (sequence.context_tokens + params.page_tokens - 1) / params.page_tokens;
  const int pages_a_block = kKeys / params.page_tokens;
  const int boxes = pages_a_block * L::kHalves;  // at most 32: one per lane
  const int in_block = lane % pages_a_block, half = lane / pages_a_block;
  unsigned char* box = smem + L::kQBytes + half * (kKeys * 128) + in_block * params.page_tokens * 128;
  for (int i = 0; i < blocks.count(); ++i) {
    const int stage = i % kStages;
    const uint32_t parity = ((i / kStages) & 1) ^ 1;
    const int page = (blocks.end - 1 - i) * pages_a_block + in_block;
    // Behind the last page any page will do: its keys are masked.
    const int at = lane < boxes ? table[page < num_pages ? page : num_pages - 1] : 0;
    unsigned char* to = box + stage * 2 * L::kBlockBytes;
    const auto copy = [&](const TensorMap& map, unsigned char* where, uint64_t& full, uint64_t& empty) {
      ptx::barrier_wait(&empty, parity);
      if (lane == 0) ptx::barrier_expect_bytes(&full, L::kBlockBytes);
      __syncwarp();
      if (lane < boxes) ptx::copy_box_4d(where, &map, half * 64, 0, kv_head, at, &full, ptx::kEvictLast);
    };
    copy(cache.keys, to, barriers.k_full[stage], barriers.k_empty[stage]);
    copy(cache.values, to + L::kBlockBytes, barriers.v_full[stage], barriers.v_empty[stage]);
  }
}

// One thread: the rows of a block of keys or of values, page by page.
template <class L>
__device__ void copy_stored(const std::byte* from, const CacheRows& cache, const PrefillParams& params,
    const SequenceEntry& sequence, int kv_head, int block, unsigned char* to, uint64_t* full) {
  const int32_t* table = params.pages + sequence.first_page;
  const int num_pages = (sequence.context_tokens + params.page_tokens - 1) / params.page_tokens;
  const int page_bytes = params.page_tokens * L::kRowBytes, pages = kKeys / params.page_tokens;
  ptx::barrier_expect_bytes(full, L::kStoredBytes);
  for (int i = 0; i < pages; ++i) {
    const int page = table[min(block * pages + i, num_pages - 1)];  // behind the last page any page will do
    ptx::copy_bytes(
        to + i * page_bytes, from + (page * cache.kv_heads + kv_head) * page_bytes, page_bytes, full);
  }
}

// The thread's row, widened and scaled, to where the copy engine would have put it. Rows that are not there
// become nothing: anything times nothing must not be NaN.
template <class L>
__device__ void widen_stored(const unsigned char* stored, bool is_there, unsigned char* to) {
  const int row = threadIdx.x;
  const auto* words = reinterpret_cast<const uint32_t*>(stored + row * L::kRowBytes);
  const float scale = is_there ? __uint_as_float(words[L::kDim / 4]) : 0.f;
#pragma unroll
  for (int chunk = 0; chunk < L::kDim / 8; ++chunk) {
    uint32_t packed[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t pairs[2];
      widen_fp8(is_there ? words[chunk * 2 + i] : 0u, pairs[0], pairs[1]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 v = unpack_pair<wgmma::Input::kF16>(pairs[j]);
        packed[i * 2 + j] = pack_pair<wgmma::Input::kBf16>(v.x * scale, v.y * scale);
      }
    }
    *reinterpret_cast<uint4*>(to + chunk / 8 * (kKeys * 128) + row * 128 + (((chunk % 8) ^ (row % 8)) << 4)) =
        make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}

__device__ inline void sync_producers() { asm volatile("bar.sync 4, 128;" ::: "memory"); }

// All producers: while keys are widened, values are on their way, and the other way round.
template <class L>
__device__ void widen_pages(const CacheRows& cache, const PrefillParams& params,
    const SequenceEntry& sequence, int head, const KeyBlocks& blocks, unsigned char* smem,
    Barriers& barriers) {
  const int kv_head = head / params.group;
  unsigned char* tiles = smem + L::kQBytes;
  unsigned char* stored = tiles + kStages * 2 * L::kBlockBytes;
  const auto fetch = [&](int i, int kind) {
    if (threadIdx.x == 0 && i < blocks.count())
      copy_stored<L>(kind == 0 ? cache.keys : cache.values, cache, params, sequence, kv_head,
          blocks.end - 1 - i, stored + kind * L::kStoredBytes, &barriers.stored_full[kind]);
  };
  fetch(0, 0);
  fetch(0, 1);
  for (int i = 0; i < blocks.count(); ++i) {
    const int stage = i % kStages, token = (blocks.end - 1 - i) * kKeys + static_cast<int>(threadIdx.x);
    for (int kind = 0; kind < 2; ++kind) {
      uint64_t* empty = kind == 0 ? &barriers.k_empty[stage] : &barriers.v_empty[stage];
      uint64_t* full = kind == 0 ? &barriers.k_full[stage] : &barriers.v_full[stage];
      ptx::barrier_wait(&barriers.stored_full[kind], i & 1);
      ptx::barrier_wait(empty, ((i / kStages) & 1) ^ 1);
      widen_stored<L>(stored + kind * L::kStoredBytes, token < sequence.context_tokens,
          tiles + (stage * 2 + kind) * L::kBlockBytes);
      ptx::fence_async_shared();
      ptx::barrier_arrive(full);
      sync_producers();  // all have read their rows
      fetch(i + 1, kind);
    }
  }
}

}  // namespace cheetah::gpu::prefill

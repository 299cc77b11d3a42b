// SPDX-License-Identifier: MIT
#pragma once
// Products of decode steps with W in blocks of four to eight bits and more rows of x than integer products
// bear. As in hopper_skinny.cuh, W's rows are the long side of the tensor cores' tile and x's the short one.
// The copy engine brings W as stored; each of eight warps unpacks its 16 rows into registers, from which the
// tensor cores take them while the warp unpacks the next 64 columns.
//
// Bytes: W as stored. Instructions: about 4 for each number of W, whatever m, which is what bounds it.
#include <utility>

#include "gpu/launch.cuh"
#include "gpu/shared_memory.cuh"
#include "gpu/wgmma_rows.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper_packed.h"
#include "kernels/gemm/cuda/hopper_skinny.cuh"
#include "kernels/gemm/cuda/hopper_unpack.cuh"

namespace cheetah::gpu::packed {

using skinny::kConsumers;
using skinny::kPitch;
using skinny::kRows;
using skinny::SkinnyParams;
using unpack::Fragment;
using unpack::kGroup;
using unpack::LaneRows;

constexpr int kThreads = kConsumers + 2 * kWarpSize;  // one warp asks for W, one for x
constexpr int kHalf = kRows / 2;  // rows of W that one box brings; gated: gates, and the others
constexpr int kConsumerWarps = kConsumers / kWarpSize;
constexpr int kSharedBytes = 111 << 10;  // two blocks an SM

// kParts: the sums have a place of their own, beside the rings.
template <DType kType, int kTokenCount, bool kParts>
struct Shape {
  using W = unpack::Rows<kType>;
  static constexpr int kTokens = kTokenCount, kGroups = W::kCols / kGroup;
  static constexpr int kXGroups = kTokens <= 16 && kGroups >= 4 ? 4 : 2;  // of 64 columns of x a stage
  static constexpr int kBoxBytes = kTokens * kGroup * 2, kXBytes = kXGroups * kBoxBytes, kXStages = 3;
  static constexpr int kPartsBytes = kTokens * kPitch * 4, kApart = kParts ? kPartsBytes : 0;
  static constexpr int kWBytes = kRows * W::kPitch;
  static constexpr int kWStages = (kSharedBytes - 1024 - kXStages * kXBytes - kApart) / kWBytes;
  static constexpr int kRingBytes = kXStages * kXBytes + kWStages * kWBytes;
  static_assert(kWStages >= 2 && (kParts || kPartsBytes <= kRingBytes) && kGroups % kXGroups == 0);
};

// A ring of slots in shared memory and who may touch the next one.
template <int kStages>
struct Ring {
  uint64_t full[kStages], empty[kStages];

  __device__ void init() {
    for (int s = 0; s < kStages; ++s) {
      ptx::barrier_init(&full[s], 1);
      ptx::barrier_init(&empty[s], kConsumerWarps);
    }
  }
};

// A place in a ring: the slot and whether the ring has been passed an odd number of times.
template <int kStages>
struct Place {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void next() {
    if (++slot < kStages) return;
    slot = 0;
    parity ^= 1;
  }
  __device__ uint64_t* wait_empty(Ring<kStages>& ring) const {
    ptx::barrier_wait(&ring.empty[slot], parity ^ 1);
    return &ring.full[slot];
  }
  __device__ void wait_full(Ring<kStages>& ring) const { ptx::barrier_wait(&ring.full[slot], parity); }
  __device__ void release(Ring<kStages>& ring) const {  // by a warp
    if (threadIdx.x % kWarpSize == 0) ptx::barrier_arrive(&ring.empty[slot]);
  }
};

template <class S>
struct Pipes {
  Ring<S::kWStages> w;
  Ring<S::kXStages> x;
  using InW = Place<S::kWStages>;
  using InX = Place<S::kXStages>;

  __device__ void init() {
    w.init();
    x.init();
    ptx::fence_barrier_init();
  }
};

// Which rows of W a tile has; fold: packed_fold.
struct TileRows {
  int first, second;  // of the two halves
  int fold, row_bytes;
};
// Of fold neighbouring rows, which the copy engine steps over as one, each comes in a box of its own.
__device__ inline int row_in_slot(int slot, int fold) {
  return slot % (kHalf / fold) * fold + slot / (kHalf / fold);
}

template <class S>
__device__ void copy_w(const TensorMap* w_map, const TileRows& tile, int units_begin, int units_end,
    unsigned char* ring, Pipes<S>& pipes, typename Pipes<S>::InW& at) {
  for (int unit = units_begin; unit < units_end; ++unit, at.next()) {
    uint64_t* full = at.wait_empty(pipes.w);
    ptx::barrier_expect_bytes(full, S::kWBytes);
    unsigned char* to = ring + at.slot * S::kWBytes;
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < tile.fold; ++i, to += kHalf / tile.fold * S::W::kPitch)
        ptx::copy_box_2d(to, w_map, (i * tile.row_bytes + unit * S::W::kBytes) & ~15,
            (half ? tile.second : tile.first) / tile.fold, full, ptx::kEvictFirst);
  }
}

template <class S>
__device__ void copy_x(const TensorMap& x_map, int first_row, int units_begin, int units_end,
    unsigned char* ring, Pipes<S>& pipes, typename Pipes<S>::InX& at) {
  for (int col = units_begin * S::W::kCols; col < units_end * S::W::kCols; at.next()) {
    uint64_t* full = at.wait_empty(pipes.x);
    ptx::barrier_expect_bytes(full, S::kXBytes);
    for (int i = 0; i < S::kXGroups; ++i, col += kGroup)
      ptx::copy_box_2d(
          ring + at.slot * S::kXBytes + i * S::kBoxBytes, &x_map, col, first_row, full, ptx::kEvictLast);
  }
}

// The eight warps' side of the rings, and what a lane holds of W.
template <class S>
struct Consumer {
  unsigned char *x_ring, *w_ring;
  Pipes<S>* pipes;
  typename Pipes<S>::InW w{};
  typename Pipes<S>::InX x{};
  typename S::W::Head head{};
  int at_byte = 0;  // in the copy engine's row

  __device__ LaneRows rows() const {
    const unsigned char* at = w_ring + w.slot * S::kWBytes + threadIdx.x / 4 * S::W::kPitch;
    if constexpr (unpack::kSkews<typename S::W>) at += at_byte & 15;
    return {at, at + kHalf * S::W::kPitch};
  }
  __device__ void open_unit(Fragment& first) {
    w.wait_full(pipes->w);
    head = S::W::open(rows());
    S::W::template unpack<0>(rows(), head, first);
  }
  template <int kIndex>
  __device__ void start_products(float (&sums)[S::kTokens / 2], const Fragment& f) {
    if constexpr (kIndex % S::kXGroups == 0) x.wait_full(pipes->x);
    const uint64_t box = wgmma::descriptor(
        ptx::shared_address(x_ring + x.slot * S::kXBytes + kIndex % S::kXGroups * S::kBoxBytes));
    wgmma::fence();
#pragma unroll
    for (int step = 0; step < kGroup / 16; ++step) {
      const uint32_t a[4] = {
          f.upper.at[2 * step], f.lower.at[2 * step], f.upper.at[2 * step + 1], f.lower.at[2 * step + 1]};
      wgmma::RowsProduct<wgmma::Input::kBf16, S::kTokens>::add(sums, a, box + step * 2, 1);
    }
    wgmma::commit();
  }
  // Products of one group, and meanwhile the next one unpacked: this unit's, or the next unit's first.
  template <int kIndex>
  __device__ void step(float (&sums)[S::kTokens / 2], Fragment& fragment, bool is_last) {
    start_products<kIndex>(sums, fragment);
    Fragment next;
    if constexpr (kIndex + 1 < S::kGroups) {
      S::W::template unpack<kIndex + 1>(rows(), head, next);
    } else {
      __syncwarp();
      w.release(pipes->w);
      w.next();
      at_byte += S::W::kBytes;
      if (!is_last) open_unit(next);
    }
    wgmma::wait<0>();
    if constexpr ((kIndex + 1) % S::kXGroups == 0) {
      x.release(pipes->x);
      x.next();
    }
    fragment = next;
  }
  // sums += this warpgroup's rows times x, over units [begin, end).
  __device__ void multiply(float (&sums)[S::kTokens / 2], const TileRows& tile, int begin, int end) {
    if (begin >= end) return;
    at_byte = static_cast<int>(threadIdx.x) / 4 / (kHalf / tile.fold) * tile.row_bytes + begin * S::W::kBytes;
    Fragment fragment;
    open_unit(fragment);
    for (int unit = begin; unit < end; ++unit) [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
        (step<kIndex>(sums, fragment, unit + 1 == end), ...);
      }
    (std::make_integer_sequence<int, S::kGroups>());
  }
};

// Sums as the tensor cores leave them to parts[token][row of the tile].
template <class S>
__device__ void spread_sums(const float (&sums)[S::kTokens / 2], int fold, float* parts) {
  constexpr float kGrow = S::W::kShrinks ? 1.f / unpack::kShrink : 1.f;
  const int row = row_in_slot(static_cast<int>(threadIdx.x) / 4, fold), column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int j = 0; j < S::kTokens / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      parts[(j * 8 + column + i % 2) * kPitch + i / 2 * kHalf + row] = kGrow * sums[j * 4 + i];
}

}  // namespace cheetah::gpu::packed

// SPDX-License-Identifier: MIT
#pragma once
// Which tile of which expert: found on the device, where alone it is known how many rows each expert has.
#include "gpu/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper.h"

namespace cheetah::gpu::grouped {

struct Problem {
  int count, columns;  // matrices; tiles of outputs
  int k_blocks, gate_rows;
  const int32_t* offsets;  // [count + 1]
  const TensorMap* w;      // [count]
  const float* const* biases;
  const float* const* w_scales;
};

struct Work {
  int expert, first_row, end_row, column;
};

// first[e]: tiles of `rows` rows before expert e. One warp fills it.
struct Tiles {
  int first[kMaxGroups + 1];

  __device__ void count_up(const Problem& p, int rows) {
    const int lane = threadIdx.x % kWarpSize;
    int before = 0;
    for (int base = 0; base < p.count; base += kWarpSize) {
      const int e = base + lane;
      int tiles = e < p.count ? (p.offsets[e + 1] - p.offsets[e] + rows - 1) / rows : 0;
      for (int step = 1; step < kWarpSize; step *= 2) {
        const int other = __shfl_up_sync(kWholeWarp, tiles, step);
        if (lane >= step) tiles += other;
      }
      if (e < p.count) first[e + 1] = before + tiles;
      before += __shfl_sync(kWholeWarp, tiles, kWarpSize - 1);
    }
    if (lane == 0) first[0] = 0;
  }
  __device__ int total(const Problem& p) const { return first[p.count] * p.columns; }

  // An expert's tiles follow each other, rows fastest: neighbours share W.
  __device__ Work at(const Problem& p, int index, int rows) const {
    const int wanted = index / p.columns;
    int low = 0, high = p.count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= wanted ? low : high) = middle;
    }
    const int in_expert = index - first[low] * p.columns, row_tiles = first[low + 1] - first[low];
    const int begin = p.offsets[low];
    return {.expert = low,
        .first_row = begin + in_expert % row_tiles * rows,
        .end_row = p.offsets[low + 1],
        .column = in_expert / row_tiles};
  }
};

}  // namespace cheetah::gpu::grouped

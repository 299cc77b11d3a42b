// SPDX-License-Identifier: MIT
// Products of experts, many rows each: the tiles of hopper_tile.cu, every one with its own matrix. The grid
// is as large as the card. Tiles may read rows of the next expert, and leave them out when they store.
//
// FLOPs: 2 rows n k. Bytes: W of the experts that have rows, x and y once.
#include <algorithm>

#include "gpu/launch.cuh"
#include "kernels/gemm/cuda/hopper_grouped.cuh"
#include "kernels/gemm/cuda/hopper_tile.cuh"

namespace cheetah::gpu {
namespace {

using grouped::Problem;
using grouped::Work;
using tile::kOutBytes;
using tile::kTileM;
using tile::kXBytes;

constexpr int kBoxRows = 64;  // of W a copy

template <class Shape>
struct Alone : Shape {
  static constexpr int kCluster = 1;
};

struct Outputs {
  tile::Ending ending;  // bias, scales of W and the last row are each tile's own
  uint16_t* y;
  int64_t y_stride;
};

template <class T>
__device__ void copy_tile(const TensorMap& x_map, const Problem& p, const Work& work, unsigned char* smem,
    tile::Pipe<T>& pipe, int& it) {
  const TensorMap* w_map = p.w + work.expert;
  for (int k = 0; k < p.k_blocks; ++k, ++it) {
    uint64_t* full = &pipe.full[it % T::kStages];
    ptx::barrier_wait(&pipe.empty[it % T::kStages], ((it / T::kStages) & 1) ^ 1);
    ptx::barrier_expect_bytes(full, T::kStageBytes);
    unsigned char* to = smem + it % T::kStages * T::kStageBytes;
    ptx::copy_box_2d(to, &x_map, k * T::kK, work.first_row, full, ptx::kEvictLast);
#pragma unroll
    for (int row = 0; row < T::kN; row += kBoxRows) {
      const int from =
          work.column * T::kColumns + (T::kGated && row >= T::kN / 2 ? p.gate_rows + row - T::kN / 2 : row);
      ptx::copy_box_2d(to + kXBytes + row * 128, w_map, k * T::kK, from, full, ptx::kEvictFirst);
    }
  }
}

template <class T>
__device__ void multiply_tile(
    const Problem& p, Outputs out, const Work& work, tile::Multiplier<T>& multiplier) {
  out.ending.m = work.end_row;
  if (p.biases) out.ending.bias = p.biases[work.expert];
  if (p.w_scales) out.ending.w_scales = p.w_scales[work.expert];
  const int64_t first_row = work.first_row + multiplier.group * 64;
  float sums[T::kN / 2];
  tile::Early<T> early;
  early.fetch(out.ending, first_row, static_cast<int64_t>(work.column) * T::kColumns);
  if constexpr (T::kBlockScales) {
    const int first = work.column * T::kColumns, second = T::kGated ? p.gate_rows + first : first;
    const float* scales = p.w_scales[work.expert];
    multiplier.add_up_scaled(sums, p.k_blocks, scales + static_cast<int64_t>(first / 128) * p.k_blocks,
        scales + static_cast<int64_t>(second / 128) * p.k_blocks);
  } else {
    multiplier.add_up(sums, p.k_blocks);
  }
  unsigned char* staging = multiplier.smem + T::kStages * T::kStageBytes + multiplier.group * kOutBytes;
#pragma unroll
  for (int part = 0; part < T::kColumns / T::kStored; ++part) {
    const int64_t first_column = static_cast<int64_t>(work.column) * T::kColumns + part * T::kStored;
    tile::group_sync(multiplier.group);
    tile::stage_outputs<T>(out.ending, early, sums, part, first_row, first_column, staging);
    tile::group_sync(multiplier.group);
    tile::store_staged<T>(out.ending, out.y, out.y_stride, staging, first_row, first_column);
  }
}

template <class T>
__global__ void __launch_bounds__(tile::kThreads, 1)
    grouped_tiles(const __grid_constant__ TensorMap x_map, const Problem problem, const Outputs out) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ tile::Pipe<T> pipe;
  __shared__ grouped::Tiles tiles;
  if (threadIdx.x == 0) {
    for (int s = 0; s < T::kStages; ++s) {
      ptx::barrier_init(&pipe.full[s], 1);
      ptx::barrier_init(&pipe.empty[s], 2);
    }
    ptx::fence_barrier_init();
  }
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  if (threadIdx.x < kWarpSize) tiles.count_up(problem, kTileM);
  __syncthreads();
  const int total = tiles.total(problem);
  if (threadIdx.x < 128) {
    ptx::give_registers<40>();
    int it = 0;
    if (threadIdx.x == 0)
      for (int t = blockIdx.x; t < total; t += gridDim.x)
        copy_tile<T>(x_map, problem, tiles.at(problem, t, kTileM), smem, pipe, it);
  } else {
    ptx::take_registers<232>();
    tile::Multiplier<T> multiplier{smem, pipe, static_cast<int>(threadIdx.x) / 128 - 1};
    for (int t = blockIdx.x; t < total; t += gridDim.x)
      multiply_tile<T>(problem, out, tiles.at(problem, t, kTileM), multiplier);
  }
}

template <class Shape>
void launch_tiles(const HopperGroupedArgs& args, Stream& stream) {
  using T = Alone<Shape>;
  const int64_t columns = (args.outputs() + T::kColumns - 1) / T::kColumns;
  const int64_t most = (args.rows + kTileM - 1) / kTileM + std::min(args.count, args.rows);
  launch({.kernel = "hopper_grouped_tiles",
             .grid = {std::min<int64_t>(stream.device().num_sms, most * columns)},
             .block = {tile::kThreads},
             .shared_bytes = T::kSmemBytes,
             .overlaps_previous = true,
             .numbers = {args.rows, args.count, args.n, args.k, static_cast<int64_t>(args.dtype)}},
      stream, grouped_tiles<T>,
      hopper::matrix_map(args.x, args.dtype, args.rows, args.k, args.x_stride, kTileM),
      Problem{.count = static_cast<int>(args.count),
          .columns = static_cast<int>(columns),
          .k_blocks = static_cast<int>((args.k + T::kK - 1) / T::kK),
          .gate_rows = static_cast<int>(args.n / 2),
          .offsets = args.offsets,
          .w = args.w,
          .biases = args.biases,
          .w_scales = args.w_scales},
      Outputs{.ending = {.outputs = args.outputs(), .x_scales = args.x_scales},
          .y = static_cast<uint16_t*>(args.y),
          .y_stride = args.y_stride});
}

template <wgmma::Input kInput, bool kBlockScales = false>
void launch_tiles(const HopperGroupedArgs& args, Stream& stream) {
  if (args.gated)
    launch_tiles<tile::Tile<kInput, true, kBlockScales>>(args, stream);
  else
    launch_tiles<tile::Tile<kInput, false, kBlockScales>>(args, stream);
}

}  // namespace

void hopper_grouped_tiles(const HopperGroupedArgs& args, Stream& stream) {
  if (args.rows == 0) return;
  if (args.dtype == DType::kBF16) return launch_tiles<wgmma::Input::kBf16>(args, stream);
  if (args.dtype == DType::kF16) return launch_tiles<wgmma::Input::kF16>(args, stream);
  if (args.block_scales) return launch_tiles<wgmma::Input::kE4m3, true>(args, stream);
  launch_tiles<wgmma::Input::kE4m3>(args, stream);
}

TensorMap grouped_weight_map(const void* w, DType dtype, int64_t n, int64_t k) {
  return hopper::matrix_map(w, dtype, n, k, k, kBoxRows);
}

}  // namespace cheetah::gpu

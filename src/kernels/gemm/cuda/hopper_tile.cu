// SPDX-License-Identifier: MIT
// Products of prompts: 128 x 256 outputs a block, 64 of K at a time through four stages of shared memory. One
// warp copies; two warpgroups of 64 rows multiply. Pairs of blocks lie above each other and each fetch half
// of W's tile for both, or beside each other and share x. The grid is as large as the card and walks the
// tiles in an order that keeps x and W in the second-level cache. Results leave through shared memory while
// the next tile is being fetched.
//
// FLOPs: 2 m n k. Bytes: (m k + n k + m outputs) * 2 at least.
//
// FP8: x and W are E4M3 numbers with a scale a row, applied at the end. Where W has a scale for every 128 x
// 128 numbers, each 128 of K are added up on their own and join the total scaled; two sets of sums leave room
// for 128 columns.
#include <algorithm>

#include "gpu/launch.cuh"
#include "kernels/gemm/cuda/hopper_tile.cuh"

namespace cheetah::gpu {
namespace {

using tile::Ending;
using tile::kOutBytes;
using tile::kThreads;
using tile::kTileM;
using tile::kXBytes;
using tile::Multiplier;
using tile::Pipe;
using tile::Tile;

constexpr int kGroupPairs = 8;  // walked together

struct TileParams {
  int rows, columns;  // pairs of tiles
  bool beside;
  int k_blocks, gate_rows;
  Ending ending;
};

struct TileAt {
  int row, column;
};
// Groups of rows of pairs, walked column by column.
__device__ inline TileAt tile_at(int index, const TileParams& p, int rank) {
  const int per_group = kGroupPairs * p.columns, first = index / per_group * kGroupPairs;
  const int rows = min(kGroupPairs, p.rows - first), in = index % per_group;
  const int row = first + in % rows, column = in / rows;
  return p.beside ? TileAt{row, column * 2 + rank} : TileAt{row * 2 + rank, column};
}

// A stage's share of one block: its own x and half of W for both, or its own W and half of x for both.
template <class T>
__device__ void copy_stage(const TensorMap& x_map, const TensorMap& w_map, const TileParams& p,
    const TileAt& at, int rank, int k, unsigned char* to, uint64_t* full) {
  constexpr uint16_t kBoth = 3;
  const auto w_row = [&](int half) {
    return T::kGated ? half * p.gate_rows + at.column * T::kColumns : at.column * T::kN + half * (T::kN / 2);
  };
  unsigned char* w = to + kXBytes;
  ptx::barrier_expect_bytes(full, T::kStageBytes);
  if (p.beside) {
    ptx::copy_box_2d_to_cluster(
        to + rank * (kXBytes / 2), &x_map, k * T::kK, at.row * kTileM + rank * (kTileM / 2), full, kBoth);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      ptx::copy_box_2d(w + half * (T::kWBytes / 2), &w_map, k * T::kK, w_row(half), full, ptx::kEvictFirst);
  } else {
    ptx::copy_box_2d(to, &x_map, k * T::kK, at.row * kTileM, full, ptx::kEvictLast);
    ptx::copy_box_2d_to_cluster(w + rank * (T::kWBytes / 2), &w_map, k * T::kK, w_row(rank), full, kBoth);
  }
}

template <class T>
__device__ void copy_tiles(const TensorMap& x_map, const TensorMap& w_map, const TileParams& p,
    unsigned char* smem, Pipe<T>& pipe, int rank) {
  int it = 0;
  for (int t = blockIdx.x / 2; t < p.rows * p.columns; t += gridDim.x / 2) {
    const TileAt at = tile_at(t, p, rank);
    for (int k = 0; k < p.k_blocks; ++k, ++it) {
      const int stage = it % T::kStages;
      ptx::barrier_wait(&pipe.empty[stage], ((it / T::kStages) & 1) ^ 1);
      copy_stage<T>(x_map, w_map, p, at, rank, k, smem + stage * T::kStageBytes, &pipe.full[stage]);
    }
  }
}

// Sums to y through shared memory, kStored columns at a time.
template <class T>
__device__ void store_tile(const TensorMap& y_map, const TileParams& p, const tile::Early<T>& early,
    const float (&sums)[T::kN / 2], unsigned char* staging, int64_t first_row, int column_tile) {
  const int in_group = threadIdx.x % 128, group = threadIdx.x / 128 - 1;
#pragma unroll
  for (int part = 0; part < T::kColumns / T::kStored; ++part) {
    const int64_t first_column = static_cast<int64_t>(column_tile) * T::kColumns + part * T::kStored;
    if (in_group == 0) ptx::wait_stores_read();
    tile::group_sync(group);
    tile::stage_outputs<T>(p.ending, early, sums, part, first_row, first_column, staging);
    ptx::fence_async_shared();
    tile::group_sync(group);
    if (in_group == 0) {
      for (int half = 0; half < T::kStored / 64; ++half)
        ptx::store_box_2d(&y_map, staging + half * 8192, static_cast<int>(first_column) + half * 64,
            static_cast<int>(first_row));
      ptx::commit_stores();
    }
  }
}

template <class T>
__device__ void multiply_tiles(
    const TensorMap& y_map, const TileParams& p, unsigned char* smem, Pipe<T>& pipe, int rank) {
  const int group = threadIdx.x / 128 - 1;
  Multiplier<T> multiplier{smem, pipe, group};
  float sums[T::kN / 2];
  tile::Early<T> early;
  for (int t = blockIdx.x / 2; t < p.rows * p.columns; t += gridDim.x / 2) {
    const TileAt at = tile_at(t, p, rank);
    const int64_t first_row = static_cast<int64_t>(at.row) * kTileM + group * 64;
    early.fetch(p.ending, first_row, static_cast<int64_t>(at.column) * T::kColumns);
    if constexpr (T::kBlockScales) {
      const int first = at.column * T::kColumns, second = T::kGated ? p.gate_rows + first : first;
      multiplier.add_up_scaled(sums, p.k_blocks,
          p.ending.w_scales + static_cast<int64_t>(first / 128) * p.k_blocks,
          p.ending.w_scales + static_cast<int64_t>(second / 128) * p.k_blocks);
    } else {
      multiplier.add_up(sums, p.k_blocks);
    }
    store_tile<T>(
        y_map, p, early, sums, smem + T::kStages * T::kStageBytes + group * kOutBytes, first_row, at.column);
  }
  if (threadIdx.x % 128 == 0) ptx::wait_stores();
}

template <class T>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    tile_gemm(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
        const __grid_constant__ TensorMap y_map, const TileParams params) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ Pipe<T> pipe;
  const int rank = static_cast<int>(ptx::cluster_rank());
  if (threadIdx.x == 0) {
    for (int s = 0; s < T::kStages; ++s) {
      ptx::barrier_init(&pipe.full[s], 1);
      ptx::barrier_init(&pipe.empty[s], 4);
    }
    ptx::fence_barrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  if (threadIdx.x < 128) {
    ptx::give_registers<40>();
    if (threadIdx.x == 0) copy_tiles<T>(x_map, w_map, params, smem, pipe, rank);
  } else {
    ptx::take_registers<232>();
    multiply_tiles<T>(y_map, params, smem, pipe, rank);
  }
  ptx::cluster_arrive();  // a block's shared memory is read by its partner until both are done
  ptx::cluster_wait();
}

template <class T>
void launch_product(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream) {
  const int64_t rows = (args.m + kTileM - 1) / kTileM,
                columns = (args.outputs() + T::kColumns - 1) / T::kColumns;
  const TileParams params{.rows = static_cast<int>(plan.beside ? rows : (rows + 1) / 2),
      .columns = static_cast<int>(plan.beside ? (columns + 1) / 2 : columns),
      .beside = plan.beside,
      .k_blocks = static_cast<int>((args.k + T::kK - 1) / T::kK),
      .gate_rows = static_cast<int>(args.n / 2),
      .ending = tile::ending_of(args)};
  const int64_t blocks = stream.device().num_sms / 2 * 2;
  gpu::launch({.kernel = "hopper_tile_gemm",
                  .grid = {std::min<int64_t>(blocks, int64_t{params.rows} * params.columns * 2)},
                  .block = {kThreads},
                  .shared_bytes = T::kSmemBytes,
                  .overlaps_previous = true,
                  .numbers = {args.m, args.n, args.k, static_cast<int64_t>(args.dtype)}},
      stream, tile_gemm<T>,
      hopper::matrix_map(
          args.x, args.dtype, args.m, args.k, args.x_stride, plan.beside ? kTileM / 2 : kTileM),
      hopper::matrix_map(args.w, args.dtype, args.n, args.k, args.k, T::kN / 2),
      hopper::matrix_map(args.y, args.y_dtype, args.m, args.outputs(), args.y_stride, 64), params);
}

template <wgmma::Input kInput, bool kBlockScales = false>
void launch_product(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream) {
  if (args.gated)
    launch_product<Tile<kInput, true, kBlockScales>>(args, plan, stream);
  else
    launch_product<Tile<kInput, false, kBlockScales>>(args, plan, stream);
}

}  // namespace

void hopper_planned_tiles(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream) {
  if (args.m == 0) return;
  if (plan.splits > 1) return hopper_split_gemm(args, plan, stream);
  if (args.dtype == DType::kF8E4M3 && args.block_scales)
    launch_product<wgmma::Input::kE4m3, true>(args, plan, stream);
  else if (args.dtype == DType::kF8E4M3)
    launch_product<wgmma::Input::kE4m3>(args, plan, stream);
  else if (args.dtype == DType::kF16)
    launch_product<wgmma::Input::kF16>(args, plan, stream);
  else
    launch_product<wgmma::Input::kBf16>(args, plan, stream);
}

void hopper_tile_gemm(const HopperGemmArgs& args, Stream& stream) {
  hopper_planned_tiles(args, plan_tiles(args, stream.device().num_sms), stream);
}

}  // namespace cheetah::gpu

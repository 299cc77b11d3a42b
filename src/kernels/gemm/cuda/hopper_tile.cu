// Products of prompts: 128 x 256 outputs a block, 64 of K at a time through four stages of shared memory. One
// warp copies; two warpgroups of 64 rows multiply. Pairs of blocks work on the same columns: each fetches
// half of W's tile for both. The grid is as large as the card and walks the tiles in an order that keeps x
// and W in the second-level cache. Results leave through shared memory while the next tile is being fetched.
//
// FLOPs: 2 m n k. Bytes: (m k + n k + m outputs) * 2 at least.
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "gpu/wgmma.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_epilogue.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kTileM = 128, kTileN = 256, kTileK = 64, kStages = 4, kThreads = 384;
constexpr int kXBytes = kTileM * 128, kWBytes = kTileN * 128, kStageBytes = kXBytes + kWBytes;
constexpr int kOutBytes = 16384;  // 64 rows x 128 columns, one a warpgroup
constexpr int kSmemBytes = kStages * kStageBytes + 2 * kOutBytes + 1024;
constexpr int kGroupTiles = 8;  // pairs of row tiles walked together

struct TileParams {
  int pairs, columns;  // tiles of the output: pairs of 128 rows, columns of 256 (gated: 128)
  int k_blocks, gate_rows;
  const float* bias;
  const void* residual;
  int64_t residual_stride;
  int64_t m, outputs;
};

struct TileAt {
  int pair, column;
};
// Groups of rows of tiles, walked column by column.
__device__ inline TileAt tile_at(int index, const TileParams& p) {
  const int per_group = kGroupTiles * p.columns, first = index / per_group * kGroupTiles;
  const int rows = min(kGroupTiles, p.pairs - first), in = index % per_group;
  return {first + in % rows, in / rows};
}

template <wgmma::Input kInput, bool kGated>
struct Output {
  static constexpr int kColumns = kGated ? 128 : 256;  // outputs of a tile

  // Values j and j + 1 of a fragment: two neighbouring columns of one row.
  __device__ static float2 finish(const float (&sums)[128], int j, const TileParams& p, int64_t row,
                                  int64_t column) {
    float2 v = make_float2(sums[j], sums[j + 1]);
    if constexpr (kGated) {
      float2 up = make_float2(sums[j + 64], sums[j + 65]);
      if (p.bias && column < p.outputs) {
        v.x += p.bias[column];
        v.y += p.bias[column + 1];
        up.x += p.bias[p.outputs + column];
        up.y += p.bias[p.outputs + column + 1];
      }
      v = make_float2(hopper::gated_silu(v.x, up.x), hopper::gated_silu(v.y, up.y));
    } else if (p.bias && column < p.outputs) {
      v.x += p.bias[column];
      v.y += p.bias[column + 1];
    }
    if (p.residual && row < p.m && column < p.outputs) {
      const float2 r = unpack_pair<kInput>(*reinterpret_cast<const uint32_t*>(
          static_cast<const uint16_t*>(p.residual) + row * p.residual_stride + column));
      v.x += r.x;
      v.y += r.y;
    }
    return v;
  }
};

__device__ inline void group_sync(int group) {
  if (group == 0)
    asm volatile("bar.sync 1, 128;" ::: "memory");
  else
    asm volatile("bar.sync 2, 128;" ::: "memory");
}

struct Pipe {
  uint64_t full[kStages], empty[kStages];
};

template <bool kGated>
__device__ void copy_tiles(const TensorMap& x_map, const TensorMap& w_map, const TileParams& p,
                           unsigned char* smem, Pipe& pipe, int rank) {
  int it = 0;
  for (int t = blockIdx.x / 2; t < p.pairs * p.columns; t += gridDim.x / 2) {
    const TileAt at = tile_at(t, p);
    const int w_row = kGated ? rank * p.gate_rows + at.column * 128 : at.column * kTileN + rank * 128;
    for (int k = 0; k < p.k_blocks; ++k, ++it) {
      const int stage = it % kStages;
      ptx::barrier_wait(&pipe.empty[stage], ((it / kStages) & 1) ^ 1);
      ptx::barrier_expect_bytes(&pipe.full[stage], kStageBytes);
      unsigned char* to = smem + stage * kStageBytes;
      ptx::copy_box_2d(to, &x_map, k * kTileK, (at.pair * 2 + rank) * kTileM, &pipe.full[stage],
                       ptx::kEvictLast);
      ptx::copy_box_2d_to_cluster(to + kXBytes + rank * (kWBytes / 2), &w_map, k * kTileK, w_row,
                                  &pipe.full[stage], 3);
    }
  }
}

template <wgmma::Input kInput, bool kGated>
__device__ void multiply_tiles(const TensorMap& y_map, const TileParams& p, unsigned char* smem, Pipe& pipe,
                               int rank) {
  using Out = Output<kInput, kGated>;
  const int group = threadIdx.x / 128 - 1, in_group = threadIdx.x % 128, warp = in_group / 32,
            lane = in_group % 32;
  unsigned char* staging = smem + kStages * kStageBytes + group * kOutBytes;
  // Both blocks' copies of a stage must be free before either is filled again.
  const auto release = [&](int it) {
    if (in_group < 2) ptx::barrier_arrive_at(ptx::remote_address(&pipe.empty[it % kStages], in_group));
  };
  float sums[128];
  int it = 0;
  for (int t = blockIdx.x / 2; t < p.pairs * p.columns; t += gridDim.x / 2) {
    const TileAt at = tile_at(t, p);
    for (int k = 0; k < p.k_blocks; ++k, ++it) {
      const int stage = it % kStages;
      ptx::barrier_wait(&pipe.full[stage], (it / kStages) & 1);
      wgmma::fence();
      const uint64_t x =
          wgmma::descriptor(ptx::shared_address(smem + stage * kStageBytes + group * 64 * 128));
      const uint64_t w = wgmma::descriptor(ptx::shared_address(smem + stage * kStageBytes + kXBytes));
#pragma unroll
      for (int i = 0; i < kTileK / 16; ++i)
        wgmma::Product<kInput, kTileN>::add(sums, x + i * 2, w + i * 2, k | i);
      wgmma::commit();
      wgmma::wait<1>();
      if (k > 0) release(it - 1);
    }
    wgmma::wait<0>();
    release(it - 1);

    const int64_t first_row = static_cast<int64_t>(at.pair * 2 + rank) * kTileM + group * 64;
    const int64_t row = first_row + warp * 16 + lane / 4;
#pragma unroll
    for (int part = 0; part < Out::kColumns / 128; ++part) {
      const int64_t first_column = static_cast<int64_t>(at.column) * Out::kColumns + part * 128;
      if (in_group == 0) ptx::wait_stores_read();
      group_sync(group);
#pragma unroll
      for (int j = 0; j < 8; ++j) {  // 16 columns at a time
        uint32_t packed[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int64_t column = first_column + j * 16 + (i / 2) * 8 + (lane % 4) * 2;
          const float2 v = Out::finish(sums, part * 64 + j * 8 + i * 2, p, row + (i % 2) * 8, column);
          packed[i] = pack_pair<kInput>(v.x, v.y);
        }
        const int in_rows = warp * 16 + lane % 16, chunk = j * 2 + lane / 16;
        ptx::store_matrices(ptx::shared_address(staging) + (chunk / 8) * 8192 + in_rows * 128 +
                                (((chunk % 8) ^ (in_rows % 8)) << 4),
                            packed[0], packed[1], packed[2], packed[3]);
      }
      ptx::fence_async_shared();
      group_sync(group);
      if (in_group == 0) {
        for (int half = 0; half < 2; ++half)
          ptx::store_box_2d(&y_map, staging + half * 8192, static_cast<int>(first_column) + half * 64,
                            static_cast<int>(first_row));
        ptx::commit_stores();
      }
    }
  }
  if (in_group == 0) ptx::wait_stores();
}

template <wgmma::Input kInput, bool kGated>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    tile_gemm(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
              const __grid_constant__ TensorMap y_map, const TileParams params) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ Pipe pipe;
  const int rank = static_cast<int>(ptx::cluster_rank());
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
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
    if (threadIdx.x == 0) copy_tiles<kGated>(x_map, w_map, params, smem, pipe, rank);
  } else {
    ptx::take_registers<232>();
    multiply_tiles<kInput, kGated>(y_map, params, smem, pipe, rank);
  }
  ptx::cluster_arrive();  // a block's shared memory is read by its partner until both are done
  ptx::cluster_wait();
}

template <wgmma::Input kInput, bool kGated>
void launch_product(const HopperGemmArgs& args, Stream& stream) {
  const int64_t columns = Output<kInput, kGated>::kColumns;
  const TileParams params{.pairs = static_cast<int>((args.m + 2 * kTileM - 1) / (2 * kTileM)),
                          .columns = static_cast<int>((args.outputs() + columns - 1) / columns),
                          .k_blocks = static_cast<int>((args.k + kTileK - 1) / kTileK),
                          .gate_rows = static_cast<int>(args.n / 2),
                          .bias = args.bias,
                          .residual = args.residual,
                          .residual_stride = args.residual_stride,
                          .m = args.m,
                          .outputs = args.outputs()};
  const int64_t blocks = stream.device().num_sms / 2 * 2;
  gpu::launch({.kernel = "hopper_tile_gemm",
               .grid = {std::min<int64_t>(blocks, int64_t{params.pairs} * params.columns * 2)},
               .block = {kThreads},
               .shared_bytes = kSmemBytes,
               .overlaps_previous = true,
               .numbers = {args.m, args.n, args.k}},
              stream, tile_gemm<kInput, kGated>,
              hopper::matrix_map(args.x, args.dtype, args.m, args.k, args.x_stride, kTileM),
              hopper::matrix_map(args.w, args.dtype, args.n, args.k, args.k, 128),
              hopper::matrix_map(args.y, args.dtype, args.m, args.outputs(), args.y_stride, 64), params);
}

template <wgmma::Input kInput>
void launch_product(const HopperGemmArgs& args, Stream& stream) {
  if (args.gated)
    launch_product<kInput, true>(args, stream);
  else
    launch_product<kInput, false>(args, stream);
}

}  // namespace

void hopper_tile_gemm(const HopperGemmArgs& args, Stream& stream) {
  if (args.m == 0) return;
  if (args.dtype == DType::kF16)
    launch_product<wgmma::Input::kF16>(args, stream);
  else
    launch_product<wgmma::Input::kBf16>(args, stream);
}

}  // namespace cheetah::gpu

// SPDX-License-Identifier: MIT
// Products with too few tiles for the card: the blocks of a cluster each add up a part of K for one tile,
// give each other their sums through distributed shared memory, and finish a share of the columns each. Parts
// are added in the order of K, so that results never change.
//
// FLOPs: 2 m n k. Bytes: (m k + n k + m outputs) * 2 at least.
#include "gpu/launch.cuh"
#include "kernels/gemm/cuda/hopper_tile.cuh"

namespace cheetah::gpu {
namespace {

using tile::kOutBytes;
using tile::kThreads;
using tile::kTileM;
using tile::kXBytes;

constexpr int kMultipliers = 256;  // threads

template <wgmma::Input kInput, bool kGated>
struct Alone : tile::Tile<kInput, kGated> {
  static constexpr int kCluster = 1;
};
// Half as wide: twice as many for the card, at three quarters of the time each.
template <wgmma::Input kInput, bool kGated>
struct Narrow : Alone<kInput, kGated> {
  static constexpr int kN = 128, kColumns = kGated ? kN / 2 : kN, kStages = 6;
  static constexpr int kWBytes = kN * 128, kStageBytes = kXBytes + kWBytes;
};

// The columns of a tile that one of its blocks finishes.
template <class T, int kSplitCount>
struct Share : T {
  static constexpr int kSplits = kSplitCount;
  using Whole = T;
  static constexpr int kN = T::kN / kSplits, kColumns = T::kColumns / kSplits, kStored = kColumns;
  static constexpr int kFours = kN / 8;  // sums of a thread, four at a time
};

struct SplitParams {
  int rows, k_blocks, gate_rows;  // rows of tiles
  tile::Ending ending;
  uint16_t* y;
  int64_t y_stride;
};

struct Span {  // of K's blocks
  int begin, end;
};

template <class T>
__device__ void copy_span(const TensorMap& x_map, const TensorMap& w_map, const SplitParams& p, int row,
    int column, const Span& span, unsigned char* smem, tile::Pipe<T>& pipe) {
  for (int k = span.begin, it = 0; k < span.end; ++k, ++it) {
    uint64_t* full = &pipe.full[it % T::kStages];
    ptx::barrier_wait(&pipe.empty[it % T::kStages], ((it / T::kStages) & 1) ^ 1);
    ptx::barrier_expect_bytes(full, T::kStageBytes);
    unsigned char* to = smem + it % T::kStages * T::kStageBytes;
    ptx::copy_box_2d(to, &x_map, k * T::kK, row * kTileM, full, ptx::kEvictLast);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int w_row =
          T::kGated ? half * p.gate_rows + column * T::kColumns : column * T::kN + half * (T::kN / 2);
      ptx::copy_box_2d(
          to + kXBytes + half * (T::kWBytes / 2), &w_map, k * T::kK, w_row, full, ptx::kEvictFirst);
    }
  }
}

// Where four sums of a thread lie that came from block `from`.
template <class S>
__device__ float4* four_at(unsigned char* smem, int from, int i) {
  return reinterpret_cast<float4*>(smem) + (from * S::kFours + i) * kMultipliers + threadIdx.x - 128;
}

// Every block's share of this one's sums to where that block looks for them: a gated share's gates, then what
// they let through.
template <class S>
__device__ void hand_out(const float (&sums)[S::Whole::kN / 2], unsigned char* smem, int rank) {
  constexpr int kParts = S::kGated ? 2 : 1, kEach = S::kFours / kParts, kPartSums = S::Whole::kN / 2 / kParts;
#pragma unroll
  for (int to = 0; to < S::kSplits; ++to) {
    float4* first = four_at<S>(smem, rank, 0);
    if (to != rank) first = static_cast<float4*>(__cluster_map_shared_rank(first, to));
#pragma unroll
    for (int i = 0; i < S::kFours; ++i) {
      const int j = i / kEach * kPartSums + (to * kEach + i % kEach) * 4;
      first[i * kMultipliers] = make_float4(sums[j], sums[j + 1], sums[j + 2], sums[j + 3]);
    }
  }
}

template <class S>
__device__ void add_parts(unsigned char* smem, float (&sums)[S::kN / 2]) {
#pragma unroll
  for (int i = 0; i < S::kFours; ++i) {
    float4 total = *four_at<S>(smem, 0, i);
#pragma unroll
    for (int from = 1; from < S::kSplits; ++from) {
      const float4 v = *four_at<S>(smem, from, i);
      total = make_float4(total.x + v.x, total.y + v.y, total.z + v.z, total.w + v.w);
    }
    sums[i * 4] = total.x;
    sums[i * 4 + 1] = total.y;
    sums[i * 4 + 2] = total.z;
    sums[i * 4 + 3] = total.w;
  }
}

__device__ inline void meet() {
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

template <class S>
__device__ void multiply_span(const SplitParams& p, int row, int column, const Span& span,
    unsigned char* smem, tile::Pipe<typename S::Whole>& pipe, int rank) {
  using T = typename S::Whole;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int64_t first_row = static_cast<int64_t>(row) * kTileM + group * 64,
                first_column = static_cast<int64_t>(column) * T::kColumns + rank * S::kColumns;
  tile::Early<S> early;
  early.fetch(p.ending, first_row, first_column);
  float sums[T::kN / 2];
  tile::Multiplier<T>{smem, pipe, group}.add_up(sums, span.end - span.begin);
  meet();  // nobody reads the stages any more
  hand_out<S>(sums, smem, rank);
  meet();
  float share[S::kN / 2];
  add_parts<S>(smem, share);
  unsigned char* staging = smem + T::kStages * T::kStageBytes + group * kOutBytes;
  tile::stage_outputs<S>(p.ending, early, share, 0, first_row, first_column, staging);
  tile::group_sync(group);
  tile::store_staged<S>(p.ending, p.y, p.y_stride, staging, first_row, first_column);
}

template <class S>
__global__ void __launch_bounds__(kThreads, 1) split_tiles(const __grid_constant__ TensorMap x_map,
    const __grid_constant__ TensorMap w_map, const SplitParams params) {
  using T = typename S::Whole;
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ tile::Pipe<T> pipe;
  if (threadIdx.x == 0) {
    for (int s = 0; s < T::kStages; ++s) {
      ptx::barrier_init(&pipe.full[s], 1);
      ptx::barrier_init(&pipe.empty[s], 2);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int rank = static_cast<int>(ptx::cluster_rank()), index = blockIdx.x / S::kSplits;
  const int row = index % params.rows, column = index / params.rows;
  const Span span{rank * params.k_blocks / S::kSplits, (rank + 1) * params.k_blocks / S::kSplits};
  if (threadIdx.x < 128) {
    ptx::give_registers<40>();
    if (threadIdx.x == 0) copy_span<T>(x_map, w_map, params, row, column, span, smem, pipe);
    __syncwarp();
    meet();
    meet();
  } else {
    ptx::take_registers<232>();
    multiply_span<S>(params, row, column, span, smem, pipe, rank);
  }
}

template <class S>
void launch_split(const HopperGemmArgs& args, Stream& stream) {
  using T = typename S::Whole;
  static_assert(T::kStages * T::kStageBytes + 2 * kOutBytes + 1024 <= T::kSmemBytes);
  static_assert(S::kSplits * S::kFours * kMultipliers * 16 <= T::kStages * T::kStageBytes);
  const int64_t rows = (args.m + kTileM - 1) / kTileM,
                columns = (args.outputs() + T::kColumns - 1) / T::kColumns;
  launch({.kernel = "hopper_split_gemm",
             .grid = {rows * columns * S::kSplits},
             .block = {kThreads},
             .shared_bytes = T::kSmemBytes,
             .cluster = {S::kSplits},
             .overlaps_previous = true,
             .numbers = {args.m, args.n, args.k, S::kSplits, static_cast<int64_t>(args.dtype)}},
      stream, split_tiles<S>, hopper::matrix_map(args.x, args.dtype, args.m, args.k, args.x_stride, kTileM),
      hopper::matrix_map(args.w, args.dtype, args.n, args.k, args.k, T::kN / 2),
      SplitParams{.rows = static_cast<int>(rows),
          .k_blocks = static_cast<int>((args.k + T::kK - 1) / T::kK),
          .gate_rows = static_cast<int>(args.n / 2),
          .ending = tile::ending_of(args),
          .y = static_cast<uint16_t*>(args.y),
          .y_stride = args.y_stride});
}

template <wgmma::Input kInput, bool kGated>
void launch_split(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream) {
  if (plan.narrow) return launch_split<Share<Narrow<kInput, kGated>, 2>>(args, stream);
  launch_split<Share<Alone<kInput, kGated>, 2>>(args, stream);
}

template <wgmma::Input kInput>
void launch_split(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream) {
  if (args.gated) return launch_split<kInput, true>(args, plan, stream);
  launch_split<kInput, false>(args, plan, stream);
}

}  // namespace

void hopper_split_gemm(const HopperGemmArgs& args, const TilePlan& plan, Stream& stream) {
  if (args.dtype == DType::kF8E4M3) return launch_split<wgmma::Input::kE4m3>(args, plan, stream);
  if (args.dtype == DType::kF16) return launch_split<wgmma::Input::kF16>(args, plan, stream);
  launch_split<wgmma::Input::kBf16>(args, plan, stream);
}

}  // namespace cheetah::gpu

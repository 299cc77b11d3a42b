// SPDX-License-Identifier: MIT
#pragma once
// Products of experts: as hopper_packed_product.cuh, but two blocks an SM walk through the tiles of the
// experts that have rows, and their rings never run empty between tiles.
#include <algorithm>

#include "kernels/gemm/cuda/hopper_grouped.cuh"
#include "kernels/gemm/cuda/hopper_packed.cuh"

namespace cheetah::gpu::packed {

using grouped::Problem;
using grouped::Work;

struct GroupedTask {
  Problem problem;
  SkinnyParams out;
  int fold, row_bytes;
  bool gated;

  __host__ __device__ int outputs_each() const { return gated ? kHalf : kRows; }
};

__device__ inline void sync_consumers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
static_assert(kConsumers == 256);

template <class S>
__device__ void store_tile(const GroupedTask& task, const Work& work, const float* parts) {
  constexpr wgmma::Input kBf16 = wgmma::Input::kBf16;
  SkinnyParams out = task.out;
  if (task.problem.biases) out.bias = task.problem.biases[work.expert];
  const int fours = task.outputs_each() / 4, tokens = min(S::kTokens, work.end_row - work.first_row);
  for (int item = threadIdx.x; item < tokens * fours; item += kConsumers) {
    const int token = item / fours, row = item % fours * 4, y_row = work.first_row + token;
    const int64_t output = static_cast<int64_t>(work.column) * task.outputs_each() + row;
    if (output >= out.outputs) continue;
    const auto sum_at = [&](int tile_row, int64_t w_row) {
      const float4 sum = *reinterpret_cast<const float4*>(parts + token * kPitch + tile_row);
      return skinny::scale_and_bias<kBf16>(out, sum, y_row, w_row);
    };
    float4 v = sum_at(row, output);
    if (task.gated) {
      const float4 up = sum_at(kHalf + row, output + out.gate_rows);
      v = make_float4(hopper::gated_silu(v.x, up.x), hopper::gated_silu(v.y, up.y),
          hopper::gated_silu(v.z, up.z), hopper::gated_silu(v.w, up.w));
    }
    skinny::store_four(out, y_row, output, v);
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, 2)
    grouped_packed(const __grid_constant__ TensorMap x_map, const GroupedTask task) {
  extern __shared__ unsigned char raw[];
  unsigned char *x_ring = aligned_shared(raw, 1024), *w_ring = x_ring + S::kXStages * S::kXBytes;
  float* parts = reinterpret_cast<float*>(x_ring + S::kRingBytes);
  __shared__ Pipes<S> pipes;
  __shared__ grouped::Tiles tiles;
  const Problem& problem = task.problem;
  if (threadIdx.x == 0) pipes.init();
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  if (threadIdx.x < kWarpSize) tiles.count_up(problem, S::kTokens);
  __syncthreads();
  const int total = tiles.total(problem), step = gridDim.x;
  if (threadIdx.x < kConsumers) {
    Consumer<S> consumer{.x_ring = x_ring, .w_ring = w_ring, .pipes = &pipes};
    for (int t = blockIdx.x; t < total; t += step) {
      float sums[S::kTokens / 2] = {};
      consumer.multiply(sums, {0, 0, task.fold, task.row_bytes}, 0, problem.k_blocks);
      sync_consumers();  // the tile before has left
      spread_sums<S>(sums, task.fold, parts);
      sync_consumers();
      store_tile<S>(task, tiles.at(problem, t, S::kTokens), parts);
    }
  } else if (threadIdx.x == kConsumers) {
    typename Pipes<S>::InW at;
    for (int t = blockIdx.x; t < total; t += step) {
      const Work work = tiles.at(problem, t, S::kTokens);
      const int first = work.column * task.outputs_each();
      const TileRows rows{
          first, task.gated ? problem.gate_rows + first : first + kHalf, task.fold, task.row_bytes};
      copy_w<S>(problem.w + work.expert, rows, 0, problem.k_blocks, w_ring, pipes, at);
    }
  } else if (threadIdx.x == kConsumers + kWarpSize) {
    typename Pipes<S>::InX at;
    for (int t = blockIdx.x; t < total; t += step)
      copy_x<S>(x_map, tiles.at(problem, t, S::kTokens).first_row, 0, problem.k_blocks, x_ring, pipes, at);
  }
}

template <class S>
void launch_grouped(const HopperGroupedArgs& args, Stream& stream) {
  GroupedTask task{};
  const int64_t bytes = row_bytes(args.dtype, args.k);
  task.fold = packed_fold(bytes);
  task.row_bytes = static_cast<int>(bytes);
  task.gated = args.gated;
  const int64_t columns = (args.outputs() + task.outputs_each() - 1) / task.outputs_each();
  const int64_t most = (args.rows + S::kTokens - 1) / S::kTokens + std::min(args.count, args.rows);
  task.problem = {.count = static_cast<int>(args.count),
      .columns = static_cast<int>(columns),
      .k_blocks = static_cast<int>((args.k + S::W::kCols - 1) / S::W::kCols),
      .gate_rows = static_cast<int>(args.n / 2),
      .offsets = args.offsets,
      .w = args.w,
      .biases = args.biases,
      .w_scales = nullptr};
  task.out.gate_rows = static_cast<int>(args.n / 2);
  task.out.outputs = args.outputs();
  task.out.y = args.y;
  task.out.y_stride = args.y_stride;
  launch({.kernel = "hopper_packed_experts",
             .grid = {std::min<int64_t>(2 * stream.device().num_sms, most * columns)},
             .block = {kThreads},
             .shared_bytes = S::kRingBytes + S::kPartsBytes + 1024,
             .overlaps_previous = true,
             .numbers = {args.rows, args.count, args.n, args.k, static_cast<int64_t>(args.dtype)}},
      stream, grouped_packed<S>,
      hopper::matrix_map(args.x, DType::kBF16, args.rows, args.k, args.x_stride, S::kTokens), task);
}

template <DType kType>
void run_grouped(const HopperGroupedArgs& args, Stream& stream) {
  if (args.rows <= 16 * args.count) return launch_grouped<Shape<kType, 16, true>>(args, stream);
  launch_grouped<Shape<kType, 32, true>>(args, stream);
}

}  // namespace cheetah::gpu::packed

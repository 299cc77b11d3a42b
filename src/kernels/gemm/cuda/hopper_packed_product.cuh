// SPDX-License-Identifier: MIT
#pragma once
// One product, a tile of 128 rows of W a cluster; a type of W a source file.
#include <algorithm>

#include "kernels/gemm/cuda/hopper_packed.cuh"

namespace cheetah::gpu::packed {

struct PackedTask {
  SkinnyParams out;  // k_blocks: units
  int splits, fold, row_bytes;
  bool gated;

  __host__ __device__ int outputs_each() const { return gated ? kHalf : kRows; }
};

__device__ inline float4 add_parts(const float* parts, int offset, int splits) {
  float4 total = {};
  for (int rank = 0; rank < splits; ++rank) {
    const float4 v = ptx::load_remote_float4(ptx::remote_address(parts, rank) + offset * 4);
    total = make_float4(total.x + v.x, total.y + v.y, total.z + v.z, total.w + v.w);
  }
  return total;
}

// The cluster's blocks each finish their share of the tile's outputs.
__device__ inline void finish(const PackedTask& task, int tile, int rank, const float* parts) {
  constexpr wgmma::Input kBf16 = wgmma::Input::kBf16;
  const SkinnyParams& p = task.out;
  const int mine = task.outputs_each() / task.splits, fours = mine / 4;
  for (int item = threadIdx.x; item < p.m * fours; item += kThreads) {
    const int token = item / fours, row = rank * mine + item % fours * 4;
    const int64_t output = static_cast<int64_t>(tile) * task.outputs_each() + row;
    if (output >= p.outputs) continue;
    const auto sum_at = [&](int tile_row, int64_t w_row) {
      return skinny::scale_and_bias<kBf16>(
          p, add_parts(parts, token * kPitch + tile_row, task.splits), token, w_row);
    };
    float4 v = sum_at(row, output);
    if (task.gated) {
      const float4 up = sum_at(kHalf + row, output + p.gate_rows);
      v = make_float4(hopper::gated_silu(v.x, up.x), hopper::gated_silu(v.y, up.y),
          hopper::gated_silu(v.z, up.z), hopper::gated_silu(v.w, up.w));
    }
    skinny::store_four(p, token, output, v);
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, 2) packed_gemm(
    const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap x_map, const PackedTask task) {
  extern __shared__ unsigned char raw[];
  unsigned char *x_ring = aligned_shared(raw, 1024), *w_ring = x_ring + S::kXStages * S::kXBytes;
  __shared__ Pipes<S> pipes;
  const int rank = static_cast<int>(ptx::cluster_rank()), tile = blockIdx.x / task.splits,
            warp = threadIdx.x / kWarpSize;
  const int begin = rank * task.out.k_blocks / task.splits,
            end = (rank + 1) * task.out.k_blocks / task.splits;
  if (threadIdx.x == 0) pipes.init();
  __syncthreads();
  ptx::launch_dependents();
  float sums[S::kTokens / 2] = {};
  if (warp < kConsumerWarps) {
    Consumer<S> consumer{.x_ring = x_ring, .w_ring = w_ring, .pipes = &pipes};
    consumer.multiply(sums, {0, 0, task.fold, task.row_bytes}, begin, end);
  } else if (threadIdx.x == kConsumers) {
    const int first = tile * task.outputs_each();
    typename Pipes<S>::InW at;
    copy_w<S>(&w_map,
        {first, task.gated ? task.out.gate_rows + first : first + kHalf, task.fold, task.row_bytes}, begin,
        end, w_ring, pipes, at);
  } else if (threadIdx.x == kConsumers + kWarpSize) {
    ptx::wait_for_dependencies();
    typename Pipes<S>::InX at;
    copy_x<S>(x_map, 0, begin, end, x_ring, pipes, at);
  }
  __syncwarp();
  ptx::wait_for_dependencies();
  __syncthreads();
  float* parts = reinterpret_cast<float*>(x_ring);  // every product is done
  if (warp < kConsumerWarps) spread_sums<S>(sums, task.fold, parts);
  ptx::cluster_arrive();
  ptx::cluster_wait();
  finish(task, tile, rank, parts);
  ptx::cluster_arrive();  // others read this block's sums until here
  ptx::cluster_wait();
}

// Blocks that share a tile's inner dimension: as long as they are two an SM and have four units each.
inline int packed_splits(int64_t tiles, int64_t units, int num_multiprocessors) {
  int splits = 8;
  while (splits > 1 && (tiles * splits > 2 * num_multiprocessors || units < 4 * splits)) splits /= 2;
  return splits;
}

template <class S>
void launch_packed(const HopperBlocksArgs& args, Stream& stream) {
  const int64_t outputs = args.gated ? args.w.rows / 2 : args.w.rows,
                bytes = row_bytes(args.w.dtype, args.w.cols);
  PackedTask task{};
  task.out.m = static_cast<int>(args.m);
  task.out.k_blocks = static_cast<int>((args.w.cols + S::W::kCols - 1) / S::W::kCols);
  task.out.gate_rows = static_cast<int>(args.w.rows / 2);
  task.out.outputs = outputs;
  task.out.bias = args.bias;
  task.out.residual = args.residual;
  task.out.residual_stride = args.residual_stride;
  task.out.y = args.y;
  task.out.y_stride = args.y_stride;
  task.out.f32_output = args.f32_output;
  task.fold = packed_fold(bytes);
  task.row_bytes = static_cast<int>(bytes);
  task.gated = args.gated;
  const int64_t tiles = (outputs + task.outputs_each() - 1) / task.outputs_each();
  task.splits = packed_splits(tiles, task.out.k_blocks, stream.device().num_sms);
  launch({.kernel = "hopper_packed_gemm",
             .grid = {tiles * task.splits},
             .block = {kThreads},
             .shared_bytes = S::kRingBytes + 1024,
             .cluster = {task.splits},
             .overlaps_previous = true,
             .numbers = {args.m, args.w.rows, args.w.cols, task.splits, static_cast<int64_t>(args.w.dtype)}},
      stream, packed_gemm<S>, packed_weight_map(args.w),
      hopper::matrix_map(args.x, DType::kBF16, args.m, args.w.cols, args.x_stride, S::kTokens), task);
}

template <DType kType>
void run_packed(const HopperBlocksArgs& args, Stream& stream) {
  if (args.m <= 16) return launch_packed<Shape<kType, 16, false>>(args, stream);
  if (args.m <= 32) return launch_packed<Shape<kType, 32, false>>(args, stream);
  if constexpr (kType != DType::kMXFP4) launch_packed<Shape<kType, 64, false>>(args, stream);
}

}  // namespace cheetah::gpu::packed

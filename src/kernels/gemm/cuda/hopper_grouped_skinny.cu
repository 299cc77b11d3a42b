// SPDX-License-Identifier: MIT
// Products of experts, few rows each: as hopper_skinny.cu, W's rows are the long side of the tensor cores'
// tile and a few rows of x the short one. Two blocks an SM walk through the experts that have rows; their
// rings of shared memory never run empty between tiles.
//
// Bytes: W of the experts that have rows. FLOPs: far below the bound.
#include <algorithm>

#include "gpu/launch.cuh"
#include "kernels/gemm/cuda/hopper_grouped.cuh"
#include "kernels/gemm/cuda/hopper_skinny.cuh"

namespace cheetah::gpu {
namespace {

using grouped::Problem;
using grouped::Work;
using skinny::kConsumers;
using skinny::kPitch;
using skinny::kRows;
using skinny::kThreads;
using skinny::kWBytes;
using skinny::SkinnyParams;

template <wgmma::Input kIn, int kTokenCount, bool kIsGated>
struct Shape {
  static constexpr wgmma::Input kInput = kIn;
  static constexpr int kTokens = kTokenCount;
  static constexpr bool kGated = kIsGated;
  static constexpr int kK = skinny::kBlockK<kIn>;
  static constexpr int kOutputs = kGated ? kRows / 2 : kRows;
  static constexpr int kStageBytes = kWBytes + kTokens * 128;
  static constexpr int kStages = kTokens <= 16 ? 5 : 3;
  static constexpr int kPartsBytes = kTokens * kPitch * 4;
  static constexpr int kSmemBytes = kStages * kStageBytes + kPartsBytes + 1024;
};

template <class S>
using PipeOf = skinny::Pipe<S::kStages>;

template <class S>
__device__ void copy_tile(const TensorMap& x_map, const Problem& p, const Work& work, unsigned char* ring,
    PipeOf<S>& pipe, int& it) {
  const TensorMap* w_map = p.w + work.expert;
  const int first = work.column * S::kOutputs, second = S::kGated ? p.gate_rows + first : first + 64;
  for (int k = 0; k < p.k_blocks; ++k, ++it) {
    uint64_t* full = &pipe.full[it % S::kStages];
    ptx::barrier_wait(&pipe.empty[it % S::kStages], ((it / S::kStages) & 1) ^ 1);
    ptx::barrier_expect_bytes(full, S::kStageBytes);
    unsigned char* to = ring + it % S::kStages * S::kStageBytes;
    ptx::copy_box_2d(to, w_map, k * S::kK, first, full, ptx::kEvictFirst);
    ptx::copy_box_2d(to + kWBytes / 2, w_map, k * S::kK, second, full, ptx::kEvictFirst);
    ptx::copy_box_2d(to + kWBytes, &x_map, k * S::kK, work.first_row, full, ptx::kEvictLast);
  }
}

// totals: this warpgroup's 64 rows of W times the tokens. scales: of those rows along K, or none.
template <class S>
__device__ void multiply_tile(float (&totals)[S::kTokens / 2], int k_blocks, const float* scales,
    unsigned char* ring, PipeOf<S>& pipe, int& it) {
  float sums[S::kTokens / 2];
#pragma unroll
  for (float& total : totals) total = 0.f;
  for (int k = 0; k < k_blocks; ++k, ++it) {
    const float scale = scales ? __ldg(scales + k) : 1.f;
    ptx::barrier_wait(&pipe.full[it % S::kStages], (it / S::kStages) & 1);
    wgmma::fence();
    skinny::multiply_stage<S::kInput, S::kTokens>(sums, ring + it % S::kStages * S::kStageBytes, true);
    wgmma::wait<0>();
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[it % S::kStages]);
#pragma unroll
    for (int j = 0; j < S::kTokens / 2; ++j) totals[j] += sums[j] * scale;
  }
}

__device__ inline float4 part_at(const float* parts, int token, int row) {
  return *reinterpret_cast<const float4*>(parts + token * kPitch + row);
}

template <class S>
__device__ void store_tile(const SkinnyParams& p, const Work& work, const float* parts) {
  constexpr int kFours = S::kOutputs / 4;
  const int tokens = min(S::kTokens, work.end_row - work.first_row);
  for (int item = threadIdx.x; item < tokens * kFours; item += kConsumers) {
    const int token = item / kFours, row = item % kFours * 4, y_row = work.first_row + token;
    const int64_t output = static_cast<int64_t>(work.column) * S::kOutputs + row;
    if (output >= p.outputs) continue;
    float4 v = skinny::scale_and_bias<S::kInput>(p, part_at(parts, token, row), y_row, output);
    if constexpr (S::kGated) {
      const float4 up =
          skinny::scale_and_bias<S::kInput>(p, part_at(parts, token, 64 + row), y_row, output + p.gate_rows);
      v = make_float4(hopper::gated_silu(v.x, up.x), hopper::gated_silu(v.y, up.y),
          hopper::gated_silu(v.z, up.z), hopper::gated_silu(v.w, up.w));
    }
    skinny::store_four(p, y_row, output, v);
  }
}

__device__ inline void sync_consumers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

template <class S>
__device__ void compute_tile(
    const Problem& p, SkinnyParams out, const Work& work, unsigned char* ring, PipeOf<S>& pipe, int& it) {
  float* parts = reinterpret_cast<float*>(ring + S::kStages * S::kStageBytes);
  const float* scales = p.w_scales ? p.w_scales[work.expert] : nullptr;
  const float* along_k = nullptr;
  if (out.block_scales && scales) {
    const int half = static_cast<int>(threadIdx.x) / 128;
    const int row = S::kGated ? half * p.gate_rows + work.column * 64 : work.column * kRows;
    along_k = scales + static_cast<int64_t>(row / 128) * p.k_blocks;
  } else {
    out.w_scales = scales;
  }
  if (p.biases) out.bias = p.biases[work.expert];
  float sums[S::kTokens / 2];
  multiply_tile<S>(sums, p.k_blocks, along_k, ring, pipe, it);
  sync_consumers();  // the tile before has left
  skinny::spread_sums<S::kTokens>(sums, parts);
  sync_consumers();
  store_tile<S>(out, work, parts);
}

template <class S>
__global__ void __launch_bounds__(kThreads, 2)
    grouped_skinny(const __grid_constant__ TensorMap x_map, const Problem problem, const SkinnyParams out) {
  extern __shared__ unsigned char raw[];
  unsigned char* ring = ptx::align_shared(raw, 1024);
  __shared__ PipeOf<S> pipe;
  __shared__ grouped::Tiles tiles;
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::kStages; ++s) {
      ptx::barrier_init(&pipe.full[s], 1);
      ptx::barrier_init(&pipe.empty[s], 2);
    }
    ptx::fence_barrier_init();
  }
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  if (threadIdx.x < kWarpSize) tiles.count_up(problem, S::kTokens);
  __syncthreads();
  const int total = tiles.total(problem);
  int it = 0;
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers)
      for (int t = blockIdx.x; t < total; t += gridDim.x)
        copy_tile<S>(x_map, problem, tiles.at(problem, t, S::kTokens), ring, pipe, it);
  } else {
    for (int t = blockIdx.x; t < total; t += gridDim.x)
      compute_tile<S>(problem, out, tiles.at(problem, t, S::kTokens), ring, pipe, it);
  }
}

template <class S>
void launch_skinny(const HopperGroupedArgs& args, Stream& stream) {
  const int64_t columns = (args.outputs() + S::kOutputs - 1) / S::kOutputs;
  const int64_t most = (args.rows + S::kTokens - 1) / S::kTokens + std::min(args.count, args.rows);
  const bool blocks = args.block_scales;
  SkinnyParams out{};
  out.gate_rows = static_cast<int>(args.n / 2);
  out.outputs = args.outputs();
  out.y = args.y;
  out.y_stride = args.y_stride;
  out.x_scales = args.x_scales;
  // Only whether they are there: each expert has its own.
  out.block_scales = blocks ? args.x_scales : nullptr;
  launch({.kernel = "hopper_grouped_skinny",
             .grid = {std::min<int64_t>(2 * stream.device().num_sms, most * columns)},
             .block = {kThreads},
             .shared_bytes = S::kSmemBytes,
             .overlaps_previous = true,
             .numbers = {args.rows, args.count, args.n, args.k, static_cast<int64_t>(args.dtype)}},
      stream, grouped_skinny<S>,
      hopper::matrix_map(args.x, args.dtype, args.rows, args.k, args.x_stride, S::kTokens),
      Problem{.count = static_cast<int>(args.count),
          .columns = static_cast<int>(columns),
          .k_blocks = static_cast<int>((args.k + S::kK - 1) / S::kK),
          .gate_rows = static_cast<int>(args.n / 2),
          .offsets = args.offsets,
          .w = args.w,
          .biases = args.biases,
          .w_scales = args.w_scales},
      out);
}

template <wgmma::Input kInput, bool kGated>
void launch_skinny(const HopperGroupedArgs& args, Stream& stream) {
  if (args.rows <= 16 * args.count)
    launch_skinny<Shape<kInput, 16, kGated>>(args, stream);
  else
    launch_skinny<Shape<kInput, 64, kGated>>(args, stream);
}

template <wgmma::Input kInput>
void launch_skinny(const HopperGroupedArgs& args, Stream& stream) {
  if (args.gated)
    launch_skinny<kInput, true>(args, stream);
  else
    launch_skinny<kInput, false>(args, stream);
}

}  // namespace

void hopper_grouped_skinny(const HopperGroupedArgs& args, Stream& stream) {
  if (args.rows == 0) return;
  if (args.dtype == DType::kBF16)
    launch_skinny<wgmma::Input::kBf16>(args, stream);
  else if (args.dtype == DType::kF16)
    launch_skinny<wgmma::Input::kF16>(args, stream);
  else
    launch_skinny<wgmma::Input::kE4m3>(args, stream);
}

}  // namespace cheetah::gpu

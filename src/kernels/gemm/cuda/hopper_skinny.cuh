// SPDX-License-Identifier: MIT
#pragma once
// Products of decode steps: few rows of x, so W's bytes are all that matters. W's rows are the long side of
// the tensor cores' tile and x's rows the short one. A block streams 128 rows of W through as much shared
// memory as two blocks an SM allow; a cluster of blocks shares the inner dimension and adds its parts up
// through distributed shared memory, in a fixed order. W does not depend on the kernel before: its copies
// start before that one ends.
//
// FP8: each 128 of K are added up on their own and join the total scaled, where W has a scale for every 128 x
// 128 numbers; scales of rows are applied at the end.
//
// Bytes: those of W. FLOPs: 2 m n k, far below the bound.
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "gpu/wgmma_fp8.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_epilogue.cuh"

namespace cheetah::gpu::skinny {

constexpr int kRows = 128;  // of W a block; gated: 64 gates and 64 of what they let through
template <wgmma::Input kInput>
inline constexpr int kBlockK = kInput == wgmma::Input::kE4m3 ? 128 : 64;  // 128 bytes
constexpr int kConsumers = 256;
constexpr int kThreads = kConsumers + 32;
constexpr int kWBytes = kRows * 128;
constexpr int kPitch = kRows + 4;  // of the partial sums: no bank twice

struct SkinnyParams {
  int m, k_blocks, gate_rows;
  int64_t outputs;
  const float* bias;
  const void* residual;
  int64_t residual_stride;
  void* y;
  int64_t y_stride;
  bool f32_output;
  const float* x_scales;      // FP8: [m]; F16: or none
  const float* w_scales;      // FP8: [n], or
  const float* block_scales;  // [n / 128, k_blocks]
};

template <int kTokens>
struct Stage {
  static constexpr int kBytes = kWBytes + kTokens * 128;
  static constexpr int kBlocks = kTokens > 128 ? 1 : 2;  // a multiprocessor: their sums fill its registers
  static constexpr int kCount = (208 << 10) / kBlocks / kBytes;
};

template <int kStages>
struct Pipe {
  uint64_t full[kStages], empty[kStages];
};

struct Span {  // of K's blocks
  int begin, end;
  __device__ int count() const { return end - begin; }
};

template <int kTokens, bool kGated, int kBlock, int kStages>
__device__ void copy_blocks(const TensorMap& w_map, const TensorMap& x_map, const SkinnyParams& p, int tile,
    const Span& span, unsigned char* ring, Pipe<kStages>& pipe) {
  using S = Stage<kTokens>;
  const int first = kGated ? tile * 64 : tile * kRows, second = kGated ? p.gate_rows + tile * 64 : first + 64;
  const auto copy_w = [&](int i) {
    uint64_t* barrier = &pipe.full[i % kStages];
    unsigned char* to = ring + i % kStages * S::kBytes;
    ptx::barrier_expect_bytes(barrier, S::kBytes);
    ptx::copy_box_2d(to, &w_map, (span.begin + i) * kBlock, first, barrier, ptx::kEvictFirst);
    ptx::copy_box_2d(to + kWBytes / 2, &w_map, (span.begin + i) * kBlock, second, barrier, ptx::kEvictFirst);
  };
  const auto copy_x = [&](int i) {
    ptx::copy_box_2d(ring + i % kStages * S::kBytes + kWBytes, &x_map, (span.begin + i) * kBlock, 0,
        &pipe.full[i % kStages], ptx::kEvictLast);
  };
  const int ahead = min(span.count(), kStages);
  for (int i = 0; i < ahead; ++i) copy_w(i);
  ptx::wait_for_dependencies();
  for (int i = 0; i < ahead; ++i) copy_x(i);
  for (int i = ahead; i < span.count(); ++i) {
    ptx::barrier_wait(&pipe.empty[i % kStages], ((i / kStages) & 1) ^ 1);
    copy_w(i);
    copy_x(i);
  }
}

// The block's rows times K's block in a stage, added to sums unless it is the first.
template <wgmma::Input kInput, int kTokens>
__device__ void multiply_stage(float (&sums)[kTokens / 2], unsigned char* stage, bool is_first) {
  const uint64_t w = wgmma::descriptor(ptx::shared_address(stage + threadIdx.x / 128 * (kWBytes / 2)));
  const uint64_t x = wgmma::descriptor(ptx::shared_address(stage + kWBytes));
#pragma unroll
  for (int j = 0; j < 4; ++j) wgmma::Product<kInput, kTokens>::add(sums, w + j * 2, x + j * 2, !is_first | j);
  wgmma::commit();
}

// scales: of this warpgroup's rows along K, or none.
template <int kTokens, int kStages>
__device__ void multiply_scaled(float (&totals)[kTokens / 2], const Span& span, unsigned char* ring,
    Pipe<kStages>& pipe, const float* scales) {
  float sums[kTokens / 2];
  for (int i = 0; i < span.count(); ++i) {
    const float scale = scales ? __ldg(scales + span.begin + i) : 1.f;
    ptx::barrier_wait(&pipe.full[i % kStages], (i / kStages) & 1);
    wgmma::fence();
    multiply_stage<wgmma::Input::kE4m3, kTokens>(sums, ring + i % kStages * Stage<kTokens>::kBytes, true);
    wgmma::wait<0>();
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[i % kStages]);
#pragma unroll
    for (int j = 0; j < kTokens / 2; ++j) totals[j] += sums[j] * scale;
  }
}

template <wgmma::Input kInput, int kTokens, int kStages>
__device__ void multiply_blocks(
    float (&sums)[kTokens / 2], const Span& span, unsigned char* ring, Pipe<kStages>& pipe) {
  for (int i = 0; i < span.count(); ++i) {
    ptx::barrier_wait(&pipe.full[i % kStages], (i / kStages) & 1);
    wgmma::fence();
    multiply_stage<kInput, kTokens>(sums, ring + i % kStages * Stage<kTokens>::kBytes, i == 0);
    wgmma::wait<1>();
    if (i > 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(i - 1) % kStages]);
  }
  wgmma::wait<0>();
}

// Sums as the tensor cores leave them to parts[token][row].
template <int kTokens>
__device__ void spread_sums(const float (&sums)[kTokens / 2], float* parts) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = (lane % 4) * 2;
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) parts[(j * 8 + column + i % 2) * kPitch + row + i / 2 * 8] = sums[j * 4 + i];
}

__device__ inline void store_four(const SkinnyParams& p, int token, int64_t output, float4 v) {
  if (p.residual) {
    const uint2 raw = *reinterpret_cast<const uint2*>(
        static_cast<const uint16_t*>(p.residual) + token * p.residual_stride + output);
    const float2 low = unpack_pair<wgmma::Input::kBf16>(raw.x),
                 high = unpack_pair<wgmma::Input::kBf16>(raw.y);
    v = make_float4(v.x + low.x, v.y + low.y, v.z + high.x, v.w + high.y);
  }
  const int64_t at = token * p.y_stride + output;
  if (p.f32_output)
    *reinterpret_cast<float4*>(static_cast<float*>(p.y) + at) = v;
  else
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p.y) + at) =
        make_uint2(pack_pair<wgmma::Input::kBf16>(v.x, v.y), pack_pair<wgmma::Input::kBf16>(v.z, v.w));
}

template <int kSplits>
__device__ float4 add_parts(const float* parts, int offset) {
  float4 total = {};
#pragma unroll
  for (int rank = 0; rank < kSplits; ++rank) {
    const float4 v = kSplits == 1 ? *reinterpret_cast<const float4*>(parts + offset)
                                  : ptx::load_remote_float4(ptx::remote_address(parts, rank) + offset * 4);
    total = make_float4(total.x + v.x, total.y + v.y, total.z + v.z, total.w + v.w);
  }
  return total;
}

template <wgmma::Input kInput>
__device__ float4 scale_and_bias(const SkinnyParams& p, float4 v, int token, int64_t w_row) {
  if (kInput != wgmma::Input::kBf16 && p.x_scales) {
    const float x = p.x_scales[token];
    v = make_float4(v.x * x, v.y * x, v.z * x, v.w * x);
  }
  if (kInput == wgmma::Input::kE4m3 && p.w_scales) {
    const float4 w = *reinterpret_cast<const float4*>(p.w_scales + w_row);
    v = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
  }
  if (!p.bias) return v;
  const float4 b = *reinterpret_cast<const float4*>(p.bias + w_row);
  return make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
}

// The cluster's blocks each finish their share of the 128 rows.
template <wgmma::Input kInput, int kSplits, bool kGated>
__device__ void finish(const SkinnyParams& p, int tile, int rank, const float* parts) {
  constexpr int kOutputs = kGated ? kRows / 2 : kRows, kMine = kOutputs / kSplits, kFours = kMine / 4;
  for (int item = threadIdx.x; item < p.m * kFours; item += kThreads) {
    const int token = item / kFours, row = rank * kMine + item % kFours * 4;
    const int64_t output = static_cast<int64_t>(tile) * kOutputs + row;
    if (output >= p.outputs) continue;
    float4 v = scale_and_bias<kInput>(p, add_parts<kSplits>(parts, token * kPitch + row), token, output);
    if constexpr (kGated) {
      const float4 up = scale_and_bias<kInput>(
          p, add_parts<kSplits>(parts, token * kPitch + 64 + row), token, output + p.gate_rows);
      v = make_float4(hopper::gated_silu(v.x, up.x), hopper::gated_silu(v.y, up.y),
          hopper::gated_silu(v.z, up.z), hopper::gated_silu(v.w, up.w));
    }
    store_four(p, token, output, v);
  }
}

template <wgmma::Input kInput, int kTokens, int kSplits, bool kGated>
__global__ void __launch_bounds__(kThreads, Stage<kTokens>::kBlocks)
    skinny_gemm(const __grid_constant__ TensorMap w_map, const __grid_constant__ TensorMap x_map,
        const SkinnyParams params) {
  constexpr int kStages = Stage<kTokens>::kCount;
  extern __shared__ unsigned char raw[];
  unsigned char* ring = ptx::align_shared(raw, 1024);
  float* parts = reinterpret_cast<float*>(ring);  // once every block has been multiplied
  __shared__ Pipe<kStages> pipe;
  const int rank = kSplits == 1 ? 0 : static_cast<int>(ptx::cluster_rank()), tile = blockIdx.x / kSplits;
  const Span span{rank * params.k_blocks / kSplits, (rank + 1) * params.k_blocks / kSplits};
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::barrier_init(&pipe.full[s], 1);
      ptx::barrier_init(&pipe.empty[s], 2);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  ptx::launch_dependents();
  float sums[kTokens / 2] = {};
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers)
      copy_blocks<kTokens, kGated, kBlockK<kInput>>(w_map, x_map, params, tile, span, ring, pipe);
    __syncwarp();
  } else if constexpr (kInput == wgmma::Input::kE4m3 && kTokens <= kMaxSkinnyRows) {
    const int half = static_cast<int>(threadIdx.x) / 128;
    const int64_t row = kGated ? half * params.gate_rows + tile * 64 : tile * kRows;
    const float* scales = params.block_scales;
    if (scales) scales += row / 128 * params.k_blocks;
    multiply_scaled<kTokens>(sums, span, ring, pipe, scales);
  } else {
    multiply_blocks<kInput, kTokens>(sums, span, ring, pipe);
  }
  ptx::wait_for_dependencies();
  __syncthreads();
  if (threadIdx.x < kConsumers) spread_sums<kTokens>(sums, parts);
  if constexpr (kSplits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    __syncthreads();
  }
  finish<kInput, kSplits, kGated>(params, tile, rank, parts);
  if constexpr (kSplits > 1) {
    ptx::cluster_arrive();  // others read this block's sums until here
    ptx::cluster_wait();
  }
}

template <wgmma::Input kInput, int kTokens, int kSplits, bool kGated>
void launch_product(const HopperGemmArgs& args, int64_t tiles, Stream& stream) {
  const SkinnyParams params{.m = static_cast<int>(args.m),
      .k_blocks = static_cast<int>((args.k + kBlockK<kInput> - 1) / kBlockK<kInput>),
      .gate_rows = static_cast<int>(args.n / 2),
      .outputs = args.outputs(),
      .bias = args.bias,
      .residual = args.residual,
      .residual_stride = args.residual_stride,
      .y = args.y,
      .y_stride = args.y_stride,
      .f32_output = args.y_dtype == DType::kF32,
      .x_scales = args.x_scales,
      .w_scales = args.block_scales ? nullptr : args.w_scales,
      .block_scales = args.block_scales ? args.w_scales : nullptr};
  gpu::launch({.kernel = "hopper_skinny_gemm",
                  .grid = {tiles * kSplits},
                  .block = {kThreads},
                  .shared_bytes = Stage<kTokens>::kCount * Stage<kTokens>::kBytes + 1024,
                  .cluster = {kSplits},
                  .overlaps_previous = args.w_is_settled,
                  .numbers = {args.m, args.n, args.k, kSplits, static_cast<int64_t>(args.dtype)}},
      stream, skinny_gemm<kInput, kTokens, kSplits, kGated>,
      hopper::matrix_map(args.w, args.dtype, args.n, args.k, args.k, 64),
      hopper::matrix_map(args.x, args.dtype, args.m, args.k, args.x_stride, kTokens), params);
}

template <wgmma::Input kInput, int kTokens, bool kGated>
void launch_product(const HopperGemmArgs& args, Stream& stream) {
  constexpr int64_t kOutputs = kGated ? kRows / 2 : kRows;
  const int64_t tiles = (args.outputs() + kOutputs - 1) / kOutputs;
  const int64_t k_blocks = (args.k + kBlockK<kInput> - 1) / kBlockK<kInput>;
  switch (skinny_splits(tiles, k_blocks, stream.device().num_sms)) {
    case 1:
      return launch_product<kInput, kTokens, 1, kGated>(args, tiles, stream);
    case 2:
      return launch_product<kInput, kTokens, 2, kGated>(args, tiles, stream);
    case 4:
      return launch_product<kInput, kTokens, 4, kGated>(args, tiles, stream);
    default:
      return launch_product<kInput, kTokens, 8, kGated>(args, tiles, stream);
  }
}

template <wgmma::Input kInput, int kTokens>
void launch_product(const HopperGemmArgs& args, Stream& stream) {
  if (args.gated)
    launch_product<kInput, kTokens, true>(args, stream);
  else
    launch_product<kInput, kTokens, false>(args, stream);
}

}  // namespace cheetah::gpu::skinny

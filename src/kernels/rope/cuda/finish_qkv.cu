// SPDX-License-Identifier: MIT
// Queries and keys normalized and rotated, keys and values cached. One warp per head, which stays in registers;
// a block works on one token, whose sines and cosines it computes once, while the product before still runs.
// bytes  q, k and v read once, q written once, keys and values written once    bound  memory
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/attention/cuda/cache_store.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/rope/cuda/rotation.cuh"
#include "kernels/rope/finish_qkv_cuda.h"

namespace cheetah::gpu {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kBlocksPerMultiprocessor = 5;  // 48 registers per thread: nothing spills
constexpr int kPairs = 4;                    // a lane
constexpr int64_t kMaxDim = 2 * kPairs * kWarpSize;

// A head as a warp holds it. Pair i < half is what RoPE rotates; the pairs behind are neighbours that stay.
struct Head {
  float first[kPairs], second[kPairs];
};

struct Shape {
  int dim, half;
  bool halves;
  __device__ int pair(int j) const { return static_cast<int>(threadIdx.x) % kWarpSize + j * kWarpSize; }
  __device__ bool has(int j) const { return pair(j) < dim / 2; }
  __device__ int first(int j) const { return halves && pair(j) < half ? pair(j) : 2 * pair(j); }
  __device__ int second(int j) const { return halves && pair(j) < half ? pair(j) + half : 2 * pair(j) + 1; }
};

template <class T>
__device__ Head load_head(const T* from, const Shape& shape) {
  Head head;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    head.first[j] = shape.has(j) ? widen(from[shape.first(j)]) : 0.f;
    head.second[j] = shape.has(j) ? widen(from[shape.second(j)]) : 0.f;
  }
  return head;
}

__device__ void normalize(Head& head, const Shape& shape, const float* weight, float eps, float offset) {
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) sum += head.first[j] * head.first[j] + head.second[j] * head.second[j];
  const float inverse = 1.f / sqrtf(warp_sum(sum) / static_cast<float>(shape.dim) + eps);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    if (!shape.has(j)) continue;
    head.first[j] *= inverse * (weight[shape.first(j)] + offset);
    head.second[j] *= inverse * (weight[shape.second(j)] + offset);
  }
}

template <class T>
__device__ void rotate(Head& head, const Shape& shape, const float2* rotations) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    if (shape.pair(j) >= shape.half) continue;
    const float2 result = rotated(head.first[j], head.second[j], rotations[shape.pair(j)]);
    head.first[j] =
        widen(narrow<T>(result.x));  // rounded before a cache's own rounding, as in separate steps
    head.second[j] = widen(narrow<T>(result.y));
  }
}

template <DType kCache>
__device__ void store_cached(const Head& head, const Shape& shape, std::byte* to) {
  RowScale row;
  if constexpr (kHasRowScale<kCache>) {
    float largest = 0.f;
#pragma unroll
    for (int j = 0; j < kPairs; ++j)
      largest = fmaxf(largest, fmaxf(fabsf(head.first[j]), fabsf(head.second[j])));
    row = row_scale_for<kCache>(warp_max(largest));
    store_row_scale(row, shape.dim, static_cast<int>(threadIdx.x) % kWarpSize, to);
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    if (!shape.has(j)) continue;
    store_number<kCache>(head.first[j] * row.inverse, shape.first(j), to);
    store_number<kCache>(head.second[j] * row.inverse, shape.second(j), to);
  }
}

template <class T>
__device__ void finish_query(
    const FinishQkvArgs<T>& args, const Shape& shape, const float2* rotations, T* query) {
  Head head = load_head(query, shape);
  if (args.q_norm) normalize(head, shape, args.q_norm, args.eps, args.weight_offset);
  rotate<T>(head, shape, rotations);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    if (!shape.has(j)) continue;
    query[shape.first(j)] = narrow<T>(head.first[j]);
    query[shape.second(j)] = narrow<T>(head.second[j]);
  }
}

template <class T, DType kCache>
__device__ void finish_key_or_value(
    const FinishQkvArgs<T>& args, const Shape& shape, const float2* rotations, int index) {
  const KvWriteArgs<T>& write = args.write;
  const PagedKv& kv = write.kv;
  const int64_t row = blockIdx.x;
  const auto kv_heads = static_cast<int>(kv.kv_heads);
  const bool is_key = index < kv_heads;
  const int kv_head = is_key ? index : index - kv_heads;
  const CachePlace place(write.batch, row);
  const int64_t at = cache_row(kv, place.pages, kv_head, place.position);
  if (is_key) {
    Head head = load_head(write.keys + row * write.key_stride + kv_head * kv.key_dim, shape);
    if (args.k_norm) normalize(head, shape, args.k_norm, args.eps, args.weight_offset);
    rotate<T>(head, shape, rotations);
    store_cached<kCache>(head, shape, kv.keys + at * device_row_bytes<kCache>(kv.key_dim));
  } else {
    const Shape plain{static_cast<int>(kv.value_dim), 0, false};
    store_cached<kCache>(load_head(write.values + row * write.value_stride + kv_head * kv.value_dim, plain),
        plain, kv.values + at * device_row_bytes<kCache>(kv.value_dim));
  }
}

// Shared memory: [half] rotations.
template <class T, DType kCache>
__global__ __launch_bounds__(kThreads, kBlocksPerMultiprocessor) void finish_token(
    const FinishQkvArgs<T> args) {
  extern __shared__ float2 rotations[];
  ptx::launch_dependents();
  const int64_t row = blockIdx.x;
  const AttentionBatch& batch = args.write.batch;
  const int32_t position = batch.positions[row];  // came with the step: no kernel of it writes this
  const Shape shape{static_cast<int>(args.write.kv.key_dim), static_cast<int>(args.angles.half),
      args.angles.layout == RopeLayout::kHalves};
  for (int i = static_cast<int>(threadIdx.x); i < shape.half; i += kThreads)
    rotations[i] = rotation_of(args.angles, row, static_cast<float>(position), i);
  __syncthreads();
  ptx::wait_for_dependencies();
  if (position < 0) return;  // fills up the batch
  const auto heads = static_cast<int>(args.heads), kv_heads = static_cast<int>(args.write.kv.kv_heads);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  for (int item = static_cast<int>(blockIdx.y) * kWarps + warp; item < heads + 2 * kv_heads;
       item += static_cast<int>(gridDim.y) * kWarps) {
    if (item < heads)
      finish_query(args, shape, rotations, args.q + row * args.q_stride + item * shape.dim);
    else
      finish_key_or_value<T, kCache>(args, shape, rotations, item - heads);
  }
}

}  // namespace

template <class T>
bool finish_qkv_fits(const FinishQkvArgs<T>& args) {
  const PagedKv& kv = args.write.kv;
  return kv.values && kv.key_dim <= kMaxDim && kv.value_dim <= kMaxDim && kv.key_dim % 2 == 0 &&
         kv.value_dim % 2 == 0;
}

template <class T>
void finish_qkv(const FinishQkvArgs<T>& args, Stream& stream) {
  const AttentionBatch& batch = args.write.batch;
  const PagedKv& kv = args.write.kv;
  // With few tokens every warp takes one head; with many a block shares the sines among all heads.
  constexpr int64_t kManyRows = 512;
  const int64_t groups = (args.heads + 2 * kv.kv_heads + kWarps - 1) / kWarps;
  with_cache_type(kv.dtype, [&](auto dtype) {
    launch({.kernel = "finish_qkv",
               .grid = {batch.rows, batch.rows < kManyRows ? groups : 1},
               .block = {kThreads},
               .shared_bytes = args.angles.half * static_cast<int64_t>(sizeof(float2)),
               .overlaps_previous = true,
               .numbers = {batch.rows, args.heads, kv.kv_heads, kv.key_dim, args.angles.half,
                   static_cast<int64_t>(kv.dtype)}},
        stream, finish_token<T, decltype(dtype)::value>, args);
  });
}

#define CHEETAH_INSTANTIATE(T)                            \
  template bool finish_qkv_fits(const FinishQkvArgs<T>&); \
  template void finish_qkv(const FinishQkvArgs<T>&, Stream&)
CHEETAH_INSTANTIATE(float);
CHEETAH_INSTANTIATE(Bf16);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu

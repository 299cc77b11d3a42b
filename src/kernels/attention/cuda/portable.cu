// SPDX-License-Identifier: MIT
// out = softmax(scale q K^T) V over a paged cache. One block a (row, head): its warps score 128 keys at a
// time, then its threads, each with its own dimensions, add the values; the softmax is kept running. bytes
// each block reads its whole context: heads of a group share it only through the caches bound  the caches and
// the float pipeline    why  right for every head size, cache type and mask
#include "base/error.h"
#include "gpu/launch.cuh"
#include "kernels/attention/cuda/cache_row.cuh"
#include "kernels/attention/cuda/portable.h"
#include "kernels/cuda/reduce.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kKeys = 128;  // scored at a time
constexpr int kDims = static_cast<int>(kMaxValueDim) / kThreads;

struct Shared {
  float weights[kKeys];
  float scales[kKeys];  // of the values' rows
  int64_t rows[kKeys];  // of the cache
  float scratch[kWarps];
};

// Scores of keys [first, first + count) into shared.weights.
template <class T, DType kCache>
__device__ void score_keys(const AttentionArgs<T>& args, const int32_t* pages, const float* q, int64_t first,
    int count, Shared& shared) {
  const PagedKv& kv = args.kv;
  const int64_t head = blockIdx.y / (args.heads / kv.kv_heads);
  for (int key = static_cast<int>(threadIdx.x) / kWarpSize; key < count; key += kWarps) {
    const int64_t row = cache_row(kv, pages, head, first + key);
    const std::byte* k = kv.keys + row * device_row_bytes<kCache>(kv.key_dim);
    float dot = 0.f;
    for (int64_t i = threadIdx.x % kWarpSize; i < kv.key_dim; i += kWarpSize)
      dot += q[i] * cached<kCache>(k, i);
    dot = warp_sum(dot) * row_scale<kCache>(k, kv.key_dim) * args.scale;
    if (threadIdx.x % kWarpSize != 0) continue;
    shared.weights[key] = args.soft_cap > 0.f ? args.soft_cap * tanhf(dot / args.soft_cap) : dot;
    shared.rows[key] = row;
    const std::byte* v = kv.values ? kv.values + row * device_row_bytes<kCache>(kv.value_dim) : k;
    shared.scales[key] = row_scale<kCache>(v, kv.values ? kv.value_dim : kv.key_dim);
  }
  __syncthreads();
}

// Adds the weighted values; sums[j] belongs to dimension threadIdx.x + j * kThreads.
template <DType kCache>
__device__ void add_values(const PagedKv& kv, const Shared& shared, int count, float (&sums)[kDims]) {
  const std::byte* values = kv.values ? kv.values : kv.keys;
  const int64_t bytes = device_row_bytes<kCache>(kv.values ? kv.value_dim : kv.key_dim);
  for (int key = 0; key < count; ++key) {
    const std::byte* v = values + shared.rows[key] * bytes;
    const float weight = shared.weights[key] * shared.scales[key];
#pragma unroll
    for (int j = 0; j < kDims; ++j) {
      const int64_t dim = threadIdx.x + j * kThreads;
      if (dim < kv.value_dim) sums[j] += weight * cached<kCache>(v, dim);
    }
  }
}

template <class T, DType kCache>
__global__ __launch_bounds__(kThreads) void attend_row(const AttentionArgs<T> args) {
  extern __shared__ float q[];  // [key_dim]
  __shared__ Shared shared;
  const int64_t row = blockIdx.x, head = blockIdx.y;
  const PagedKv& kv = args.kv;
  for (int64_t i = threadIdx.x; i < kv.key_dim; i += kThreads)
    q[i] = widen(args.q[row * args.q_stride + head * kv.key_dim + i]);
  __syncthreads();
  const int32_t* pages = args.batch.pages + args.batch.sequences[args.batch.row_sequence[row]].first_page;
  const int64_t end = args.batch.positions[row] + 1;
  const int64_t begin = args.window > 0 && end > args.window ? end - args.window : 0;
  float peak = args.sinks ? args.sinks[head] : __int_as_float(static_cast<int>(0xFF800000u));
  float total = args.sinks ? 1.f : 0.f;  // the sink's own share: e^0
  float sums[kDims] = {};
  for (int64_t first = begin; first < end; first += kKeys) {
    const int count = static_cast<int>(end - first < kKeys ? end - first : kKeys);
    score_keys<T, kCache>(args, pages, q, first, count, shared);
    const int key = static_cast<int>(threadIdx.x);  // one thread a key from here: kKeys == kThreads
    const float score = key < count ? shared.weights[key] : __int_as_float(static_cast<int>(0xFF800000u));
    const float new_peak = fmaxf(peak, block_max<kThreads>(score, shared.scratch));
    const float weight = key < count ? expf(score - new_peak) : 0.f;
    const float shrink = expf(peak - new_peak);
    shared.weights[key] = weight;
    total = total * shrink + block_sum<kThreads>(weight, shared.scratch);
    peak = new_peak;
#pragma unroll
    for (float& sum : sums) sum *= shrink;
    add_values<kCache>(kv, shared, count, sums);
    __syncthreads();
  }
  T* out = args.out + row * args.out_stride + head * kv.value_dim;
#pragma unroll
  for (int j = 0; j < kDims; ++j) {
    const int64_t dim = threadIdx.x + j * kThreads;
    if (dim < kv.value_dim) out[dim] = narrow<T>(end > 0 ? sums[j] / total : 0.f);  // 0: fills up the batch
  }
}

static_assert(kKeys == kThreads);

}  // namespace

template <class T>
void attention_portable(const AttentionArgs<T>& args, Stream& stream) {
  CHEETAH_ASSERT(
      args.kv.value_dim <= kMaxValueDim, "a value row is longer than the portable kernel's registers");
  const LaunchConfig config{.kernel = "attention_portable",
      .grid = {args.batch.rows, args.heads},
      .block = {kThreads},
      .shared_bytes = args.kv.key_dim * static_cast<int64_t>(sizeof(float)),
      .numbers = {args.batch.rows, args.heads, args.kv.kv_heads, args.kv.key_dim, args.kv.value_dim,
          args.batch.max_context, args.window, static_cast<int64_t>(args.kv.dtype)}};
  switch (args.kv.dtype) {
    case DType::kF16:
      return launch(config, stream, attend_row<T, DType::kF16>, args);
    case DType::kBF16:
      return launch(config, stream, attend_row<T, DType::kBF16>, args);
    case DType::kI8:
      return launch(config, stream, attend_row<T, DType::kI8>, args);
    case DType::kF8E4M3:
      return launch(config, stream, attend_row<T, DType::kF8E4M3>, args);
    default:
      return launch(config, stream, attend_row<T, DType::kF32>, args);
  }
}

template void attention_portable<float>(const AttentionArgs<float>&, Stream&);
template void attention_portable<Bf16>(const AttentionArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu

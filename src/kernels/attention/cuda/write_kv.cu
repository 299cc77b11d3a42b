// SPDX-License-Identifier: MIT
// Stores a step's keys and values in the cache, one warp a (row, head).
// bytes  keys and values read once, written once    bound  memory
#include "base/error.h"
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/attention/cuda/cache_store.cuh"
#include "kernels/cuda/reduce.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kWarps = 4;

template <class T, DType kCache>
__device__ void store_row(const T* from, int64_t dim, std::byte* to) {
  const auto lane = static_cast<int>(threadIdx.x);
  RowScale row;
  if constexpr (kHasRowScale<kCache>) {
    float largest = 0.f;
    for (int64_t i = lane; i < dim; i += kWarpSize) largest = fmaxf(largest, fabsf(widen(from[i])));
    row = row_scale_for<kCache>(warp_max(largest));
    store_row_scale(row, dim, lane, to);
  }
  for (int64_t i = lane; i < dim; i += kWarpSize) store_number<kCache>(widen(from[i]) * row.inverse, i, to);
}

template <class T, DType kCache>
__global__ __launch_bounds__(kWarps* kWarpSize) void store_rows(const KvWriteArgs<T> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const PagedKv& kv = args.kv;
  const int64_t row = blockIdx.x, head = static_cast<int64_t>(blockIdx.y) * kWarps + threadIdx.y;
  const CachePlace place(args.batch, row);
  if (head >= kv.kv_heads || place.position < 0) return;
  const int64_t at = cache_row(kv, place.pages, head, place.position);
  store_row<T, kCache>(args.keys + row * args.key_stride + head * kv.key_dim, kv.key_dim,
      kv.keys + at * device_row_bytes<kCache>(kv.key_dim));
  if (!kv.values) return;
  store_row<T, kCache>(args.values + row * args.value_stride + head * kv.value_dim, kv.value_dim,
      kv.values + at * device_row_bytes<kCache>(kv.value_dim));
}

}  // namespace

template <class T>
void write_kv(const KvWriteArgs<T>& args, Stream& stream) {
  with_cache_type(args.kv.dtype, [&](auto dtype) {
    launch({.kernel = "write_kv",
               .grid = {args.batch.rows, (args.kv.kv_heads + kWarps - 1) / kWarps},
               .block = {kWarpSize, kWarps},
               .overlaps_previous = true,
               .numbers = {args.batch.rows, args.kv.kv_heads, args.kv.key_dim, args.kv.value_dim,
                   static_cast<int64_t>(args.kv.dtype)}},
        stream, store_rows<T, decltype(dtype)::value>, args);
  });
}

template void write_kv<float>(const KvWriteArgs<float>&, Stream&);
template void write_kv<Bf16>(const KvWriteArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu

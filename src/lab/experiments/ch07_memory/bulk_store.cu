// SPDX-License-Identifier: MIT
// Results on their way out: stored by the threads, or collected in shared memory and stored in bulk.
#include "lab/experiments/async_copy.cuh"
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 2048;
constexpr int kQuads = kTile / 4;
constexpr uint32_t kTileBytes = kTile * sizeof(float);

__device__ float4 doubled(float4 v) { return {2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w}; }

// A tile a block and turn. kNarrow: 4-byte accesses instead of 16.
template <bool kNarrow>
__global__ __launch_bounds__(kThreads) void store_each(
    const float* __restrict__ in, float* __restrict__ out, int64_t tiles) {
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    if constexpr (kNarrow) {
#pragma unroll
      for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads)
        out[t * kTile + i] = 2 * in[t * kTile + i];
    } else {
      const float4* from = reinterpret_cast<const float4*>(in + t * kTile);
      float4* to = reinterpret_cast<float4*>(out + t * kTile);
#pragma unroll
      for (int q = static_cast<int>(threadIdx.x); q < kQuads; q += kThreads) to[q] = doubled(from[q]);
    }
  }
}

// Results meet in shared memory; one thread stores the tile. kSlots tiles take turns, so that a tile can be
// filled while the last ones are still being read.
template <int kSlots>
__global__ __launch_bounds__(kThreads) void store_in_bulk(
    const float* __restrict__ in, float* __restrict__ out, int64_t tiles) {
  __shared__ __align__(128) float4 ring[kSlots][kQuads];
  int slot = 0;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    // The store that used this slot last is the oldest of kSlots.
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kSlots - 1) : "memory");
    __syncthreads();
    const float4* from = reinterpret_cast<const float4*>(in + t * kTile);
    for (int q = static_cast<int>(threadIdx.x); q < kQuads; q += kThreads) ring[slot][q] = doubled(from[q]);
    ptx::fence_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::store_bulk(out + t * kTile, ring[slot], kTileBytes);
      ptx::commit_stores();
    }
    slot = slot + 1 == kSlots ? 0 : slot + 1;
  }
  if (threadIdx.x == 0) ptx::wait_stores();
}

struct Doubled {
  const float* in;
  __device__ double operator()(int64_t i) const { return 2.0 * in[i]; }
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of the tile
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<float>(n);
  const auto out = trial->output<float>(n);
  trial->expect<Doubled>(out, [=](const At& at) { return Doubled{at[in]}; });
  trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
  const int64_t blocks = std::min<int64_t>(n / kTile, setup.stream->device().num_sms * 8);
  const auto add = [&](const char* name, void (*kernel)(const float*, float*, int64_t)) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {kThreads}, .numbers = {n}}, at.stream(),
          kernel, at[in], at[out], n / kTile);
    });
  };
  add("store-4", store_each<true>);
  add("store-16", store_each<false>);
  add("bulk-1", store_in_bulk<1>);
  add("bulk-2", store_in_bulk<2>);
  return trial;
}

const Registered kBulkStore({
    .id = "ch07/bulk-store",
    .title = "Stores by threads and in bulk",
    .question = "Is it worth collecting results in shared memory to store them with the copy engine?",
    .mechanism = "Coalesced stores already fill whole lines and need no answer, so the bulk store saves only "
                 "issue slots and "
                 "adds a trip through shared memory; two slots let it overlap with the next tile.",
    .claim = {.text = "The copy engine works in both directions without issue slots of the SM; no figure is "
                      "given for stores."},
    .min_compute = 90,
    .variants = {{"store-4", "4 bytes per lane"}, {"store-16", "16 bytes per lane"},
        {"bulk-1", "shared memory, then one bulk store per tile"}, {"bulk-2", "two tiles take turns"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

// SPDX-License-Identifier: MIT
// Bringing data closer before it is needed: prefetches into L2, and tiles staged in shared memory by the
// three means of the chip (through registers, cp.async, bulk copies).
#include <cuda_pipeline.h>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// One warp walks kSpan bytes in order, 512 per step: few warps, so that latency shows. What to ask for ahead of
// time:
constexpr int kSpan = 1 << 16, kSteps = kSpan / 512, kAhead = 8;
struct Nothing {
  __device__ static void prefetch(const float4*, int, int) {}
};
struct LinePerLane {  // every lane asks for its own 16 bytes; the hardware merges them
  __device__ static void prefetch(const float4* from, int step, int lane) {
    if (step + kAhead < kSteps)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + (step + kAhead) * 32 + lane));
  }
};
struct BulkByOne {  // one lane asks for 2 KiB every fourth step
  __device__ static void prefetch(const float4* from, int step, int lane) {
    if (lane == 0 && step % 4 == 0 && step + kAhead + 4 <= kSteps)
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], 2048;" ::"l"(from + (step + kAhead) * 32)
                   : "memory");
  }
};

template <class Ahead, int kUnroll>
__global__ __launch_bounds__(kThreads) void sum_spans(const float4* x, float* y, int spans) {
  const int lane = threadIdx.x % 32;
  for (int span = blockIdx.x * kWarps + threadIdx.x / 32; span < spans; span += gridDim.x * kWarps) {
    const float4* from = x + int64_t{span} * (kSpan / 16);
    float sum = 0.f;
#pragma unroll kUnroll
    for (int step = 0; step < kSteps; ++step) {
      Ahead::prefetch(from, step, lane);
      const float4 v = from[step * 32 + lane];
      sum += v.x + v.y + v.z + v.w;
    }
    sum = gpu::warp_sum(sum);
    if (lane == 0) y[span] = sum;
  }
}

std::unique_ptr<Trial> make_prefetch(const Setup& setup) {
  const int64_t n = setup.dim(0), spans = n * 4 / kSpan;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n, 0, 1);
  const auto y = trial->output<float>("y", spans);
  trial->set_cost({.flops = 1.0 * n, .bytes = 4.0 * n, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t s = 0; s < host[y].size(); ++s) {
      double sum = 0;
      for (const float v : host[x].subspan(s * (kSpan / 4), kSpan / 4)) sum += v;
      host[y][s] = static_cast<float>(sum);
    }
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {at.stream().device().num_sms}, .block = {kThreads}}, at.stream(),
          kernel, reinterpret_cast<const float4*>(at[x]), at[y], static_cast<int>(spans));
    });
  };
  add("none", sum_spans<Nothing, 1>);
  add("prefetch-lines", sum_spans<LinePerLane, 1>);
  add("prefetch-bulk", sum_spans<BulkByOne, 1>);
  add("unrolled", sum_spans<Nothing, 8>);
  return trial;
}

const Registered kPrefetch({
    .id = "ch09/l2-prefetch",
    .title = "Prefetches into L2",
    .question = "Do explicit L2 prefetches hide memory latency where few warps run?",
    .mechanism =
        "Eight warps per SM with one load in flight each wait for memory most of the time. A prefetch eight "
        "steps ahead "
        "turns a miss to memory into an L2 hit; plain unrolling keeps eight loads in flight and hides both.",
    .claim = {.text =
                  "Prefetching 128 bytes ahead into L2 overlaps latency with other work; no number is given.",
        .variant = "prefetch-lines"},
    .min_compute = 90,
    .variants = {{.name = "none", .idea = "one 16-byte load per lane in flight"},
        {.name = "prefetch-lines", .idea = "prefetch.global.L2 by every lane, 4 KiB ahead"},
        {.name = "prefetch-bulk", .idea = "cp.async.bulk.prefetch.L2 of 2 KiB by one lane"},
        {.name = "unrolled", .idea = "no prefetch, eight loads in flight"}},
    .sizes = sizes_of({1 << 22, 1 << 26}),
    .quick = sizes_of({1 << 22}),
    .tolerance = {.relative = 1e-4},
    .make = make_prefetch,
});

// Dot products of tiles of two streams, block by block.
constexpr int kTile = 2048;  // floats of each stream

__device__ inline float tile_dot(const float* a, const float* b) {
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kTile / 4 / kThreads; ++i) {
    const float4 x = reinterpret_cast<const float4*>(a)[i * kThreads + threadIdx.x];
    const float4 y = reinterpret_cast<const float4*>(b)[i * kThreads + threadIdx.x];
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  return sum;
}

__global__ __launch_bounds__(kThreads) void dot_direct(const float* a, const float* b, float* y, int tiles) {
  __shared__ float scratch[kWarps];
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const float sum =
        gpu::block_sum<kThreads>(tile_dot(a + int64_t{tile} * kTile, b + int64_t{tile} * kTile), scratch);
    if (threadIdx.x == 0) y[tile] = sum;
  }
}

// Load, wait, compute, wait: nothing overlaps within the block.
__global__ __launch_bounds__(kThreads) void dot_one_buffer(
    const float* a, const float* b, float* y, int tiles) {
  __shared__ __align__(16) float staged[2][kTile];
  __shared__ float scratch[kWarps];
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    for (int i = threadIdx.x; i < kTile / 4; i += kThreads) {
      reinterpret_cast<float4*>(staged[0])[i] = reinterpret_cast<const float4*>(a + int64_t{tile} * kTile)[i];
      reinterpret_cast<float4*>(staged[1])[i] = reinterpret_cast<const float4*>(b + int64_t{tile} * kTile)[i];
    }
    __syncthreads();
    const float sum = gpu::block_sum<kThreads>(tile_dot(staged[0], staged[1]), scratch);
    if (threadIdx.x == 0) y[tile] = sum;
  }
}

__device__ inline void copy_tile_async(float* to, const float* a, const float* b, int tile) {
  for (int i = threadIdx.x; i < kTile / 4; i += kThreads) {
    __pipeline_memcpy_async(to + i * 4, a + int64_t{tile} * kTile + i * 4, 16);
    __pipeline_memcpy_async(to + kTile + i * 4, b + int64_t{tile} * kTile + i * 4, 16);
  }
}
template <int kStages>
__global__ __launch_bounds__(kThreads) void dot_cp_async(
    const float* a, const float* b, float* y, int tiles) {
  extern __shared__ __align__(128) float ring[];
  __shared__ float scratch[kWarps];
  int fetched = blockIdx.x;
  for (int s = 0; s < kStages - 1; ++s, fetched += gridDim.x) {
    if (fetched < tiles) copy_tile_async(ring + s * 2 * kTile, a, b, fetched);
    __pipeline_commit();
  }
  int stage = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, fetched += gridDim.x) {
    if (fetched < tiles) copy_tile_async(ring + (stage + kStages - 1) % kStages * 2 * kTile, a, b, fetched);
    __pipeline_commit();
    __pipeline_wait_prior(kStages - 1);
    __syncthreads();
    const float* at = ring + stage * 2 * kTile;
    const float sum =
        gpu::block_sum<kThreads>(tile_dot(at, at + kTile), scratch);  // its barriers free the stage
    if (threadIdx.x == 0) y[tile] = sum;
    stage = (stage + 1) % kStages;
  }
}

template <int kStages>
__global__ __launch_bounds__(kThreads) void dot_bulk(const float* a, const float* b, float* y, int tiles) {
  extern __shared__ __align__(128) float ring[];
  __shared__ float scratch[kWarps];
  __shared__ uint64_t full[kStages];
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : full) ptx::barrier_init(&barrier, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  constexpr uint32_t kBytes = kTile * sizeof(float);
  const auto fetch = [&](int stage, int tile) {
    ptx::barrier_expect_bytes(&full[stage], 2 * kBytes);
    ptx::copy_bytes(ring + stage * 2 * kTile, a + int64_t{tile} * kTile, kBytes, &full[stage]);
    ptx::copy_bytes(ring + (stage * 2 + 1) * kTile, b + int64_t{tile} * kTile, kBytes, &full[stage]);
  };
  if (threadIdx.x == 0)
    for (int s = 0; s < kStages; ++s) {
      const int tile = blockIdx.x + s * gridDim.x;
      if (tile < tiles) fetch(s, tile);
    }
  for (int tile = blockIdx.x, it = 0; tile < tiles; tile += gridDim.x, ++it) {
    const int stage = it % kStages;
    ptx::barrier_wait(&full[stage], (it / kStages) & 1);
    const float* at = ring + stage * 2 * kTile;
    const float sum = gpu::block_sum<kThreads>(tile_dot(at, at + kTile), scratch);
    if (threadIdx.x != 0) continue;
    y[tile] = sum;
    const int64_t next = tile + int64_t{kStages} * gridDim.x;
    if (next < tiles) fetch(stage, static_cast<int>(next));
  }
}

std::unique_ptr<Trial> make_staged(const Setup& setup) {
  const int64_t n = setup.dim(0), tiles = n / kTile;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto a = trial->input<float>("a", n);
  const auto b = trial->input<float>("b", n);
  const auto y = trial->output<float>("y", tiles);
  trial->set_cost({.flops = 2.0 * n, .bytes = 8.0 * n, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t tile = 0; tile < host[y].size(); ++tile) {
      double sum = 0;
      for (size_t i = tile * kTile; i < (tile + 1) * kTile; ++i)
        sum += static_cast<double>(host[a][i]) * host[b][i];
      host[y][tile] = static_cast<float>(sum);
    }
  });
  const auto add = [&](const char* name, auto kernel, int stages) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name,
                      .grid = {int64_t{at.stream().device().num_sms} * 3},
                      .block = {kThreads},
                      .shared_bytes = stages * 2 * kTile * static_cast<int64_t>(sizeof(float))},
          at.stream(), kernel, at[a], at[b], at[y], static_cast<int>(tiles));
    });
  };
  add("one-buffer", dot_one_buffer, 0);
  add("direct", dot_direct, 0);
  add("cp-async-2", dot_cp_async<2>, 2);
  add("cp-async-4", dot_cp_async<4>, 4);
  add("bulk-2", dot_bulk<2>, 2);
  add("bulk-4", dot_bulk<4>, 4);
  return trial;
}

const Registered kStaged({
    .id = "ch09/staged-tiles",
    .title = "Two streams staged through shared memory",
    .question = "What does fetching the next tile during this one's work bring, and by which kind of copy?",
    .mechanism = "With three blocks per SM one buffer leaves memory idle while a block computes; two buffers "
                 "keep one tile in "
                 "flight a block, four keep three. Bulk copies need one thread and no registers. Data used "
                 "once gains nothing "
                 "from shared memory itself: direct loads move the same bytes.",
    .claim = {.text = "Double buffering overlaps the load of tile t+1 with the work on tile t; no number is "
                      "given here."},
    .min_compute = 90,
    .variants = {{.name = "one-buffer", .idea = "load to shared memory, barrier, compute, barrier"},
        {.name = "direct", .idea = "no shared memory, operands straight to registers"},
        {.name = "cp-async-2", .idea = "cp.async of 16 bytes, two stages"},
        {.name = "cp-async-4", .idea = "cp.async of 16 bytes, four stages"},
        {.name = "bulk-2", .idea = "bulk copies of 8 KiB, two stages"},
        {.name = "bulk-4", .idea = "bulk copies of 8 KiB, four stages"}},
    .sizes = sizes_of({1 << 20, 1 << 23, 1 << 26}),
    .quick = sizes_of({1 << 20}),
    .tolerance = {.relative = 1e-4, .absolute = 1e-3},
    .make = make_staged,
});

}  // namespace
}  // namespace cheetah::lab

// SPDX-License-Identifier: MIT
// Uneven work: shares fixed in advance, or items fetched from a counter in pieces of different sizes. And the
// counter itself.
#include <algorithm>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

// Item i: `lengths[i]` rounds. All variants hoist the same work; only who does which item differs.
__device__ inline float item(float x, int rounds) {
  float v = x;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) v = fmaf(v, 0.5f, 0.25f);
  return v;
}

__global__ __launch_bounds__(kThreads) void thread_an_item(
    const float* x, const int* lengths, float* y, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < n) y[i] = item(x[i], lengths[i]);
}
__global__ __launch_bounds__(kThreads) void fixed_shares(
    const float* x, const int* lengths, float* y, int n) {
  const int share =
      (n + gridDim.x * kThreads - 1) / (gridDim.x * kThreads);  // neighbours, as a naive split does
  const int begin = (blockIdx.x * kThreads + threadIdx.x) * share;
  for (int i = begin; i < min(begin + share, n); ++i) y[i] = item(x[i], lengths[i]);
}
__global__ __launch_bounds__(kThreads) void fetch_each(
    const float* x, const int* lengths, float* y, int n, int* head) {
  for (int i = atomicAdd(head, 1); i < n; i = atomicAdd(head, 1)) y[i] = item(x[i], lengths[i]);
}
__global__ __launch_bounds__(kThreads) void fetch_by_warp(
    const float* x, const int* lengths, float* y, int n, int* head) {
  const int lane = threadIdx.x % 32;
  for (;;) {
    int base = 0;
    if (lane == 0) base = atomicAdd(head, 32);
    base = __shfl_sync(0xFFFFFFFFu, base, 0);
    if (base >= n) return;
    if (base + lane < n) y[base + lane] = item(x[base + lane], lengths[base + lane]);
    __syncwarp();
  }
}
__global__ __launch_bounds__(kThreads) void fetch_by_block(
    const float* x, const int* lengths, float* y, int n, int* head) {
  __shared__ int base;
  for (;;) {
    if (threadIdx.x == 0) base = atomicAdd(head, kThreads);
    __syncthreads();
    const int i = base + threadIdx.x;
    const bool finished = base >= n;
    __syncthreads();
    if (finished) return;
    if (i < n) y[i] = item(x[i], lengths[i]);
  }
}

enum Lengths : int64_t { kEven, kSkewed, kRandom };

std::unique_ptr<Trial> make_queue(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0));
  const auto kind = static_cast<Lengths>(setup.dim(1));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto lengths = trial->input_from<int>("lengths", n, [kind](std::span<int> to, uint64_t seed) {
    for (size_t i = 0; i < to.size(); ++i) {
      const double place = static_cast<double>(i) / static_cast<double>(to.size());
      // Even; long ones together at the end (a sixteenth does most of the work); or long ones anywhere.
      if (kind == kEven) to[i] = 256;
      if (kind == kSkewed) to[i] = place > 15.0 / 16 ? 3072 : 64;
      if (kind == kRandom) to[i] = uniform_at(seed, i) < 1.0 / 64 ? 12288 : 64;
    }
  });
  const auto y = trial->output<float>("y", n);
  const auto head = trial->scratch<int>("head", 1);
  trial->set_cost({.roof = Roof::kNone, .items = 1.0 * n, .item = "item"});
  trial->reference([=](const HostArrays& host) { std::fill(host[y].begin(), host[y].end(), 0.5f); });
  const int64_t resident = int64_t{setup.stream->device().num_sms} * 8;
  trial->variant("fixed-shares", [=](const Launch& at) {
    gpu::launch({.kernel = "fixed_shares", .grid = {resident}, .block = {kThreads}}, at.stream(),
        fixed_shares, at[x], at[lengths], at[y], n);
  });
  trial->variant("thread-per-item", [=](const Launch& at) {
    gpu::launch({.kernel = "thread_an_item", .grid = {(n + kThreads - 1) / kThreads}, .block = {kThreads}},
        at.stream(), thread_an_item, at[x], at[lengths], at[y], n);
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::fill_bytes(at[head], 0, 4, at.stream());
      gpu::launch({.kernel = name, .grid = {resident}, .block = {kThreads}}, at.stream(), kernel, at[x],
          at[lengths], at[y], n, at[head]);
    });
  };
  add("fetch-each", fetch_each);
  add("fetch-by-warp", fetch_by_warp);
  add("fetch-by-block", fetch_by_block);
  return trial;
}

const Registered kQueue({
    .id = "ch12/work-queue",
    .title = "Uneven items: fixed shares or a queue",
    .question = "When does fetching work from an atomic counter beat shares fixed in advance?",
    .mechanism = "With even items a queue only adds its atomics. With long items together, fixed shares "
                 "leave most of the card idle "
                 "while a few threads finish; a queue, or the hardware's own queue of blocks, spreads them. "
                 "Long items anywhere "
                 "stall the other lanes of their warp, which fetching an item per lane avoids.",
    .claim = {.text = "About 200 ms become 100 ms with a dynamic queue, 10 to 30 % for moderate imbalance. "
                      "(The printed pair also "
                      "differs in hoisting.)",
        .variant = "fetch-by-warp",
        .speedup = 2},
    .variants = {{.name = "fixed-shares", .idea = "resident threads, neighbouring items dealt in advance"},
        {.name = "thread-per-item", .idea = "a thread per item, blocks queued by the hardware"},
        {.name = "fetch-each", .idea = "every thread fetches items one by one"},
        {.name = "fetch-by-warp", .idea = "a warp fetches 32 at a time"},
        {.name = "fetch-by-block", .idea = "a block fetches 256 at a time"}},
    .sizes = {{.label = "1M even", .dims = {1 << 20, kEven}},
        {.label = "1M skewed", .dims = {1 << 20, kSkewed}},
        {.label = "1M random", .dims = {1 << 20, kRandom}}},
    .quick = {{.label = "1M skewed", .dims = {1 << 20, kSkewed}}},
    .tolerance = {.relative = 1e-5},
    .make = make_queue,
});

// The counter alone: n tickets are drawn; each is marked in y.
template <int kBatch>
__global__ __launch_bounds__(kThreads) void draw_batches(uint32_t* y, int n, int* head) {
  for (int base = atomicAdd(head, kBatch); base < n; base = atomicAdd(head, kBatch))
    for (int i = base; i < min(base + kBatch, n); ++i) y[i] = static_cast<uint32_t>(i);
}
__global__ __launch_bounds__(kThreads) void draw_by_warp(uint32_t* y, int n, int* head) {
  for (;;) {
    int base = 0;
    if (threadIdx.x % 32 == 0) base = atomicAdd(head, 32);
    base = __shfl_sync(0xFFFFFFFFu, base, 0) + static_cast<int>(threadIdx.x % 32);
    if (base < n) y[base] = static_cast<uint32_t>(base);
    if (__all_sync(0xFFFFFFFFu, base >= n)) return;
  }
}
__global__ __launch_bounds__(kThreads) void draw_by_two_levels(uint32_t* y, int n, int* head) {
  __shared__ int base, next;
  constexpr int kChunk = 4096;  // of a block, dealt to its warps from shared memory
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) {
      base = atomicAdd(head, kChunk);
      next = 0;
    }
    __syncthreads();
    if (base >= n) return;
    for (;;) {
      int at = 0;
      if (threadIdx.x % 32 == 0) at = atomicAdd(&next, 32);
      at = __shfl_sync(0xFFFFFFFFu, at, 0);
      if (at >= kChunk) break;
      const int i = base + at + static_cast<int>(threadIdx.x % 32);
      if (i < n) y[i] = static_cast<uint32_t>(i);
    }
  }
}

std::unique_ptr<Trial> make_counter(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto y = trial->output<uint32_t>("y", n);
  const auto head = trial->scratch<int>("head", 1);
  trial->set_cost({.bytes = 4.0 * n, .roof = Roof::kNone, .items = 1.0 * n, .item = "ticket"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = static_cast<uint32_t>(i);
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::fill_bytes(at[head], 0, 4, at.stream());
      gpu::launch({.kernel = name, .grid = {int64_t{at.stream().device().num_sms} * 8}, .block = {kThreads}},
          at.stream(), kernel, at[y], n, at[head]);
    });
  };
  add("one-by-one", draw_batches<1>);
  add("eight-per-thread", draw_batches<8>);
  add("thirty-two-per-thread", draw_batches<32>);
  add("warp-of-32", draw_by_warp);
  add("two-levels", draw_by_two_levels);
  return trial;
}

const Registered kCounter({
    .id = "ch12/atomic-batching",
    .title = "Drawing tickets from one counter",
    .question = "How much does fetching many items with one atomic bring?",
    .mechanism = "Atomics on one address are served one after the other in L2, about one a clock; the "
                 "compiler already merges a warp's "
                 "adds of a constant into one, but each thread's batch of neighbours spoils coalesced "
                 "writes, which a warp's "
                 "batch does not.",
    .claim = {.text = "A batch of 32 cuts the atomics by 32; batches of 8 or 16 remove most contention.",
        .variant = "thirty-two-per-thread"},
    .variants = {{.name = "one-by-one", .idea = "an atomic a ticket"},
        {.name = "eight-per-thread", .idea = "eight tickets an atomic, for one thread"},
        {.name = "thirty-two-per-thread", .idea = "32 tickets an atomic, for one thread"},
        {.name = "warp-of-32", .idea = "32 tickets an atomic, one for each lane"},
        {.name = "two-levels", .idea = "4096 tickets an atomic for a block, dealt out in shared memory"}},
    .sizes = sizes_of({1 << 16, 1 << 20, 1 << 24}),
    .quick = sizes_of({1 << 16}),
    .make = make_counter,
});

}  // namespace
}  // namespace cheetah::lab

// SPDX-License-Identifier: MIT
// Many small tasks of uneven length: a launch each, a block each, or blocks that stay and fetch tasks. And a
// chain of layers for one token: a kernel per layer, or one kernel for all of them (a megakernel).
#include <algorithm>

#include "gpu/graph.h"
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/cooperative.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

// Task t: `lengths[t]` passes over the same 1024 numbers; y[t] = their sum after so many damped rounds.
constexpr int kTaskFloats = 1024;

__device__ inline void run_task(const float* x, const int* lengths, float* y, int task, float* scratch) {
  const float4 v = reinterpret_cast<const float4*>(x + int64_t{task} * kTaskFloats)[threadIdx.x];
  float sum = v.x + v.y + v.z + v.w;
  for (int i = lengths[task]; i > 0; --i) sum = fmaf(sum, 0.5f, 0.25f);
  sum = gpu::block_sum<kThreads>(sum, scratch);
  if (threadIdx.x == 0) y[task] = sum;
}
__global__ __launch_bounds__(kThreads) void one_task(const float* x, const int* lengths, float* y, int task) {
  __shared__ float scratch[kThreads / 32];
  run_task(x, lengths, y, task, scratch);
}
__global__ __launch_bounds__(kThreads) void block_a_task(const float* x, const int* lengths, float* y) {
  __shared__ float scratch[kThreads / 32];
  run_task(x, lengths, y, blockIdx.x, scratch);
}
__global__ __launch_bounds__(kThreads) void fixed_shares(
    const float* x, const int* lengths, float* y, int tasks) {
  __shared__ float scratch[kThreads / 32];
  for (int task = blockIdx.x; task < tasks; task += gridDim.x) run_task(x, lengths, y, task, scratch);
}
__global__ __launch_bounds__(kThreads) void fetched_tasks(
    const float* x, const int* lengths, float* y, int tasks, int* head) {
  __shared__ float scratch[kThreads / 32];
  __shared__ int fetched;
  for (;;) {
    if (threadIdx.x == 0) fetched = atomicAdd(head, 1);
    __syncthreads();
    const int task = fetched;
    if (task >= tasks) return;
    run_task(x, lengths, y, task, scratch);  // its barriers keep `fetched` until all have read it
  }
}

std::unique_ptr<Trial> make_tasks(const Setup& setup) {
  const int tasks = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", int64_t{tasks} * kTaskFloats);
  const auto lengths = trial->input_from<int>("lengths", tasks, [](std::span<int> to, uint64_t seed) {
    for (size_t i = 0; i < to.size(); ++i)  // one in sixteen is sixteen times as long
      to[i] = static_cast<int>(uniform_at(seed, i) * 256) + (uniform_at(seed + 1, i) < 1.0 / 16 ? 4096 : 1);
  });
  const auto y = trial->output<float>("y", tasks);
  const auto head = trial->scratch<int>("head", 1);
  trial->set_cost(
      {.bytes = 4.0 * tasks * kTaskFloats, .roof = Roof::kNone, .items = 1.0 * tasks, .item = "task"});
  trial->reference([=](const HostArrays& host) {
    for (size_t t = 0; t < host[y].size(); ++t) {
      double all = 0;
      for (size_t thread = 0; thread < kThreads; ++thread) {
        const auto v = host[x].subspan(t * kTaskFloats + thread * 4, 4);
        float sum = v[0] + v[1] + v[2] + v[3];
        for (int i = std::min(host[lengths][t], 64); i > 0; --i)
          sum = sum * 0.5f + 0.25f;  // settled long before
        all += sum;
      }
      host[y][t] = static_cast<float>(all);
    }
  });
  const int64_t resident = int64_t{setup.stream->device().num_sms} * 8;
  trial->variant("launch-per-task", [=](const Launch& at) {
    for (int task = 0; task < tasks; ++task)
      one_task<<<1, kThreads, 0, at.stream().handle()>>>(at[x], at[lengths], at[y], task);
  });
  trial->variant("block-per-task", [=](const Launch& at) {
    gpu::launch({.kernel = "block_a_task", .grid = {tasks}, .block = {kThreads}}, at.stream(), block_a_task,
        at[x], at[lengths], at[y]);
  });
  trial->variant("persistent-fixed", [=](const Launch& at) {
    gpu::launch({.kernel = "fixed_shares", .grid = {std::min<int64_t>(tasks, resident)}, .block = {kThreads}},
        at.stream(), fixed_shares, at[x], at[lengths], at[y], tasks);
  });
  trial->variant("persistent-queue", [=](const Launch& at) {
    gpu::fill_bytes(at[head], 0, 4, at.stream());
    gpu::launch(
        {.kernel = "fetched_tasks", .grid = {std::min<int64_t>(tasks, resident)}, .block = {kThreads}},
        at.stream(), fetched_tasks, at[x], at[lengths], at[y], tasks, at[head]);
  });
  return trial;
}

const Registered kTasks({
    .id = "ch10/persistent-tasks",
    .title = "Small uneven tasks: launches, blocks, or a persistent kernel",
    .question = "What does a kernel that stays and fetches its tasks save?",
    .mechanism = "A launch per task runs one block at a time and pays the launch each time. A block per task "
                 "leaves the balance to the "
                 "hardware's own queue of blocks; a persistent kernel with fixed shares waits for the "
                 "unluckiest block, one "
                 "with a queue does what the hardware does, for an atomic a task.",
    .claim = {.text = "1000 tasks of 0.1 ms: 20 ms of launches saved, throughput 2 to 3 times.",
        .variant = "persistent-queue",
        .speedup = 2.5},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "launch-per-task", .idea = "one launch of one block per task"},
        {.name = "block-per-task", .idea = "one launch, a block per task"},
        {.name = "persistent-fixed", .idea = "eight blocks per SM, tasks dealt out in advance"},
        {.name = "persistent-queue", .idea = "eight blocks per SM, tasks fetched with an atomic"}},
    .sizes = {{.label = "1000 tasks", .dims = {1000}}, {.label = "20000 tasks", .dims = {20000}}},
    .quick = {{.label = "1000 tasks", .dims = {1000}}},
    .tolerance = {.relative = 1e-3, .absolute = 1e-3},
    .make = make_tasks,
});

// One token through kLayers layers x <- relu(W x) of width `dim`, F32. A warp per row.
constexpr int kLayers = 16;

__device__ inline float row_product(const float* w, const float* x, int dim, int lane) {
  float sum = 0.f;
#pragma unroll 4
  for (int i = lane; i < dim / 4; i += 32) {
    const float4 a = __ldcs(reinterpret_cast<const float4*>(w) + i),
                 b = __ldcg(reinterpret_cast<const float4*>(x) + i);
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  return fmaxf(gpu::warp_sum(sum), 0.f);
}
__device__ inline void run_layer(const float* w, const float* x, float* y, int dim) {
  const int lane = threadIdx.x % 32, warps = gridDim.x * (kThreads / 32);
  for (int row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; row < dim; row += warps) {
    const float value = row_product(w + int64_t{row} * dim, x, dim, lane);
    if (lane == 0) y[row] = value;
  }
}
__global__ __launch_bounds__(kThreads) void one_layer(const float* w, const float* x, float* y, int dim) {
  run_layer(w, x, y, dim);
}
// The block's first rows of the layer, towards L2: weights do not depend on the layer before.
__device__ inline void prefetch_rows(const float* w, int dim) {
  const int row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  if (row >= dim || threadIdx.x % 32 != 0) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(w + int64_t{row} * dim), "r"(dim * 4)
               : "memory");
}
__global__ __launch_bounds__(kThreads) void one_layer_early(
    const float* w, const float* x, float* y, int dim) {
  prefetch_rows(w, dim);
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  run_layer(w, x, y, dim);
}
template <bool kPrefetch>
__global__ __launch_bounds__(kThreads) void all_layers(
    const float* w, const float* x, float* odd, float* even, int dim, Gate* gate) {
  for (int layer = 0; layer < kLayers; ++layer) {
    const float* from = layer == 0 ? x : layer % 2 ? odd : even;
    run_layer(w + int64_t{layer} * dim * dim, from, layer % 2 ? even : odd, dim);
    if (kPrefetch && layer + 1 < kLayers) prefetch_rows(w + int64_t{layer + 1} * dim * dim, dim);
    meet(gate);
  }
}

std::unique_ptr<Trial> make_mega(const Setup& setup) {
  const int dim = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  // Weights around a positive mean that keeps the numbers' size from layer to layer.
  const auto w = trial->input<float>("w", int64_t{kLayers} * dim * dim, 0, 2.0 / dim);
  const auto x = trial->input<float>("x", dim, 0, 1);
  const auto odd = trial->scratch<float>("odd", dim);
  const auto gate = trial->scratch<uint32_t>("gate", 1);
  const auto y = trial->output<float>("y", dim);  // the even layers' output, the last one's in the end
  trial->set_cost({.flops = 2.0 * kLayers * dim * dim,
      .bytes = 4.0 * kLayers * dim * dim,
      .roof = Roof::kNone,
      .items = kLayers,
      .item = "layer"});
  trial->reference([=](const HostArrays& host) {
    std::vector<float> now(host[x].begin(), host[x].end()), next(now.size());
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (size_t row = 0; row < now.size(); ++row) {
        const auto weights = host[w].subspan((layer * now.size() + row) * now.size(), now.size());
        double sum = 0;
        for (size_t i = 0; i < now.size(); ++i) sum += static_cast<double>(weights[i]) * now[i];
        next[row] = static_cast<float>(std::max(sum, 0.0));
      }
      std::swap(now, next);
    }
    std::copy(now.begin(), now.end(), host[y].begin());
  });
  const int64_t blocks =
      std::min<int64_t>(dim / (kThreads / 32), int64_t{setup.stream->device().num_sms} * 4);
  const auto layers = [=](const Launch& at, auto kernel, bool early) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const float* from = layer == 0 ? at[x] : layer % 2 ? at[odd] : at[y];
      gpu::launch({.kernel = "one_layer",
                      .grid = {blocks},
                      .block = {kThreads},
                      .overlaps_previous = early && layer > 0},
          at.stream(), kernel, at[w] + int64_t{layer} * dim * dim, from, layer % 2 ? at[y] : at[odd], dim);
    }
  };
  trial->variant("kernel-per-layer", [=](const Launch& at) { layers(at, one_layer, false); });
  const auto add_graph = [&](const char* name, auto kernel, bool early) {
    const auto graphs = std::make_shared<std::vector<gpu::Graph>>();
    trial->variant(name, [=](const Launch& at) {
      const auto set = static_cast<size_t>(at.set());
      if (graphs->size() <= set) graphs->resize(set + 1);
      if (!(*graphs)[set])
        (*graphs)[set] = gpu::Graph::record(at.stream(), [&] { layers(at, kernel, early); });
      (*graphs)[set].launch(at.stream());
    });
  };
  add_graph("graph", one_layer, false);
  add_graph("graph-early-start", one_layer_early, true);
  const auto add_mega = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      launch_cooperative(at, {blocks, kThreads}, kernel, at[w], at[x], at[odd], at[y], dim,
          reinterpret_cast<Gate*>(at[gate]));
    });
  };
  add_mega("megakernel", all_layers<false>);
  add_mega("megakernel-prefetch", all_layers<true>);
  return trial;
}

const Registered kMega({
    .id = "ch10/megakernel",
    .title = "Sixteen layers of one token in one kernel",
    .question = "Does one persistent kernel for all layers beat a kernel per layer, and a graph of them?",
    .mechanism = "Each layer is a short, memory-bound product. Launches add the host's time, a graph only "
                 "the drain and start between "
                 "kernels, dependent launch hides the start; a megakernel meets at a barrier in L2 and can "
                 "fetch the next layer's "
                 "weights before it.",
    .claim = {.text = "Megakernels cut decode latency 1.2 to 6.7 times against a launch per layer.",
        .variant = "megakernel",
        .speedup = 1.2},
    .timing = Timing::kWallClock,
    .min_compute = 90,
    .variants = {{.name = "kernel-per-layer", .idea = "sixteen launches"},
        {.name = "graph", .idea = "sixteen kernels in one graph"},
        {.name = "graph-early-start",
            .idea = "the graph with programmatic dependent launch, weights prefetched"},
        {.name = "megakernel", .idea = "one cooperative kernel, a barrier between layers"},
        {.name = "megakernel-prefetch",
            .idea = "and the next layer's weights prefetched before the barrier"}},
    .sizes = {{.label = "width 512", .dims = {512}}, {.label = "width 1024", .dims = {1024}},
        {.label = "width 2048", .dims = {2048}}},
    .quick = {{.label = "width 512", .dims = {512}}},
    .tolerance = {.relative = 1e-3, .absolute = 1e-6},
    .make = make_mega,
});

}  // namespace
}  // namespace cheetah::lab

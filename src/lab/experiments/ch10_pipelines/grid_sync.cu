// SPDX-License-Identifier: MIT
// Steps that depend on all of the step before: a kernel each, or one kernel that meets at grid-wide barriers.
// And what one meeting costs at every level.
#include <cooperative_groups.h>

#include <algorithm>

#include "gpu/graph.h"
#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/cooperative.cuh"

namespace cheetah::lab {
namespace {

namespace cg = cooperative_groups;
constexpr int kThreads = 256;

// A ring of numbers; each step every number becomes the mean of itself and its neighbours far away, so that
// each block needs what others wrote.
__device__ inline void smooth(const float* from, float* to, int n) {
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
    const int left = i >= n / 3 ? i - n / 3 : i - n / 3 + n,
              right = i + n / 3 < n ? i + n / 3 : i + n / 3 - n;
    to[i] = (__ldcg(from + i) + __ldcg(from + left) + __ldcg(from + right)) * (1.f / 3);
  }
}
__global__ __launch_bounds__(kThreads) void step_once(const float* from, float* to, int n) {
  smooth(from, to, n);
}
__global__ __launch_bounds__(kThreads) void steps_by_grid_sync(float* a, float* b, int n, int steps) {
  const cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; ++step) {
    smooth(step % 2 ? b : a, step % 2 ? a : b, n);
    grid.sync();
  }
}
__global__ __launch_bounds__(kThreads) void steps_by_gate(float* a, float* b, int n, int steps, Gate* gate) {
  for (int step = 0; step < steps; ++step) {
    smooth(step % 2 ? b : a, step % 2 ? a : b, n);
    meet(gate);
  }
}

constexpr int kSteps = 100;  // even: the result ends where it began

std::unique_ptr<Trial> make_steps(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto y = trial->output<float>("y", n);  // the even steps' place
  const auto other = trial->scratch<float>("other", n);
  const auto gate = trial->scratch<uint32_t>("gate", 1);
  trial->set_cost({.flops = 3.0 * n * kSteps, .roof = Roof::kNone, .items = kSteps, .item = "step"});
  trial->reference([=](const HostArrays& host) {
    const auto count = static_cast<size_t>(n);
    std::vector<float> now(host[x].begin(), host[x].end()), next(count);
    for (int step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < count; ++i)
        next[i] = (now[i] + now[(i + count - count / 3) % count] + now[(i + count / 3) % count]) * (1.f / 3);
      std::swap(now, next);
    }
    std::copy(now.begin(), now.end(), host[y].begin());
  });
  const int64_t blocks =
      std::min<int64_t>((n + kThreads - 1) / kThreads, int64_t{setup.stream->device().num_sms} * 4);
  const auto begin = [=](const Launch& at) {
    gpu::copy_on_device(at[y], at[x], int64_t{n} * 4, at.stream());
  };
  const auto launches = [=](const Launch& at) {
    begin(at);
    for (int step = 0; step < kSteps; ++step)
      gpu::launch({.kernel = "step_once", .grid = {blocks}, .block = {kThreads}}, at.stream(), step_once,
          step % 2 ? at[other] : at[y], step % 2 ? at[y] : at[other], n);
  };
  trial->variant("launches", launches);
  const auto graphs = std::make_shared<std::vector<gpu::Graph>>();
  trial->variant("graph", [=](const Launch& at) {
    const auto set = static_cast<size_t>(at.set());
    if (graphs->size() <= set) graphs->resize(set + 1);
    if (!(*graphs)[set]) (*graphs)[set] = gpu::Graph::record(at.stream(), [&] { launches(at); });
    (*graphs)[set].launch(at.stream());
  });
  trial->variant("grid-sync", [=](const Launch& at) {
    begin(at);
    launch_cooperative(at, {blocks, kThreads}, steps_by_grid_sync, at[y], at[other], n, kSteps);
  });
  trial->variant("by-hand", [=](const Launch& at) {
    begin(at);
    launch_cooperative(at, {blocks, kThreads}, steps_by_gate, at[y], at[other], n, kSteps,
        reinterpret_cast<Gate*>(at[gate]));
  });
  return trial;
}

const Registered kStepsExperiment({
    .id = "ch10/grid-sync",
    .title = "A hundred dependent steps",
    .question = "Are grid-wide barriers in one kernel cheaper than a kernel per step?",
    .mechanism =
        "A launch per step costs the host some 2 us and the card a drain and a start; a graph removes "
        "the host's part; a "
        "grid barrier costs one round trip through L2 and keeps the blocks in place. When a step "
        "takes long all are "
        "the same.",
    .claim = {.text = "One cooperative kernel replaces 2000 launches; no time is given.",
        .variant = "grid-sync"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "launches", .idea = "a kernel per step"},
        {.name = "graph", .idea = "the same kernels, launched as one graph"},
        {.name = "grid-sync", .idea = "one cooperative kernel, cooperative groups' barrier"},
        {.name = "by-hand", .idea = "one cooperative kernel, a barrier of one word"}},
    .sizes = sizes_of({1 << 12, 1 << 17, 1 << 21, 1 << 24}),
    .quick = sizes_of({1 << 17}),
    .tolerance = {.relative = 1e-3, .absolute = 1e-5},
    .make = make_steps,
});

// One meeting at each level: y[block] counts them. Every variant meets `count` times with a hand-over of a
// number, so that no meeting can be left out.
__global__ __launch_bounds__(kThreads) void meet_block(uint32_t* y, int count) {
  __shared__ uint32_t value;
  uint32_t mine = 0;
  for (int i = 0; i < count; ++i) {
    if (threadIdx.x == i % kThreads) value = mine + 1;
    __syncthreads();
    mine = value;
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = mine;
}
__global__ __launch_bounds__(kThreads) void meet_cluster(uint32_t* y, int count) {
  __shared__ uint32_t value;
  const cg::cluster_group cluster = cg::this_cluster();
  uint32_t mine = 0;
  for (int i = 0; i < count; ++i) {  // each block writes into its neighbour
    if (threadIdx.x == 0)
      *cluster.map_shared_rank(&value, (cluster.block_rank() + 1) % cluster.num_blocks()) = mine + 1;
    cluster.sync();
    mine = value;
    cluster.sync();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = mine;
}
__global__ __launch_bounds__(kThreads) void meet_grid(uint32_t* y, uint32_t* values, int count) {
  const cg::grid_group grid = cg::this_grid();
  uint32_t mine = 0;
  for (int i = 0; i < count; ++i) {
    if (threadIdx.x == 0) values[(blockIdx.x + 1) % gridDim.x] = mine + 1;
    grid.sync();
    mine = __ldcg(values + blockIdx.x);
    grid.sync();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = mine;
}
__global__ __launch_bounds__(kThreads) void hand_over(const uint32_t* from, uint32_t* to, uint32_t more) {
  if (threadIdx.x == 0) to[(blockIdx.x + 1) % gridDim.x] = from[blockIdx.x] + more;
}

std::unique_ptr<Trial> make_cost(const Setup& setup) {
  const int count = static_cast<int>(setup.dim(0)), blocks = setup.stream->device().num_sms / 4 * 4;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto zeros = trial->input<uint32_t>("zeros", blocks, 0, 1);
  const auto values = trial->scratch<uint32_t>("values", blocks);
  const auto y = trial->output<uint32_t>("y", blocks);
  trial->set_cost({.roof = Roof::kNone, .items = 2.0 * count, .item = "meeting"});
  trial->reference([=](const HostArrays& host) {
    for (uint32_t& v : host[y]) v = static_cast<uint32_t>(count);
  });
  const auto boundaries = [=](const Launch& at) {  // two per round, as the others meet twice
    for (int i = 0; i < 2 * count; ++i) {
      const uint32_t* from = i == 0 ? at[zeros] : i % 2 ? at[values] : at[y];
      gpu::launch({.kernel = "hand_over", .grid = {blocks}, .block = {kThreads}}, at.stream(), hand_over,
          from, i % 2 ? at[y] : at[values], i % 2 ? 0u : 1u);
    }
  };
  trial->variant("kernel-boundary", boundaries);
  const auto graph = std::make_shared<gpu::Graph>();
  trial->variant("graph-boundary", [=](const Launch& at) {
    if (!*graph) *graph = gpu::Graph::record(at.stream(), [&] { boundaries(at); });
    graph->launch(at.stream());
  });
  trial->variant("grid-sync", [=](const Launch& at) {
    launch_cooperative(at, {blocks, kThreads}, meet_grid, at[y], at[values], count);
  });
  trial->variant("cluster-sync", [=](const Launch& at) {
    gpu::launch({.kernel = "meet_cluster", .grid = {blocks}, .block = {kThreads}, .cluster = {4}},
        at.stream(), meet_cluster, at[y], count);
  });
  trial->variant("block-sync", [=](const Launch& at) {
    gpu::launch({.kernel = "meet_block", .grid = {blocks}, .block = {kThreads}}, at.stream(), meet_block,
        at[y], count);
  });
  return trial;
}

const Registered kCost({
    .id = "ch10/sync-cost",
    .title = "What a meeting costs",
    .question = "How long does a barrier take among a block, a cluster, a grid, and between kernels?",
    .mechanism =
        "The wider the group, the farther the news travels: within an SM some tens of cycles, within a GPC a "
        "few hundred, "
        "through L2 about a microsecond, and a kernel's end and the next one's start more than that.",
    .claim = {.text = "Cluster barriers are cheaper than grid barriers, which are heavyweight.",
        .variant = "cluster-sync"},
    .timing = Timing::kEvents,
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "kernel-boundary", .idea = "a launch a meeting"},
        {.name = "graph-boundary", .idea = "the same kernels in one graph"},
        {.name = "grid-sync", .idea = "cooperative groups over all SMs"},
        {.name = "cluster-sync", .idea = "clusters of four blocks"},
        {.name = "block-sync", .idea = "__syncthreads of 256 threads"}},
    .sizes = {{.label = "100 meetings", .dims = {50}}},
    .make = make_cost,
});

}  // namespace
}  // namespace cheetah::lab

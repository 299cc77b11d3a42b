// SPDX-License-Identifier: MIT
// Results that blocks combine: through memory and a second kernel, by atomics, or in distributed shared
// memory.
#include <cooperative_groups.h>

#include "gpu/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

namespace cg = cooperative_groups;
constexpr int kThreads = 256;

// Sums of long rows, kParts blocks a row.
constexpr int kRowFloats = 1 << 16, kParts = 8, kPart = kRowFloats / kParts;

__device__ inline float part_sum(const float* x, float* scratch) {
  const auto* part = reinterpret_cast<const float4*>(x + int64_t{blockIdx.x} * kPart);
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kPart / 4 / kThreads; ++i) {
    const float4 v = part[i * kThreads + threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
  }
  return gpu::block_sum<kThreads>(sum, scratch);
}

__global__ __launch_bounds__(kThreads) void sum_parts(const float* x, float* parts) {
  __shared__ float scratch[kThreads / 32];
  const float sum = part_sum(x, scratch);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
__global__ __launch_bounds__(kThreads) void combine_parts(const float* parts, float* y, int rows) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kParts; ++i) sum += parts[row * kParts + i];
  y[row] = sum;
}
__global__ __launch_bounds__(kThreads) void sum_atomic(const float* x, float* y) {
  __shared__ float scratch[kThreads / 32];
  const float sum = part_sum(x, scratch);
  if (threadIdx.x == 0) atomicAdd(&y[blockIdx.x / kParts], sum);
}
__global__ __launch_bounds__(kThreads) void sum_cluster(const float* x, float* y) {
  __shared__ float scratch[kThreads / 32];
  __shared__ float parts[kParts];
  const cg::cluster_group cluster = cg::this_cluster();
  const float sum = part_sum(x, scratch);
  if (threadIdx.x == 0) cluster.map_shared_rank(parts, 0)[cluster.block_rank()] = sum;
  cluster.sync();
  if (cluster.block_rank() != 0 || threadIdx.x != 0) return;
  float all = 0.f;
#pragma unroll
  for (const float part : parts) all += part;
  y[blockIdx.x / kParts] = all;
}

std::unique_ptr<Trial> make_sum(const Setup& setup) {
  const int64_t rows = setup.dim(0), n = rows * kRowFloats;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n, 0, 1);
  const auto parts = trial->scratch<float>("parts", rows * kParts);
  const auto y = trial->output<float>("y", rows);
  trial->set_cost({.flops = 1.0 * n, .bytes = 4.0 * n, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t row = 0; row < host[y].size(); ++row) {
      double sum = 0;
      for (const float v : host[x].subspan(row * kRowFloats, kRowFloats)) sum += v;
      host[y][row] = static_cast<float>(sum);
    }
  });
  const gpu::Extent grid = {rows * kParts}, block = {kThreads};
  trial->variant("two-kernels", [=](const Launch& at) {
    gpu::launch(
        {.kernel = "sum_parts", .grid = grid, .block = block}, at.stream(), sum_parts, at[x], at[parts]);
    gpu::launch({.kernel = "combine_parts", .grid = {(rows + kThreads - 1) / kThreads}, .block = block},
        at.stream(), combine_parts, at[parts], at[y], static_cast<int>(rows));
  });
  trial->variant("atomics", [=](const Launch& at) {
    gpu::fill_bytes(at[y], 0, rows * 4, at.stream());
    gpu::launch(
        {.kernel = "sum_atomic", .grid = grid, .block = block}, at.stream(), sum_atomic, at[x], at[y]);
  });
  trial->variant("cluster-8", [=](const Launch& at) {
    gpu::launch({.kernel = "sum_cluster", .grid = grid, .block = block, .cluster = {kParts}}, at.stream(),
        sum_cluster, at[x], at[y]);
  });
  return trial;
}

const Registered kSum({
    .id = "ch10/cluster-reduction",
    .title = "Sums over several blocks",
    .question = "Is a reduction in distributed shared memory faster than a second kernel or atomics?",
    .mechanism = "The second kernel costs a launch and a drain of the card, atomics a clearing of the "
                 "results; a cluster of eight "
                 "combines on the chip and writes once. For long inputs the reading hides all three.",
    .claim = {.text = "Clusters combine partial results on the chip with one global write instead of a "
                      "second kernel."},
    .min_compute = 90,
    .variants = {{.name = "two-kernels", .idea = "partial sums to memory, a second kernel adds them"},
        {.name = "atomics", .idea = "results cleared, then one atomicAdd a block"},
        {.name = "cluster-8", .idea = "the eight blocks of a row are a cluster"}},
    .sizes = {{.label = "16 rows", .dims = {16}}, {.label = "128 rows", .dims = {128}},
        {.label = "1024 rows", .dims = {1024}}},
    .quick = {{.label = "16 rows", .dims = {16}}},
    .tolerance = {.relative = 1e-4},
    .make = make_sum,
});

// A histogram of 16-bit keys: 65536 counters, 256 KiB, more than one block's shared memory.
constexpr int kBins = 1 << 16, kHistogramThreads = 1024;

template <class Count>
__device__ inline void for_each_key(const uint4* keys, int64_t vectors, Count&& count) {
  for (int64_t i = int64_t{blockIdx.x} * kHistogramThreads + threadIdx.x; i < vectors;
       i += int64_t{gridDim.x} * kHistogramThreads) {
    const uint4 v = keys[i];
    for (const uint32_t word : {v.x, v.y, v.z, v.w}) {
      count(word & 0xFFFF);
      count(word >> 16);
    }
  }
}

__global__ __launch_bounds__(kHistogramThreads) void histogram_global(
    const uint4* keys, uint32_t* bins, int64_t vectors) {
  for_each_key(keys, vectors, [&](uint32_t key) { atomicAdd(&bins[key], 1u); });
}

// A cluster holds all counters together: block b those whose key modulo kCluster is b.
template <int kCluster>
__global__ __launch_bounds__(kHistogramThreads) void histogram_cluster(
    const uint4* keys, uint32_t* bins, int64_t vectors) {
  extern __shared__ uint32_t mine[];
  const cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < kBins / kCluster; i += kHistogramThreads) mine[i] = 0;
  cluster.sync();
  for_each_key(keys, vectors,
      [&](uint32_t key) { atomicAdd(cluster.map_shared_rank(mine, key % kCluster) + key / kCluster, 1u); });
  cluster.sync();
  for (int i = threadIdx.x; i < kBins / kCluster; i += kHistogramThreads)
    if (mine[i] != 0) atomicAdd(&bins[i * kCluster + cluster.block_rank()], mine[i]);
}

// Without clusters: the keys are read twice, each time for the half of the counters that fits.
__global__ __launch_bounds__(kHistogramThreads) void histogram_half(
    const uint4* keys, uint32_t* bins, int64_t vectors, uint32_t half) {
  extern __shared__ uint32_t mine[];
  for (int i = threadIdx.x; i < kBins / 2; i += kHistogramThreads) mine[i] = 0;
  __syncthreads();
  for_each_key(keys, vectors, [&](uint32_t key) {
    if (key % 2 == half) atomicAdd(mine + key / 2, 1u);
  });
  __syncthreads();
  for (int i = threadIdx.x; i < kBins / 2; i += kHistogramThreads)
    if (mine[i] != 0) atomicAdd(&bins[i * 2 + half], mine[i]);
}

std::unique_ptr<Trial> make_histogram(const Setup& setup) {
  const int64_t n = setup.dim(0), vectors = n / 8;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto keys = trial->input_from<uint16_t>("keys", n, [](std::span<uint16_t> to, uint64_t seed) {
    for (size_t i = 0; i < to.size(); ++i) {  // low keys are more frequent
      const double u = uniform_at(seed, i);
      to[i] = static_cast<uint16_t>(u * u * kBins);
    }
  });
  const auto bins = trial->output<uint32_t>("bins", kBins);
  trial->set_cost({.bytes = 2.0 * n, .roof = Roof::kDramRead, .items = 1.0 * n, .item = "key"});
  trial->reference([=](const HostArrays& host) {
    for (const uint16_t key : host[keys]) ++host[bins][key];
  });
  const auto run = [=](const Launch& at, const char* name, auto kernel, int cluster, int64_t shared,
                       auto... more) {
    gpu::launch({.kernel = name,
                    .grid = {at.stream().device().num_sms / cluster * cluster},
                    .block = {kHistogramThreads},
                    .shared_bytes = shared,
                    .cluster = {cluster}},
        at.stream(), kernel, reinterpret_cast<const uint4*>(at[keys]), at[bins], vectors, more...);
  };
  constexpr int64_t kAll = kBins * int64_t{sizeof(uint32_t)};
  const auto clear = [=](const Launch& at) { gpu::fill_bytes(at[bins], 0, kAll, at.stream()); };
  trial->variant("global-atomics", [=](const Launch& at) {
    clear(at);
    run(at, "histogram_global", histogram_global, 1, 0);
  });
  trial->variant("two-passes", [=](const Launch& at) {
    clear(at);
    for (uint32_t half = 0; half < 2; ++half) run(at, "histogram_half", histogram_half, 1, kAll / 2, half);
  });
  trial->variant("cluster-2", [=](const Launch& at) {
    clear(at);
    run(at, "histogram_cluster", histogram_cluster<2>, 2, kAll / 2);
  });
  trial->variant("cluster-4", [=](const Launch& at) {
    clear(at);
    run(at, "histogram_cluster", histogram_cluster<4>, 4, kAll / 4);
  });
  return trial;
}

const Registered kHistogram({
    .id = "ch10/cluster-histogram",
    .title = "A histogram larger than one block's shared memory",
    .question = "Do counters spread over a cluster's shared memory beat atomics in L2 and a second pass?",
    .mechanism = "Global atomics serialise in L2 on frequent keys. Two passes count locally but read and "
                 "test every key twice. A "
                 "cluster counts every key once, half or more of them across the SM-to-SM network; at the "
                 "end each cluster adds "
                 "its counters to memory.",
    .claim = {.text = "Distributed shared memory takes loads, stores and atomics between the blocks of a "
                      "cluster without L2.",
        .variant = "cluster-2"},
    .min_compute = 90,
    .variants = {{.name = "global-atomics", .idea = "one atomic in L2 a key"},
        {.name = "two-passes", .idea = "half of the counters in shared memory at a time"},
        {.name = "cluster-2", .idea = "counters split over two blocks"},
        {.name = "cluster-4", .idea = "counters split over four blocks"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .quick = sizes_of({1 << 20}),
    .make = make_histogram,
});

}  // namespace
}  // namespace cheetah::lab

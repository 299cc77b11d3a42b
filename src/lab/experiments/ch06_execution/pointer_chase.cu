// SPDX-License-Identifier: MIT
// Latency of every level: each load's address is the last load's answer.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kHops = 16384;    // many, so that the first misses of a small set do not count
constexpr int kLineWords = 32;  // one node a 128-byte line

// One cycle through all 2^k nodes: full period needs an odd increment and a multiplier of the form 4 m + 1.
__host__ __device__ inline uint32_t next_node(uint32_t node, uint32_t mask) {
  return (node * 1664525u + 1013904223u) & mask;
}

struct Links {
  uint32_t mask;
  __device__ uint32_t operator()(uint64_t, int64_t i) const {
    return i % kLineWords == 0 ? next_node(static_cast<uint32_t>(i / kLineWords), mask) : 0;
  }
};

enum class Cached { kEverywhere, kInL2 };

template <Cached kCached>
__device__ uint32_t follow(const uint32_t* links, uint32_t node) {
  const uint32_t* at = links + static_cast<uint64_t>(node) * kLineWords;
  return kCached == Cached::kEverywhere ? *at : __ldcg(at);
}

// Chains share the hops. Each launch goes on where the last one stopped, so that large sets are never walked
// twice in the same place. ends[2 c] is where chain c began, ends[2 c + 1] where it stopped.
template <Cached kCached, int kChains>
__global__ void chase(const uint32_t* links, uint32_t* position, uint32_t* ends, uint32_t mask) {
  uint32_t node[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c)
    ends[2 * c] = node[c] = (*position + static_cast<uint32_t>(c) * 977u) & mask;
#pragma unroll 4
  for (int hop = 0; hop < kHops / kChains; ++hop)
#pragma unroll
    for (int c = 0; c < kChains; ++c) node[c] = follow<kCached>(links, node[c]);
#pragma unroll
  for (int c = 0; c < kChains; ++c) ends[2 * c + 1] = node[c];
  *position = node[0];
}

constexpr int kMostChains = 8;

// Walks by formula from where the kernel says it began. Chains a variant does not have stay poisoned.
struct Walked {
  const uint32_t* ends;
  uint32_t mask;
  int chains;
  __device__ double operator()(int64_t i) const {
    if (i >= 2 * chains) return 0xFFFFFFFFu;
    uint32_t node = ends[i / 2 * 2];
    if (i % 2 == 0) return node & mask;
    for (int hop = 0; hop < kHops / chains; ++hop) node = next_node(node, mask);
    return node;
  }
};

std::unique_ptr<Trial> make_chase(const Setup& setup) {
  const int64_t nodes = setup.dim(0) / (kLineWords * 4);  // a power of two
  const auto mask = static_cast<uint32_t>(nodes - 1);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto links = trial->input_from<uint32_t>(nodes * kLineWords, Links{mask});
  const auto position = trial->scratch<uint32_t>(1);
  const auto ends = trial->output<uint32_t>(2 * kMostChains);
  constexpr int kChainsOf[] = {1, 1, 2, 4, 8};
  trial->expect<Walked>(ends, [=](const At& at) { return Walked{at[ends], mask, kChainsOf[at.variant()]}; });
  trial->set_cost({.roof = Roof::kNone, .items = kHops, .item = "hop"});
  using Kernel = void (*)(const uint32_t*, uint32_t*, uint32_t*, uint32_t);
  const std::pair<const char*, Kernel> kernels[] = {{"one-chain", chase<Cached::kEverywhere, 1>},
      {"past-l1", chase<Cached::kInL2, 1>}, {"2-chains", chase<Cached::kEverywhere, 2>},
      {"4-chains", chase<Cached::kEverywhere, 4>}, {"8-chains", chase<Cached::kEverywhere, 8>}};
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch({.kernel = name, .grid = {1}, .block = {1}, .numbers = {nodes}}, at.stream(), kernel,
          at[links], at[position], at[ends], mask);
    });
  return trial;
}

constexpr int kWords = 1024;  // 4 KB: fits everywhere
__constant__ uint32_t constant_links[kWords];

struct SmallLinks {
  __device__ uint32_t operator()(uint64_t, int64_t i) const {
    return next_node(static_cast<uint32_t>(i), kWords - 1);
  }
};

struct InL2 {
  const uint32_t* links;
  __device__ uint32_t operator()(uint32_t node) const { return __ldcg(links + node); }
};
struct InL1 {
  const uint32_t* links;
  __device__ uint32_t operator()(uint32_t node) const { return links[node]; }
};
struct InConstant {
  __device__ uint32_t operator()(uint32_t node) const { return constant_links[node]; }
};
struct InShared {
  const uint32_t* links;
  __device__ uint32_t operator()(uint32_t node) const { return links[node]; }
};

template <class Memory>
__device__ uint32_t walk(Memory memory, uint32_t node) {
#pragma unroll 8
  for (int hop = 0; hop < kHops; ++hop) node = memory(node);
  return node;
}

template <class Memory>
__global__ void walk_in(Memory memory, const uint32_t* start, uint32_t* end) {
  *end = walk(memory, *start & (kWords - 1));
}
__global__ void walk_in_shared(const uint32_t* links, const uint32_t* start, uint32_t* end) {
  __shared__ uint32_t copy[kWords];
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += static_cast<int>(blockDim.x))
    copy[i] = links[i];
  __syncthreads();
  if (threadIdx.x == 0) *end = walk(InShared{copy}, *start & (kWords - 1));
}
// Lanes of a warp hold 32 links in registers; a shuffle is the load.
__global__ void walk_in_registers(const uint32_t* start, uint32_t* end) {
  const uint32_t own = next_node(threadIdx.x, 31);
  uint32_t node = *start & 31;
#pragma unroll 8
  for (int hop = 0; hop < kHops; ++hop) node = __shfl_sync(0xFFFFFFFFu, own, static_cast<int>(node));
  if (threadIdx.x == 0) *end = node;
}

struct WalkedSmall {
  const uint32_t* start;
  uint32_t mask;
  __device__ double operator()(int64_t) const {
    uint32_t node = *start & mask;
    for (int hop = 0; hop < kHops; ++hop) node = next_node(node, mask);
    return node;
  }
};

std::unique_ptr<Trial> make_on_chip(const Setup& setup) {
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto links = trial->input_from<uint32_t>(kWords, SmallLinks{});
  const auto start = trial->input<uint32_t>(1);
  const auto end = trial->output<uint32_t>(1);
  trial->expect<WalkedSmall>(end, [=](const At& at) {
    return WalkedSmall{at[start], at.variant() == 4 ? 31u : kWords - 1u};
  });
  trial->after_fill([=](const At& at) {
    gpu::check(cudaMemcpyToSymbolAsync(
        constant_links, at[links], sizeof constant_links, 0, cudaMemcpyDeviceToDevice, at.stream().handle()));
  });
  trial->set_cost({.roof = Roof::kNone, .items = kHops, .item = "hop"});
  const gpu::LaunchConfig one{.kernel = "walk_in", .grid = {1}, .block = {1}};
  trial->variant("l2", [=](const At& at) {
    gpu::launch(one, at.stream(), walk_in<InL2>, InL2{at[links]}, at[start], at[end]);
  });
  trial->variant("l1", [=](const At& at) {
    gpu::launch(one, at.stream(), walk_in<InL1>, InL1{at[links]}, at[start], at[end]);
  });
  trial->variant("constant", [=](const At& at) {
    gpu::launch(one, at.stream(), walk_in<InConstant>, InConstant{}, at[start], at[end]);
  });
  trial->variant("shared", [=](const At& at) {
    gpu::launch({.kernel = "walk_in_shared", .grid = {1}, .block = {256}}, at.stream(), walk_in_shared,
        at[links], at[start], at[end]);
  });
  trial->variant("shuffle", [=](const At& at) {
    gpu::launch({.kernel = "walk_in_registers", .grid = {1}, .block = {32}}, at.stream(), walk_in_registers,
        at[start], at[end]);
  });
  return trial;
}

const Registered kChase({
    .id = "ch06/pointer-chase",
    .title = "Latency of global memory by working set",
    .question = "What is the latency of L1, L2 and device memory, and how far do independent chains hide it?",
    .mechanism = "A chain of dependent loads shows the whole latency of the level its working set fits in; k "
                 "independent chains "
                 "of one thread have k loads in flight and divide the time by nearly k.",
    .claim = {.text = "Some 20 to 30 cycles for L1, 200 for L2 and hundreds to a thousand for device memory.",
        .variant = "4-chains",
        .speedup = 4},
    .rotation = Rotation::kHot,
    .variants = {{"one-chain", "one load in flight, cached in L1"},
        {"past-l1", "one load in flight, cached in L2 only"}, {"2-chains", "two loads in flight"},
        {"4-chains", "four loads in flight"}, {"8-chains", "eight loads in flight"}},
    .sizes = {{"16 KB", {1 << 14}}, {"4 MB", {1 << 22}}, {"32 MB", {1 << 25}}, {"1 GB", {1 << 30}}},
    .make = make_chase,
});

const Registered kOnChip({
    .id = "ch06/on-chip-latency",
    .title = "Latency of L2, L1, constant, shared memory and shuffles",
    .question = "How many nanoseconds does a dependent read take in each memory near the SM?",
    .mechanism =
        "L2 is across the crossbar; L1 and shared memory are the same array with and without tags; the "
        "constant cache "
        "needs an indexed load; a shuffle exchanges registers through the same crossbar as shared memory.",
    .claim =
        {.text =
                "About 200 cycles for L2, 20 to 30 for L1 and shared memory and one for a constant broadcast.",
            .variant = "shared",
            .speedup = 8},
    .rotation = Rotation::kHot,
    .variants = {{"l2", "loads that skip L1"}, {"l1", "ordinary loads"},
        {"constant", "indexed constant memory"}, {"shared", "shared memory"},
        {"shuffle", "registers of the warp's lanes"}},
    .sizes = {{"4 KB", {kWords}}},
    .make = make_on_chip,
});

}  // namespace
}  // namespace cheetah::lab

// SPDX-License-Identifier: MIT
// How many warps it takes to hide latency, and what instruction-level parallelism does instead.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSharedOfSm = 227 << 10;

struct Doubled {
  const float* x;
  __device__ double operator()(int64_t i) const { return 2.0 * x[i]; }
};

// One element per thread. Shared memory it never touches limits the blocks an SM can hold.
__global__ __launch_bounds__(kThreads) void double_each(
    const float* __restrict__ x, float* __restrict__ y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

std::unique_ptr<Trial> make_occupancy(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Doubled>(y, [=](const At& at) { return Doubled{at[x]}; });
  trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
  gpu::check(cudaFuncSetAttribute(
      double_each, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  const std::pair<const char*, int64_t> residents[] = {
      {"8-warps", 1}, {"16-warps", 2}, {"32-warps", 4}, {"48-warps", 6}, {"64-warps", 8}};
  for (const auto& [name, blocks] : residents) {
    constexpr int64_t kReserved = 1024;  // of every block
    const int64_t shared = blocks == 8 ? 0 : kSharedOfSm / blocks / 1024 * 1024 - kReserved;
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = "double_each",
                      .grid = {blocks_of(n, kThreads)},
                      .block = {kThreads},
                      .shared_bytes = shared,
                      .numbers = {n}},
          at.stream(), double_each, at[x], at[y], n);
    });
  }
  return trial;
}

// kAhead elements per thread, all loaded before the first is stored; few warps per SM.
template <int kAhead>
__global__ __launch_bounds__(kThreads) void double_ahead(
    const float* __restrict__ x, float* __restrict__ y, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
#pragma unroll 1  // or the compiler would load further ahead than asked
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += kAhead * step) {
    float v[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) v[k] = i + k * step < n ? x[i + k * step] : 0;
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * step < n) y[i + k * step] = 2 * v[k];
  }
}

std::unique_ptr<Trial> make_loads(const Setup& setup) {
  const int64_t n = setup.dim(0), warps = setup.dim(1);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Doubled>(y, [=](const At& at) { return Doubled{at[x]}; });
  trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
  const int64_t blocks = setup.stream->device().num_sms * warps / (kThreads / 32);
  using Kernel = void (*)(const float*, float*, int64_t);
  const std::pair<const char*, Kernel> kernels[] = {{"1-load", double_ahead<1>}, {"2-loads", double_ahead<2>},
      {"4-loads", double_ahead<4>}, {"8-loads", double_ahead<8>}};
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {kThreads}, .numbers = {n, warps}}, at.stream(),
          kernel, at[x], at[y], n);
    });
  return trial;
}

constexpr int kSteps = 16384;  // multiply-adds a thread, shared among its chains

// kChains independent chains of dependent multiply-adds.
template <int kChains>
__global__ void chains(const float* x, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float v[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) v[c] = x[i] + static_cast<float>(c);
#pragma unroll 8
  for (int k = 0; k < kSteps / kChains; ++k)
#pragma unroll
    for (int c = 0; c < kChains; ++c) v[c] = v[c] * 0.9999f + 0.0001f;
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) sum += v[c] * static_cast<float>(c + 1);
  y[i] = sum;
}

struct ChainSum {
  const float* x;
  int chains;
  __device__ double operator()(int64_t i) const {
    double sum = 0;
    for (int c = 0; c < chains; ++c) {
      double v = static_cast<double>(x[i] + static_cast<float>(c));
      for (int k = 0; k < kSteps / chains; ++k)
        v = v * static_cast<double>(0.9999f) + static_cast<double>(0.0001f);
      sum += v * (c + 1);
    }
    return sum;
  }
};

std::unique_ptr<Trial> make_chains(const Setup& setup) {
  const int64_t warps = setup.dim(0), sms = setup.stream->device().num_sms;  // warps per SM
  const int64_t threads = std::min<int64_t>(warps * 32, 1024), blocks = sms * warps * 32 / threads,
                n = blocks * threads;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  constexpr int kChainsOf[] = {1, 2, 4, 8};
  trial->expect<ChainSum>(y, [=](const At& at) { return ChainSum{at[x], kChainsOf[at.variant()]}; });
  trial->set_cost({.flops = 2.0 * kSteps * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  using Kernel = void (*)(const float*, float*);
  const std::pair<const char*, Kernel> kernels[] = {
      {"1-chain", chains<1>}, {"2-chains", chains<2>}, {"4-chains", chains<4>}, {"8-chains", chains<8>}};
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {threads}, .numbers = {warps}}, at.stream(),
          kernel, at[x], at[y]);
    });
  return trial;
}

const Registered kOccupancy({
    .id = "ch08/occupancy",
    .title = "Resident warps of a memory-bound kernel",
    .question = "At which occupancy does a copy with one load per thread reach the memory's roof?",
    .mechanism = "A warp has 128 bytes in flight; the memory needs some 22 KB per SM, and as much again on "
                 "the way out, so the "
                 "knee should lie near all 64 warps for 4-byte loads and earlier for wider ones.",
    .claim = {.text = "10 to 50 % occupancy gains much, 50 to 100 % little; the knee is at 50 to 75 %.",
        .variant = "32-warps",
        .speedup = 4},
    .variants = {{"8-warps", "12.5 % of the SM's warps"}, {"16-warps", "25 %"}, {"32-warps", "50 %"},
        {"48-warps", "75 %"}, {"64-warps", "all"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .make = make_occupancy,
});

const Registered kLoads({
    .id = "ch08/loads-in-flight",
    .title = "Independent loads instead of warps",
    .question = "Can a thread with several loads in flight make up for missing warps?",
    .mechanism = "Little's law counts bytes in flight, not warps: eight warps with eight independent loads "
                 "hold as much as 64 "
                 "warps with one.",
    .claim = {.text = "Low occupancy with instruction-level parallelism can win; saturating takes 1536, "
                      "1024, 768 and 512 threads at 1, 2, 3 and 4 independent operations.",
        .variant = "4-loads",
        .speedup = 3},
    .variants = {{"1-load", "load, store, again"}, {"2-loads", "two loads before the first store"},
        {"4-loads", "four"}, {"8-loads", "eight"}},
    .sizes = {{"8 warps per SM", {1 << 26, 8}}, {"16 warps per SM", {1 << 26, 16}},
        {"64 warps per SM", {1 << 26, 64}}},
    .make = make_loads,
});

const Registered kChains({
    .id = "ch08/fma-chains",
    .title = "Independent multiply-adds instead of warps",
    .question =
        "How many warps per SM, and how many independent chains per thread, saturate the multiply-add pipe?",
    .mechanism = "A multiply-add takes four cycles and each scheduler issues one per cycle: four warps per "
                 "scheduler with one chain, "
                 "or one warp with four, fill the pipe. More of either adds nothing.",
    .claim = {.text = "Saturation takes 48 warps at one chain, 32 at two, 16 at four; 2 to 4 chains are the "
                      "sweet spot.",
        .variant = "4-chains",
        .speedup = 3},
    .rotation = Rotation::kHot,
    .variants = {{"1-chain", "every multiply-add waits for the last"}, {"2-chains", "two independent ones"},
        {"4-chains", "four"}, {"8-chains", "eight"}},
    .sizes = {{"4 warps per SM", {4}}, {"8 warps per SM", {8}}, {"16 warps per SM", {16}},
        {"32 warps per SM", {32}}, {"64 warps per SM", {64}}},
    .tolerance = {.absolute = 1e-2},  // 16384 roundings among the chains, with weights up to 8
    .make = make_chains,
});

}  // namespace
}  // namespace cheetah::lab

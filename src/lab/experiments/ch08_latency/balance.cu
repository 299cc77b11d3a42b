// SPDX-License-Identifier: MIT
// Work that does not come out even: a last wave of few blocks, lanes whose loops differ in length.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kWork = 2048;  // multiply-adds an element

__device__ float worked(float v) {
#pragma unroll 16
  for (int k = 0; k < kWork; ++k) v = v * 0.999f + 0.001f;
  return v;
}

__global__ void element_each(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = worked(x[i]);
}
__global__ void stepping(const float* x, float* y, int n) {
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += step) y[i] = worked(x[i]);
}

struct Worked {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double v = x[i];
    for (int k = 0; k < kWork; ++k) v = v * static_cast<double>(0.999f) + static_cast<double>(0.001f);
    return v;
  }
};

std::unique_ptr<Trial> make_tail(const Setup& setup) {
  constexpr int64_t kOfSm = 2048;  // threads per SM holds
  const int64_t sms = setup.stream->device().num_sms;
  const int64_t n = setup.dim(0) * sms * kOfSm + setup.dim(1) * 1024;  // whole waves and some blocks of 1024
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Worked>(y, [=](const At& at) { return Worked{at[x]}; });
  trial->set_cost({.flops = 2.0 * kWork * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  const auto add = [&](const char* name, void (*kernel)(const float*, float*, int), int64_t blocks,
                       int64_t threads) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {threads}, .numbers = {n}}, at.stream(), kernel,
          at[x], at[y], static_cast<int>(n));
    });
  };
  add("1024-threads", element_each, blocks_of(n, 1024), 1024);
  add("256-threads", element_each, blocks_of(n, 256), 256);
  add("64-threads", element_each, blocks_of(n, 64), 64);
  add("stepping", stepping, sms * (kOfSm / 256), 256);
  return trial;
}

constexpr int kThreads = 256, kMostTrips = 256;

// How often element i's loop runs: random, or sorted so that neighbours agree.
struct RandomTrips {
  __device__ uint32_t operator()(uint64_t seed, int64_t i) const {
    return 1 + static_cast<uint32_t>(mixed(seed, static_cast<uint64_t>(i)) % kMostTrips);
  }
};
struct SortedTrips {
  int64_t n;
  __device__ uint32_t operator()(uint64_t, int64_t i) const {
    return 1 + static_cast<uint32_t>(i * kMostTrips / n);
  }
};

__host__ __device__ inline uint32_t term(uint32_t i, uint32_t k) {
  uint32_t v = i * 2654435761u + k * 40503u;
  v ^= v >> 15;
  v *= 2246822519u;
  return v ^ (v >> 13);
}

__global__ __launch_bounds__(kThreads) void lane_each(const uint32_t* trips, uint32_t* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  uint32_t sum = 0;
  const uint32_t mine = trips[i];
#pragma unroll 1
  for (uint32_t k = 0; k < mine; ++k) sum += term(static_cast<uint32_t>(i), k);
  y[i] = sum;
}
// All lanes work on one element after the other, each on every 32nd term.
__global__ __launch_bounds__(kThreads) void warp_each(const uint32_t* trips, uint32_t* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t mine = i < n ? trips[i] : 0;
  uint32_t own_sum = 0;
#pragma unroll 1
  for (int other = 0; other < 32; ++other) {
    const uint32_t many = __shfl_sync(0xFFFFFFFFu, mine, other);
    const uint32_t who = static_cast<uint32_t>(i) - lane + static_cast<uint32_t>(other);
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t k = lane; k < many; k += 32) sum += term(who, k);
    sum = __reduce_add_sync(0xFFFFFFFFu, sum);
    if (lane == static_cast<uint32_t>(other)) own_sum = sum;
  }
  if (i < n) y[i] = own_sum;
}

struct Terms {
  const uint32_t* trips;
  __device__ double operator()(int64_t i) const {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < trips[i]; ++k) sum += term(static_cast<uint32_t>(i), k);
    return sum;
  }
};

std::unique_ptr<Trial> make_loops(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto random = trial->input_from<uint32_t>(n, RandomTrips{});
  const auto sorted = trial->input_from<uint32_t>(n, SortedTrips{n});
  const auto y = trial->output<uint32_t>(n);
  trial->expect<Terms>(y, [=](const At& at) { return Terms{at[at.variant() == 1 ? sorted : random]}; });
  trial->set_cost({.bytes = 8.0 * n,
      .roof = Roof::kNone,
      .items = 0.5 * (kMostTrips + 1) * static_cast<double>(n),
      .item = "term"});
  const auto add = [&](const char* name, void (*kernel)(const uint32_t*, uint32_t*, int),
                       Slot<uint32_t> trips) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), kernel, at[trips], at[y], static_cast<int>(n));
    });
  };
  add("random", lane_each, random);
  add("sorted", lane_each, sorted);
  add("warp-each", warp_each, random);
  return trial;
}

const Registered kTail({
    .id = "ch08/tail-wave",
    .title = "The last wave",
    .question =
        "What does one block more than fits cost, and do smaller blocks or stepping kernels avoid it?",
    .mechanism =
        "Blocks of 1024 fill the device two per SM: one more starts when all others are done and runs alone. "
        "Smaller "
        "blocks make the remainder smaller; stepping threads hand it to a few that then do two elements.",
    .claim = {.text = "Far fewer active than possible warps points to a tail or imbalance; at least as many "
                      "blocks as SMs, usually many more; no figure is given."},
    .variants = {{"1024-threads", "two blocks per SM"}, {"256-threads", "eight blocks per SM"},
        {"64-threads", "32 blocks per SM"}, {"stepping", "as many blocks as fit, each steps"}},
    .sizes = {{"1 wave", {1, 0}}, {"1 wave, 1 block", {1, 1}}, {"4 waves, 1 block", {4, 1}}},
    .tolerance = {.absolute = 5e-4},
    .make = make_tail,
});

const Registered kLoops({
    .id = "ch08/uneven-loops",
    .title = "Lanes with loops of different length",
    .question = "What do random loop lengths cost, and does sorting or sharing the work of a warp cure it?",
    .mechanism = "A warp runs as long as its longest lane: of random lengths up to 256 the mean is 129 but "
                 "the longest of 32 near "
                 "249, so almost half of the lanes' time is idle. Sorted lengths agree within a warp; "
                 "sharing each loop among "
                 "32 lanes rounds it up to 32 and adds a reduction.",
    .claim = {.text =
                  "Restructuring data so that each warp is homogeneous gives up to about twice the speed.",
        .variant = "sorted",
        .speedup = 2},
    .rotation = Rotation::kHot,
    .variants = {{"random", "a lane per element, lengths as they come"},
        {"sorted", "a lane per element, lengths sorted"},
        {"warp-each", "a warp per element, lanes share the loop"}},
    .sizes = sizes_of({1 << 18, 1 << 22}),
    .make = make_loops,
});

}  // namespace
}  // namespace cheetah::lab

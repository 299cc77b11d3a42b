// SPDX-License-Identifier: MIT
// Bandwidth of every level: a working set read again and again.
#include "lab/experiments/piece_sum.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 512;
constexpr int64_t kTotalBytes = int64_t{1} << 30;  // read by a launch, whatever the set's size

template <class Vector>
__device__ uint32_t total(Vector v) {
  if constexpr (sizeof(Vector) == 4)
    return v;
  else
    return v.x + v.y + v.z + v.w;
}

__device__ void add_to(uint32_t* sum, uint32_t v) {
  v = __reduce_add_sync(0xFFFFFFFFu, v);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
}

// kAhead loads in flight a thread. Each pass starts elsewhere, so that no block reads the same place twice in
// turn.
template <class Vector, int kAhead>
__global__ __launch_bounds__(kThreads) void read_passes(
    const Vector* x, uint32_t* sum, int64_t count, int passes) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t v = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t block = (blockIdx.x + static_cast<int64_t>(pass)) % gridDim.x;
    for (int64_t i = block * kThreads + threadIdx.x; i < count; i += kAhead * step) {
      Vector loaded[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) loaded[k] = i + k * step < count ? __ldcg(x + i + k * step) : Vector{};
#pragma unroll
      for (int k = 0; k < kAhead; ++k) v += total(loaded[k]);
    }
  }
  add_to(sum, v);
}

std::unique_ptr<Trial> make_levels(const Setup& setup) {
  const int64_t bytes = setup.dim(0), n = bytes / 4, passes = std::max<int64_t>(1, kTotalBytes / bytes);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(n);
  const auto sum = trial->output<uint32_t>(1);
  expect_total(*trial, x, sum, static_cast<uint32_t>(passes));
  // Sets a few times the cache still hit it now and then: memory's roof holds for much larger ones only.
  const bool in_cache = bytes <= 8 * setup.cache_bytes;
  trial->set_cost({.bytes = 1.0 * bytes * passes, .roof = in_cache ? Roof::kL2 : Roof::kDramRead});
  const int64_t blocks = setup.stream->device().num_sms * 4;
  const auto add = [&]<class Vector>(
                       const char* name, void (*kernel)(const Vector*, uint32_t*, int64_t, int)) {
    trial->variant(name, [=](const At& at) {
      gpu::fill_bytes(at[sum], 0, sizeof(uint32_t), at.stream());
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {kThreads}, .numbers = {bytes, passes}},
          at.stream(), kernel, reinterpret_cast<const Vector*>(at[x]), at[sum],
          bytes / static_cast<int64_t>(sizeof(Vector)), static_cast<int>(passes));
    });
  };
  add("4-bytes", read_passes<uint32_t, 1>);
  add("4-bytes-ahead", read_passes<uint32_t, 4>);
  add("16-bytes", read_passes<uint4, 1>);
  add("16-bytes-ahead", read_passes<uint4, 4>);
  return trial;
}

constexpr int kSetQuads = 2048;  // 32 KB per SM
constexpr int kRounds = 64;
constexpr int kSmThreads = 1024;

enum class Level { kL2, kL1, kShared };

// Every block reads the same 32 KB of its own kRounds times, 16 bytes per lane.
template <Level kLevel>
__global__ __launch_bounds__(kSmThreads) void read_near(const uint4* x, uint32_t* sum) {
  __shared__ uint4 copy[kLevel == Level::kShared ? kSetQuads : 1];
  const uint4* from = x + static_cast<int64_t>(blockIdx.x) * kSetQuads;
  if constexpr (kLevel == Level::kShared) {
    for (int i = static_cast<int>(threadIdx.x); i < kSetQuads; i += kSmThreads) copy[i] = from[i];
    __syncthreads();
  }
  uint32_t v = 0;
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (int k = 0; k < kSetQuads / kSmThreads; ++k) {
      // Another warp's part each round, or the compiler would read once.
      const int i = (static_cast<int>(threadIdx.x) + 32 * round + k * kSmThreads) % kSetQuads;
      if constexpr (kLevel == Level::kShared) v += total(copy[i]);
      if constexpr (kLevel == Level::kL1) v += total(from[i]);
      if constexpr (kLevel == Level::kL2) v += total(__ldcg(from + i));
    }
  }
  add_to(sum, v);
}

std::unique_ptr<Trial> make_near(const Setup& setup) {
  const int64_t blocks = setup.stream->device().num_sms * 2;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(blocks * kSetQuads * 4);
  const auto sum = trial->output<uint32_t>(1);
  expect_total(*trial, x, sum, kRounds);
  const double bytes = 16.0 * kSetQuads * kRounds * static_cast<double>(blocks);
  const auto add = [&](const char* name, void (*kernel)(const uint4*, uint32_t*), Roof roof) {
    trial->set_cost(name, {.bytes = bytes, .roof = roof});
    trial->variant(name, [=](const At& at) {
      gpu::fill_bytes(at[sum], 0, sizeof(uint32_t), at.stream());
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {kSmThreads}}, at.stream(), kernel,
          reinterpret_cast<const uint4*>(at[x]), at[sum]);
    });
  };
  add("l2", read_near<Level::kL2>, Roof::kL2);
  add("l1", read_near<Level::kL1>, Roof::kL1);
  add("shared", read_near<Level::kShared>, Roof::kL1);
  return trial;
}

const Registered kLevels({
    .id = "ch06/read-levels",
    .title = "Read bandwidth by working set",
    .question =
        "What bandwidth do L2 and device memory give, and what does a thread need to ask for to get it?",
    .mechanism = "Sets below half of L2 stay near each half of the chip, larger ones cross between them, and "
                 "past 50 MB every pass "
                 "comes from memory. Bytes in flight decide how much of each roof is reached: 16 bytes a "
                 "load and four loads "
                 "ahead.",
    .claim = {.text =
                  "L2 gives tens of TB/s in aggregate, device memory 8 TB/s on the book's card (4.8 here)."},
    .rotation = Rotation::kHot,
    .variants = {{"4-bytes", "one 4-byte load in flight a thread"}, {"4-bytes-ahead", "four of them"},
        {"16-bytes", "one 16-byte load"}, {"16-bytes-ahead", "four of them"}},
    .sizes = {{"8 MB", {1 << 23}}, {"32 MB", {1 << 25}}, {"128 MB", {1 << 27}}, {"1 GB", {1 << 30}}},
    .make = make_levels,
});

const Registered kNear({
    .id = "ch06/on-chip-bandwidth",
    .title = "Read bandwidth of L2, L1 and shared memory",
    .question = "How much more do L1 and shared memory deliver than L2 for a set that fits the SM?",
    .mechanism =
        "L1 and shared memory give 128 bytes per cycle and SM, L2 less than half of that; L1 spends a "
        "tag lookup where "
        "shared memory does not, but both end at the same array.",
    .claim = {.text = "Shared memory and L1 give TB/s per SM without conflicts, L2 tens of TB/s for all; no "
                      "ratio is given."},
    .rotation = Rotation::kHot,
    .variants = {{"l2", "loads that skip L1"}, {"l1", "ordinary loads"},
        {"shared", "from a copy in shared memory"}},
    .sizes = {{"32 KB per block", {kSetQuads * 16}}},
    .make = make_near,
});

}  // namespace
}  // namespace cheetah::lab

// SPDX-License-Identifier: MIT
// Loads through an index: what the order of the indices costs.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void gather(const float* x, const uint32_t* index, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i < n) y[i] = x[index[i]];
}

__global__ __launch_bounds__(kThreads) void copy(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i < n) y[i] = x[i];
}

// A permutation of [0, 2^k): an odd multiplier, an addition and xor-shifts are each reversible modulo 2^k.
struct Scattered {
  uint64_t mask;
  int half_bits;
  __host__ __device__ uint64_t place(uint64_t seed, uint64_t i) const {
    uint64_t v = i;
    for (int round = 0; round < 3; ++round) {
      v = (v * ((mixed(seed, 2 * round) << 1) | 1) + mixed(seed, 2 * round + 1)) & mask;
      v ^= v >> half_bits;
    }
    return v;
  }
  __device__ uint32_t operator()(uint64_t seed, int64_t i) const {
    return static_cast<uint32_t>(place(seed, static_cast<uint64_t>(i)));
  }
};
// The same inside windows of 32 numbers: scattered lanes, but the sectors of a warp are the coalesced ones.
struct ScatteredInLine {
  __device__ uint32_t operator()(uint64_t seed, int64_t i) const {
    const auto window = static_cast<uint64_t>(i) & ~uint64_t{31};
    return static_cast<uint32_t>(
        window + Scattered{31, 3}.place(mixed(seed, window), static_cast<uint64_t>(i) & 31));
  }
};
// Every second number, then the others: what index_select with a stride reads.
struct EverySecond {
  int64_t half;
  __device__ uint32_t operator()(uint64_t, int64_t i) const {
    return static_cast<uint32_t>(i < half ? 2 * i : 2 * (i - half) + 1);
  }
};
struct InOrder {
  __device__ uint32_t operator()(uint64_t, int64_t i) const { return static_cast<uint32_t>(i); }
};

struct Picked {
  const float* x;
  const uint32_t* index;  // null: the copy
  __device__ double operator()(int64_t i) const { return x[index ? index[i] : i]; }
};

int bits_of(int64_t n) {
  int bits = 0;
  while ((int64_t{1} << bits) < n) ++bits;
  return bits;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a power of two
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const Scattered scattered{static_cast<uint64_t>(n - 1), (bits_of(n) + 1) / 2};
  const std::vector<Slot<uint32_t>> indices = {trial->input_from<uint32_t>(n, scattered),
      trial->input_from<uint32_t>(n, EverySecond{n / 2}), trial->input_from<uint32_t>(n, ScatteredInLine{}),
      trial->input_from<uint32_t>(n, InOrder{})};
  const auto y = trial->output<float>(n);
  trial->expect<Picked>(y, [=](const At& at) {
    const auto variant = static_cast<size_t>(at.variant());
    return Picked{at[x], variant < indices.size() ? at[indices[variant]] : nullptr};
  });
  trial->set_cost({.bytes = 12.0 * n});
  trial->set_cost("copy", {.bytes = 8.0 * n});
  trial->set_touched(8 * n);
  const gpu::Extent grid{blocks_of(n, kThreads)}, block{kThreads};
  const char* names[] = {"random", "every-second", "within-line", "in-order"};
  for (size_t v = 0; v < indices.size(); ++v)
    trial->variant(names[v], [=](const At& at) {
      gpu::launch({.kernel = "gather", .grid = grid, .block = block, .numbers = {n}}, at.stream(), gather,
          at[x], at[indices[v]], at[y], static_cast<int>(n));
    });
  trial->variant("copy", [=](const At& at) {
    gpu::launch({.kernel = "copy", .grid = grid, .block = block, .numbers = {n}}, at.stream(), copy, at[x],
        at[y], static_cast<int>(n));
  });
  return trial;
}

const Registered kGather({
    .id = "ch07/gather",
    .title = "Gather through an index array",
    .question = "What does a gather cost in each order of its indices, against a plain copy?",
    .mechanism =
        "The order inside a 128-byte line is free, every second number costs twice the sectors, random "
        "indices fetch 32 bytes for 4; the index itself adds 4 bytes per number.",
    .claim = {.text = "A strided index_select behaves like an uncoalesced kernel and should become a "
                      "contiguous copy; no figure is given."},
    .variants = {{"random", "a permutation of the whole array"},
        {"every-second", "even places first, then odd ones"},
        {"within-line", "permuted only inside windows of 32 numbers"}, {"in-order", "index i is i"},
        {"copy", "no index at all"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 26}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

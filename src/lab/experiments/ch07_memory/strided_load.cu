// SPDX-License-Identifier: MIT
// What a warp pays for loads that are not next to each other.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kWidest = 32;

// y[i] = x[i * kStride]
template <int kStride>
__global__ __launch_bounds__(kThreads) void load_every(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i < n) y[i] = x[static_cast<int64_t>(i) * kStride];
}

struct EveryStride {
  const float* x;
  int64_t stride;
  __device__ double operator()(int64_t i) const { return x[i * stride]; }
};

constexpr int kStrides[] = {2, 1, 4, 8, 16, 32};

template <int kStride>
void add_stride(DeviceTrial& trial, const char* name, Slot<float> x, Slot<float> y) {
  const int64_t n = y.count;
  trial.variant(name, [=](const At& at) {
    gpu::launch({.kernel = "load_every",
                    .grid = {blocks_of(n, kThreads)},
                    .block = {kThreads},
                    .numbers = {n, kStride}},
        at.stream(), load_every<kStride>, at[x], at[y], static_cast<int>(n));
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n * kWidest);
  const auto y = trial->output<float>(n);
  trial->expect<EveryStride>(y, [=](const At& at) { return EveryStride{at[x], kStrides[at.variant()]}; });
  trial->set_cost({.bytes = 8.0 * n});
  trial->set_touched(8 * n);
  add_stride<2>(*trial, "stride-2", x, y);
  add_stride<1>(*trial, "stride-1", x, y);
  add_stride<4>(*trial, "stride-4", x, y);
  add_stride<8>(*trial, "stride-8", x, y);
  add_stride<16>(*trial, "stride-16", x, y);
  add_stride<32>(*trial, "stride-32", x, y);
  return trial;
}

const Registered kStridedLoad({
    .id = "ch07/strided-load",
    .title = "Coalesced and strided loads",
    .question = "How much bandwidth is lost when neighbouring lanes load every second, fourth ... number?",
    .mechanism =
        "Memory moves 32-byte sectors: stride s fetches min(s, 8) times the bytes that are used, so time "
        "grows up to stride 8; past it each lane has a sector of its own and only page and channel effects "
        "are left.",
    .claim = {.text = "Going from stride 2 to stride 1 makes the copy 3.7 times as fast (sector arithmetic "
                      "allows less than 2).",
        .variant = "stride-1",
        .speedup = 3.7},
    .variants = {{"stride-2", "lanes load every second number"},
        {"stride-1", "lanes load neighbours: four sectors per warp"},
        {"stride-4", "sixteen sectors per warp"}, {"stride-8", "a sector per lane"},
        {"stride-16", "a sector per lane, half the lines untouched"}, {"stride-32", "a line a lane"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 26}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

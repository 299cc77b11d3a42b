// SPDX-License-Identifier: MIT
// The same contiguous copy from a source that does not start where lines do.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kSpare = 64;  // numbers past the end, so that every offset stays inside

__global__ __launch_bounds__(kThreads) void copy_from(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i < n) y[i] = x[i];
}

// y[i] = x[i + 1] with aligned 16-byte loads: the number that crosses comes from the next lane, for the last
// lane from memory.
__global__ __launch_bounds__(kThreads) void copy_realigned(const float* x, float4* y, int n4) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float4 own = i < n4 ? reinterpret_cast<const float4*>(x)[i] : float4{};
  float next = __shfl_down_sync(0xFFFFFFFFu, own.x, 1);
  if (i < n4 && (lane == 31 || i == n4 - 1)) next = x[4 * i + 4];
  if (i < n4) y[i] = {own.y, own.z, own.w, next};
}

struct Shifted {
  const float* x;
  int64_t offset;
  __device__ double operator()(int64_t i) const { return x[i + offset]; }
};

constexpr int kOffsets[] = {1, 4, 8, 0, 1};
constexpr const char* kNames[] = {"off-4-bytes", "off-16-bytes", "off-32-bytes", "aligned", "realigned"};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 4
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n + kSpare);
  const auto y = trial->output<float>(n);
  trial->expect<Shifted>(y, [=](const At& at) { return Shifted{at[x], kOffsets[at.variant()]}; });
  trial->set_cost({.bytes = 8.0 * n});
  for (int v = 0; v < 4; ++v)
    trial->variant(kNames[v], [=](const At& at) {
      gpu::launch(
          {.kernel = "copy_from", .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), copy_from, at[x] + kOffsets[v], at[y], static_cast<int>(n));
    });
  trial->variant("realigned", [=](const At& at) {
    gpu::launch({.kernel = "copy_realigned",
                    .grid = {blocks_of(n / 4, kThreads)},
                    .block = {kThreads},
                    .numbers = {n}},
        at.stream(), copy_realigned, at[x], reinterpret_cast<float4*>(at[y]), static_cast<int>(n / 4));
  });
  return trial;
}

const Registered kAlignment({
    .id = "ch07/alignment",
    .title = "Misaligned sources",
    .question = "What does a contiguous load pay when its start is not a multiple of 128 bytes?",
    .mechanism =
        "A warp's 128 bytes touch five sectors instead of four unless the start is a multiple of 32; the "
        "fifth is "
        "the neighbour's and comes from L1 or L2, so DRAM traffic stays the same and little is lost.",
    .claim = {.text = "A start that is not 128-byte aligned makes a warp touch two lines, five or eight "
                      "sectors instead of four.",
        .variant = "aligned"},
    .variants = {{"off-4-bytes", "starts 4 bytes after a line"},
        {"off-16-bytes", "starts 16 bytes after a line"}, {"off-32-bytes", "starts one sector after a line"},
        {"aligned", "starts with a line"},
        {"realigned", "off by 4 bytes, loaded aligned, 16 bytes per lane, shifted by shuffles"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

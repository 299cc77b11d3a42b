// SPDX-License-Identifier: MIT
// Chains of elementwise operations, one kernel each or fused: vertically (one after the other on the same
// data) and horizontally (independent ones side by side).
#include <cmath>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void sine(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = sinf(x[i]);
}
__global__ __launch_bounds__(kThreads) void square_root(const float* y, float* z, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) z[i] = sqrtf(y[i]);
}
__global__ __launch_bounds__(kThreads) void fused(const float* x, float* z, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) z[i] = sqrtf(sinf(x[i]));
}
__global__ __launch_bounds__(kThreads) void fused_by_four(const float4* x, float4* z, int64_t n4) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n4) return;
  const float4 v = x[i];
  z[i] = make_float4(sqrtf(sinf(v.x)), sqrtf(sinf(v.y)), sqrtf(sinf(v.z)), sqrtf(sinf(v.w)));
}

std::unique_ptr<Trial> make_vertical(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n, 0.1, 3.0);  // sin x > 0
  const auto y = trial->scratch<float>("y", n);
  const auto z = trial->output<float>("z", n);
  trial->set_cost({.flops = 2.0 * n, .bytes = 8.0 * n});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[x].size(); ++i)
      host[z][i] = static_cast<float>(std::sqrt(std::sin(static_cast<double>(host[x][i]))));
  });
  const gpu::Extent grid = {(n + kThreads - 1) / kThreads}, block = {kThreads};
  trial->variant("two-kernels", [=](const Launch& at) {
    gpu::launch({.kernel = "sine", .grid = grid, .block = block}, at.stream(), sine, at[x], at[y], n);
    gpu::launch(
        {.kernel = "square_root", .grid = grid, .block = block}, at.stream(), square_root, at[y], at[z], n);
  });
  trial->variant("fused", [=](const Launch& at) {
    gpu::launch({.kernel = "fused", .grid = grid, .block = block}, at.stream(), fused, at[x], at[z], n);
  });
  trial->variant("fused-vec4", [=](const Launch& at) {
    const gpu::Extent quarter = {(n / 4 + kThreads - 1) / kThreads};
    gpu::launch({.kernel = "fused_by_four", .grid = quarter, .block = block}, at.stream(), fused_by_four,
        reinterpret_cast<const float4*>(at[x]), reinterpret_cast<float4*>(at[z]), n / 4);
  });
  return trial;
}

const Registered kVertical({
    .id = "ch09/elementwise-fusion",
    .title = "Two elementwise kernels or one",
    .question = "What is gained by computing sqrt(sin(x)) in one kernel instead of two?",
    .mechanism =
        "The intermediate stays in a register: 8 bytes per element instead of 16, and one launch fewer. Where "
        "everything fits in L2 only the launch and L2 traffic remain to be saved.",
    .claim = {.text = "Fusion doubles the operations per element and about halves the traffic.",
        .variant = "fused",
        .speedup = 2},
    .variants = {{.name = "two-kernels", .idea = "sin to memory, then sqrt from memory"},
        {.name = "fused", .idea = "one kernel, one element per thread"},
        {.name = "fused-vec4", .idea = "one kernel, 16 bytes per thread"}},
    .sizes = sizes_of({1 << 16, 1 << 20, 1 << 22, 1 << 26}),
    .quick = sizes_of({1 << 20}),
    .tolerance = {.relative = 1e-5, .absolute = 1e-6},
    .make = make_vertical,
});

// Horizontal: eight independent arrays, each with its own scale and offset.
constexpr int kArrays = 8;

__global__ __launch_bounds__(kThreads) void affine(
    const float* x, float* y, float scale, float offset, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = fmaf(x[i], scale, offset);
}
__global__ __launch_bounds__(kThreads) void affine_all(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int which = static_cast<int>(blockIdx.y);
  if (i < n) y[which * n + i] = fmaf(x[which * n + i], 1.f + which, 0.5f * which);
}

std::unique_ptr<Trial> make_horizontal(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * kArrays);
  const auto y = trial->output<float>("y", n * kArrays);
  trial->set_cost({.flops = 2.0 * n * kArrays, .bytes = 8.0 * n * kArrays});
  trial->reference([=](const HostArrays& host) {
    for (int64_t i = 0; i < n * kArrays; ++i) {
      const double which = static_cast<double>(i / n);
      host[y][static_cast<size_t>(i)] =
          static_cast<float>(host[x][static_cast<size_t>(i)] * (1 + which) + 0.5 * which);
    }
  });
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  trial->variant("eight-launches", [=](const Launch& at) {
    for (int a = 0; a < kArrays; ++a)
      gpu::launch({.kernel = "affine", .grid = {blocks}, .block = {kThreads}}, at.stream(), affine,
          at[x] + a * n, at[y] + a * n, 1.f + a, 0.5f * a, n);
  });
  trial->variant("one-launch", [=](const Launch& at) {
    gpu::launch({.kernel = "affine_all", .grid = {blocks, kArrays}, .block = {kThreads}}, at.stream(),
        affine_all, at[x], at[y], n);
  });
  return trial;
}

const Registered kHorizontal({
    .id = "ch09/horizontal-fusion",
    .title = "Independent small operations in one launch",
    .question = "How much do eight independent elementwise operations gain from sharing one launch?",
    .mechanism = "Each small launch fills a part of the card and drains before the next starts; one launch "
                 "of all fills "
                 "it once. At sizes that fill the card alone there is nothing left to gain.",
    .claim = {.text = "Horizontal fusion merges independent operations over different data in one launch."},
    .variants = {{.name = "eight-launches", .idea = "one kernel an array, one after the other"},
        {.name = "one-launch", .idea = "the array is the grid's second dimension"}},
    .sizes = sizes_of({1 << 12, 1 << 16, 1 << 20, 1 << 23}),
    .quick = sizes_of({1 << 16}),
    .tolerance = {.relative = 1e-6, .absolute = 1e-6},
    .make = make_horizontal,
});

}  // namespace
}  // namespace cheetah::lab

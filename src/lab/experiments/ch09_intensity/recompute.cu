// SPDX-License-Identifier: MIT
// A cheap function of x, computed again or loaded from where an earlier pass stored it. The size is its
// length.
#include "gpu/launch.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kCount = 1 << 24;

// `steps` dependent multiply-adds; bounded for x in [-1, 1).
template <class T>
__device__ __host__ inline T feature(T x, int steps) {
  T v = x;
  for (int i = 0; i < steps; ++i) v = v * x + T{0.25};
  return v;
}

__global__ __launch_bounds__(kThreads) void reload(
    const float4* x, const float4* stored, float4* y, int64_t n4) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n4) return;
  const float4 a = x[i], b = stored[i];
  y[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__global__ __launch_bounds__(kThreads) void store_feature(
    const float4* x, float4* stored, int steps, int64_t n4) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n4) return;
  const float4 a = x[i];
  stored[i] = make_float4(feature(a.x, steps), feature(a.y, steps), feature(a.z, steps), feature(a.w, steps));
}
__global__ __launch_bounds__(kThreads) void recompute(const float4* x, float4* y, int steps, int64_t n4) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n4) return;
  const float4 a = x[i];
  y[i] = make_float4(a.x + feature(a.x, steps), a.y + feature(a.y, steps), a.z + feature(a.z, steps),
      a.w + feature(a.w, steps));
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int steps = static_cast<int>(setup.dim(0));
  const int64_t n4 = kCount / 4;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kCount);
  const auto stored = trial->scratch<float>("stored", kCount);
  const auto y = trial->output<float>("y", kCount);
  trial->set_cost({.flops = (2.0 * steps + 1) * kCount, .bytes = 8.0 * kCount});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < kCount; ++i) {
      const double value = host[x][i];
      host[y][i] = static_cast<float>(value + feature(value, steps));
    }
  });
  const gpu::Extent grid = {n4 / kThreads}, block = {kThreads};
  const auto vectors = [](float* p) { return reinterpret_cast<float4*>(p); };
  trial->variant("store-and-reload", [=](const Launch& at) {
    gpu::launch({.kernel = "store_feature", .grid = grid, .block = block}, at.stream(), store_feature,
        vectors(at[x]), vectors(at[stored]), steps, n4);
    gpu::launch({.kernel = "reload", .grid = grid, .block = block}, at.stream(), reload, vectors(at[x]),
        vectors(at[stored]), vectors(at[y]), n4);
  });
  trial->variant("recompute", [=](const Launch& at) {
    gpu::launch({.kernel = "recompute", .grid = grid, .block = block}, at.stream(), recompute, vectors(at[x]),
        vectors(at[y]), steps, n4);
  });
  return trial;
}

const Registered kRecompute({
    .id = "ch09/recompute",
    .title = "Recompute a value or store and reload it",
    .question = "Up to how many operations per element is computing again cheaper than memory?",
    .mechanism =
        "Storing and reloading adds 8 bytes per element; at 4.8 TB/s that buys some 100 F32 operations. Short "
        "functions are free to recompute, long ones become compute bound.",
    .claim = {.text = "Recomputing cheap expressions such as x*x in registers beats loading a stored result.",
        .variant = "recompute"},
    .variants = {{.name = "store-and-reload",
                     .idea = "one kernel stores the feature, the next loads it with x"},
        {.name = "recompute", .idea = "one kernel computes it where it is needed"}},
    .sizes = {{.label = "1 step", .dims = {1}}, {.label = "16 steps", .dims = {16}},
        {.label = "128 steps", .dims = {128}}, {.label = "1024 steps", .dims = {1024}}},
    .quick = {{.label = "16 steps", .dims = {16}}},
    .tolerance = {.relative = 1e-3, .absolute = 1e-5},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

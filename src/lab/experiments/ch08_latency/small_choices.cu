// SPDX-License-Identifier: MIT
// Three small choices the book names: a branch of one assignment, four numbers per thread, the block size the
// runtime suggests.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr float kLimit = 0.1f;

__global__ __launch_bounds__(kThreads) void keep_if(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  if (x[i] > kLimit)
    y[i] = x[i];
  else
    y[i] = 0.f;
}
__global__ __launch_bounds__(kThreads) void keep_select(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  y[i] = v > kLimit ? v : 0.f;
}
// Times one or zero: right for finite numbers only.
__global__ __launch_bounds__(kThreads) void keep_product(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  y[i] = v * static_cast<float>(v > kLimit);
}

struct Kept {
  const float* x;
  __device__ double operator()(int64_t i) const { return x[i] > kLimit ? x[i] : 0.f; }
};

using Kernel = void (*)(const float*, float*, int64_t);

void add(DeviceTrial& trial, const char* name, Kernel kernel, Slot<float> x, Slot<float> y) {
  const int64_t n = y.count;
  trial.variant(name, [=](const At& at) {
    gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
        at.stream(), kernel, at[x], at[y], n);
  });
}

std::unique_ptr<Trial> make_threshold(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Kept>(y, [=](const At& at) { return Kept{at[x]}; });
  trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
  add(*trial, "branch", keep_if, x, y);
  add(*trial, "select", keep_select, x, y);
  add(*trial, "product", keep_product, x, y);
  return trial;
}

__device__ float weighted(float a, float b, float c, float d) {
  return a * 0.1f + b * 0.2f + c * 0.3f + d * 0.4f;
}

// Four neighbouring numbers per thread, one load each, with a sum that is carried along.
__global__ __launch_bounds__(kThreads) void quads_one_by_one(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < 4; ++k) sum += x[4 * i + k] * (0.1f * static_cast<float>(k + 1));
  y[i] = sum;
}
__global__ __launch_bounds__(kThreads) void quads_loaded_first(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float a = x[4 * i], b = x[4 * i + 1], c = x[4 * i + 2], d = x[4 * i + 3];
  y[i] = weighted(a, b, c, d);
}
__global__ __launch_bounds__(kThreads) void quads_at_once(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float4 q = reinterpret_cast<const float4*>(x)[i];
  y[i] = weighted(q.x, q.y, q.z, q.w);
}

struct Weighted {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += x[4 * i + k] * 0.1 * (k + 1);
    return sum;
  }
};

std::unique_ptr<Trial> make_quads(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(4 * n);
  const auto y = trial->output<float>(n);
  trial->expect<Weighted>(y, [=](const At& at) { return Weighted{at[x]}; });
  trial->set_cost({.flops = 7.0 * n, .bytes = 20.0 * n});
  add(*trial, "one-by-one", quads_one_by_one, x, y);
  add(*trial, "loaded-first", quads_loaded_first, x, y);
  add(*trial, "one-load", quads_at_once, x, y);
  return trial;
}

constexpr int kLive = 40, kRounds = 32;

// Keeps so many numbers alive that registers limit how many blocks fit. Steps, so that any launch covers n.
__global__ void many_registers(const float* x, float* y, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    float v[kLive];
#pragma unroll
    for (int j = 0; j < kLive; ++j) v[j] = x[i] + static_cast<float>(j) * 0.01f;
#pragma unroll 1
    for (int r = 0; r < kRounds; ++r)
#pragma unroll
      for (int j = 0; j < kLive; ++j) v[j] = v[j] * 0.75f + v[(j + 1) % kLive] * 0.25f;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kLive; ++j) sum += v[j];
    y[i] = sum;
  }
}

struct ManyMixed {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double v[kLive];
    for (int j = 0; j < kLive; ++j) v[j] = x[i] + j * 0.01;
    for (int r = 0; r < kRounds; ++r)
      for (int j = 0; j < kLive; ++j) v[j] = v[j] * 0.75 + v[(j + 1) % kLive] * 0.25;
    double sum = 0;
    for (const double each : v) sum += each;
    return sum;
  }
};

std::unique_ptr<Trial> make_suggested(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<ManyMixed>(y, [=](const At& at) { return ManyMixed{at[x]}; });
  trial->set_cost({.flops = (3.0 * kRounds + 2) * kLive * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  int least_grid = 0, suggested = 0;
  gpu::check(cudaOccupancyMaxPotentialBlockSize(&least_grid, &suggested, many_registers));
  const auto shape = [&](const char* name, int64_t blocks, int64_t threads) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {threads}, .numbers = {n}}, at.stream(),
          many_registers, at[x], at[y], n);
    });
  };
  shape("1024", blocks_of(n, 1024), 1024);
  shape("256", blocks_of(n, 256), 256);
  shape("64", blocks_of(n, 64), 64);
  shape("suggested", std::max<int64_t>(least_grid, blocks_of(n, suggested)), suggested);
  shape("suggested-grid", least_grid, suggested);
  return trial;
}

const Registered kThreshold({
    .id = "ch08/threshold",
    .title = "A branch of one assignment",
    .question = "Does replacing a one-line branch by a select or a product help?",
    .mechanism = "The compiler turns such a branch into a select by itself, and memory is the limit anyway: "
                 "all three should tie.",
    .claim = {.text = "The select takes 30 to 15 ms, 600 to 300 million instructions and warp efficiency "
                      "from 50 to 99 %.",
        .variant = "select",
        .speedup = 2},
    .variants = {{"branch", "if and else, each with a store"}, {"select", "one store of a selected value"},
        {"product", "times one or zero"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 27}),
    .make = make_threshold,
});

const Registered kQuads({
    .id = "ch08/four-a-thread",
    .title = "Four numbers per thread",
    .question =
        "Four neighbouring numbers per thread: is it the order of the loads or their width that counts?",
    .mechanism = "Stating the loads first changes nothing, the compiler unrolls and hoists them; but four "
                 "4-byte loads with stride "
                 "16 ask for the same sectors four times, where one 16-byte load asks once.",
    .claim = {.text = "Loading all four numbers before the products raises instruction-level parallelism; no "
                      "figure is given."},
    .variants = {{"one-by-one", "a loop of load and multiply-add"},
        {"loaded-first", "four loads, then the products"}, {"one-load", "one 16-byte load"}},
    .sizes = sizes_of({1 << 18, 1 << 22, 1 << 25}),
    .tolerance = {.absolute = 1e-6},
    .make = make_quads,
});

const Registered kSuggested({
    .id = "ch08/suggested-block",
    .title = "The block size the runtime suggests",
    .question = "Is the block size of cudaOccupancyMaxPotentialBlockSize the fastest for a kernel that "
                "registers limit?",
    .mechanism = "It maximises resident warps, not speed. Blocks of 1024 waste what does not divide, smaller "
                 "ones fit better; with "
                 "enough independent work a thread, occupancy hardly matters. The suggested grid covers the "
                 "device once and "
                 "needs a stepping kernel.",
    .claim = {.text = "Take the suggestion, then time neighbouring sizes: slightly lower occupancy may be "
                      "faster; no figure is given.",
        .variant = "suggested"},
    .variants = {{"1024", "one block per SM"}, {"256", "the usual choice"}, {"64", "small blocks"},
        {"suggested", "the suggested block, a thread per element"},
        {"suggested-grid", "the suggested block and grid, stepping"}},
    .sizes = sizes_of({1 << 20, 1 << 23}),
    .tolerance = {.absolute = 1e-3},
    .make = make_suggested,
});

}  // namespace
}  // namespace cheetah::lab

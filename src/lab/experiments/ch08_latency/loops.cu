// SPDX-License-Identifier: MIT
// Loops: unrolled for independent work, unrolled too far, and written in another order.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

// Thread t adds up x[k][t] * w[k][t] over k. kUnroll: of the loop; kSums: accumulators that take turns.
template <int kUnroll, int kSums>
__global__ __launch_bounds__(kThreads) void dot(
    const float* __restrict__ x, const float* __restrict__ w, float* y, int n, int depth) {
  const int t = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  float sums[kSums] = {};
#pragma unroll kUnroll
  for (int k = 0; k < depth; k += kSums)
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      const int64_t at = static_cast<int64_t>(k + s) * n + t;
      sums[s] += x[at] * w[at];
    }
  float sum = 0;
#pragma unroll
  for (int s = 0; s < kSums; ++s) sum += sums[s];
  y[t] = sum;
}

struct Dot {
  const float *x, *w;
  int64_t n;
  int depth;
  __device__ double operator()(int64_t t) const {
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k) sum += static_cast<double>(x[k * n + t]) * w[k * n + t];
    return sum;
  }
};

std::unique_ptr<Trial> make_dot(const Setup& setup) {
  const int64_t n = setup.stream->device().num_sms * setup.dim(0) * 32;  // warps per SM
  const auto depth = static_cast<int>(setup.dim(1));
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n * depth), w = trial->input<float>(n * depth);
  const auto y = trial->output<float>(n);
  trial->expect<Dot>(y, [=](const At& at) { return Dot{at[x], at[w], n, depth}; });
  trial->set_cost({.flops = 2.0 * depth * n, .bytes = 8.0 * depth * n + 4.0 * n, .roof = Roof::kDramRead});
  using Kernel = void (*)(const float*, const float*, float*, int, int);
  const std::pair<const char*, Kernel> kernels[] = {{"rolled", dot<1, 1>}, {"unrolled-4", dot<4, 1>},
      {"4-sums", dot<1, 4>}, {"unrolled-16", dot<16, 1>}, {"16-sums", dot<1, 16>}};
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch({.kernel = name, .grid = {n / kThreads}, .block = {kThreads}, .numbers = {n, depth}},
          at.stream(), kernel, at[x], at[w], at[y], static_cast<int>(n), depth);
    });
  return trial;
}

constexpr int kTotal = 32768;  // multiply-adds a thread

// The same multiply-adds, kUnroll of them written out: 16 bytes of code each.
template <int kUnroll>
__global__ __launch_bounds__(kThreads) void written_out(const float* x, float* y) {
  const int t = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  float v[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) v[c] = x[t] + static_cast<float>(c);
#pragma unroll 1
  for (int r = 0; r < kTotal / kUnroll; ++r)
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) v[k % 4] = v[k % 4] * 0.9998f + 0.0002f;
  y[t] = v[0] + v[1] + v[2] + v[3];
}

struct WrittenOut {
  const float* x;
  __device__ double operator()(int64_t t) const {
    double sum = 0;
    for (int c = 0; c < 4; ++c) {
      double v = static_cast<double>(x[t] + static_cast<float>(c));
      for (int k = 0; k < kTotal / 4; ++k)
        v = v * static_cast<double>(0.9998f) + static_cast<double>(0.0002f);
      sum += v;
    }
    return sum;
  }
};

std::unique_ptr<Trial> make_code(const Setup& setup) {
  const int64_t n = setup.stream->device().num_sms * setup.dim(0) * 32;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<WrittenOut>(y, [=](const At& at) { return WrittenOut{at[x]}; });
  trial->set_cost({.flops = 2.0 * kTotal * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  using Kernel = void (*)(const float*, float*);
  const std::pair<const char*, Kernel> kernels[] = {{"64", written_out<64>}, {"8", written_out<8>},
      {"1024", written_out<1024>}, {"2048", written_out<2048>}, {"4096", written_out<4096>},
      {"8192", written_out<8192>}};
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch(
          {.kernel = name, .grid = {n / kThreads}, .block = {kThreads}}, at.stream(), kernel, at[x], at[y]);
    });
  return trial;
}

constexpr int kRepeats = 64;

// sqrt(x^2 + y^2) again and again: with the squares side by side, or with something in between.
__global__ __launch_bounds__(kThreads) void side_by_side(const float* x, const float* y, float* z, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float a = x[i];
  float b = y[i];
#pragma unroll 4
  for (int k = 0; k < kRepeats; ++k) {
    const float u = a * a;
    const float v = b * b;
    const float shifted = u + 1.f;
    a = sqrtf(u + v) * 0.5f;
    b = shifted * 0.25f;
  }
  z[i] = a + b;
}
__global__ __launch_bounds__(kThreads) void one_after_the_other(
    const float* x, const float* y, float* z, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float a = x[i];
  float b = y[i];
#pragma unroll 4
  for (int k = 0; k < kRepeats; ++k) {
    const float u = a * a;
    const float shifted = u + 1.f;
    const float next = shifted * 0.25f;
    const float v = b * b;
    const float sum = u + v;
    a = sqrtf(sum) * 0.5f;
    b = next;
  }
  z[i] = a + b;
}

struct Hypotenuse {
  const float *x, *y;
  __device__ double operator()(int64_t i) const {
    double a = x[i], b = y[i];
    for (int k = 0; k < kRepeats; ++k) {
      const double u = a * a, v = b * b;
      a = sqrt(u + v) * 0.5;
      b = (u + 1) * 0.25;
    }
    return a + b;
  }
};

std::unique_ptr<Trial> make_order(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n), y = trial->input<float>(n);
  const auto z = trial->output<float>(n);
  trial->expect<Hypotenuse>(z, [=](const At& at) { return Hypotenuse{at[x], at[y]}; });
  trial->set_cost({.bytes = 12.0 * n, .roof = Roof::kNone, .items = 1.0 * kRepeats * n, .item = "step"});
  const auto add = [&](const char* name, void (*kernel)(const float*, const float*, float*, int)) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), kernel, at[x], at[y], at[z], static_cast<int>(n));
    });
  };
  add("one-after-the-other", one_after_the_other);
  add("side-by-side", side_by_side);
  return trial;
}

const Registered kDot({
    .id = "ch08/unrolling",
    .title = "Unrolling and separate sums",
    .question = "Is it the unrolling or the separate accumulators that speeds up a dot-product loop?",
    .mechanism = "Loads do not depend on the sum: unrolling lets many fly at once, which is what a "
                 "memory-bound loop with few "
                 "warps lacks. Separate sums break the chain of additions too, but four cycles an addition "
                 "hide behind memory.",
    .claim = {.text = "Unrolling by two with independent products raises instructions per cycle (the listing "
                      "still adds to one sum); no figure is given."},
    .variants = {{"rolled", "one product an iteration"}, {"unrolled-4", "four products, one sum"},
        {"4-sums", "four products, four sums"}, {"unrolled-16", "sixteen products, one sum"},
        {"16-sums", "sixteen products, sixteen sums"}},
    .sizes = {{"8 warps per SM", {8, 1024}}, {"16 warps per SM", {16, 512}}, {"64 warps per SM", {64, 128}}},
    .tolerance = {.absolute = 1e-3},
    .make = make_dot,
});

const Registered kCode({
    .id = "ch08/code-size",
    .title = "Unrolling past the instruction cache",
    .question = "At which size of the loop body does fetching instructions become the limit?",
    .mechanism = "64 multiply-adds are 1 KB of code and run from the innermost cache; 1024 are 16 KB; 8192 "
                 "are 128 KB, as much as "
                 "the cache the SM's partitions share, and must come from L2 each time round.",
    .claim = {.text =
                  "Huge unrolled bodies stall on instruction fetch; shrink the kernel; no figure is given."},
    .rotation = Rotation::kHot,
    .variants = {{"64", "1 KB of code"}, {"8", "128 bytes"}, {"1024", "16 KB"}, {"2048", "32 KB"},
        {"4096", "64 KB"}, {"8192", "128 KB"}},
    .sizes = {{"8 warps per SM", {8}}, {"32 warps per SM", {32}}},
    .tolerance = {.absolute = 5e-3},
    .make = make_code,
});

const Registered kOrder({
    .id = "ch08/source-order",
    .title = "The order independent operations are written in",
    .question = "Does it matter in which order the source states independent operations?",
    .mechanism = "The compiler schedules a basic block itself, so both orders should give the same "
                 "instructions and the same time.",
    .claim = {.text = "Independent operations should stand side by side, so that both can be issued before "
                      "either result is needed; no figure is given."},
    .variants = {{"one-after-the-other", "uses of the first square before the second one"},
        {"side-by-side", "both squares first"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .tolerance = {.absolute = 1e-4},
    .make = make_order,
});

}  // namespace
}  // namespace cheetah::lab

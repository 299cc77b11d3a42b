// SPDX-License-Identifier: MIT
// y = x W^T, one thread to all: loops in a bad order, a good order, in blocks, and this project's own kernel.
#include <algorithm>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// y[i, j] = sum over k of x[i, k] w[j, k]; both rows are read in order, one product after the other.
void dot_products(const float* x, const float* w, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += x[i * n + k] * w[j * n + k];
      y[i * n + j] = sum;
    }
}

// With W transposed the innermost loop runs along a row of y and becomes vectors.
void row_updates(const float* x, const float* w_t, float* y, int64_t n) {
  std::fill_n(y, n * n, 0.f);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += x[i * n + k] * w_t[k * n + j];
}

// Four rows of y by eight columns stay in registers while k runs; n is a multiple of both.
void register_tiles(const float* x, const float* w_t, float* y, int64_t n) {
  constexpr int64_t kCols = 8;
  using Vector = float __attribute__((vector_size(4 * kCols)));
  for (int64_t j = 0; j < n; j += kCols)
    for (int64_t i = 0; i < n; i += 4) {
      Vector y0 = {}, y1 = {}, y2 = {}, y3 = {};
      const float* at = x + i * n;
      for (int64_t k = 0; k < n; ++k) {
        Vector w;
        std::memcpy(&w, w_t + k * n + j, sizeof w);
        y0 += at[k] * w, y1 += at[n + k] * w, y2 += at[2 * n + k] * w, y3 += at[3 * n + k] * w;
      }
      int64_t row = i;
      for (const Vector& sums : {y0, y1, y2, y3}) std::memcpy(y + row++ * n + j, &sums, sizeof sums);
    }
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * n);
  const auto w = trial->input<float>("w", n * n);
  const auto w_t = trial->derived<float>("w_t", n * n, [=](std::span<float> to, const HostArrays& from) {
    for (int64_t i = 0; i < n * n; ++i)
      to[static_cast<size_t>(i % n * n + i / n)] = from[w][static_cast<size_t>(i)];
  });
  const auto y = trial->output<float>("y", n * n);
  const auto side = static_cast<double>(n);
  const Cost one_core{.flops = 2 * side * side * side, .bytes = 12 * side * side, .roof = Roof::kCoreFp32};
  trial->set_cost(one_core);
  Cost all_cores = one_core;
  all_cores.roof = Roof::kFp32;
  trial->set_cost("cheetah, all cores", all_cores);
  const auto args = [=](const float* a, const float* b, float* out) {
    return GemmArgs{.x = a,
        .x_stride = n,
        .m = n,
        .w = {.dtype = DType::kF32, .rows = n, .cols = n, .data = reinterpret_cast<const std::byte*>(b)},
        .y = out,
        .y_stride = n};
  };
  trial->reference(
      [=](const HostArrays& host) { gemm_reference(args(host[x].data(), host[w].data(), host[y].data())); });
  trial->variant("dot products", [=](const Launch& at) { dot_products(at[x], at[w], at[y], n); });
  trial->variant("row updates", [=](const Launch& at) { row_updates(at[x], at[w_t], at[y], n); });
  trial->variant("register tiles", [=](const Launch& at) { register_tiles(at[x], at[w_t], at[y], n); });
  const auto one = std::make_shared<ThreadPool>(ThreadPool::Options{.num_threads = 1, .pin = false});
  trial->variant("cheetah", [=](const Launch& at) { gemm(args(at[x], at[w], at[y]), {.pool = *one}); });
  trial->variant("cheetah, all cores",
      [=](const Launch& at) { gemm(args(at[x], at[w], at[y]), {.pool = at.threads()}); });
  return trial;
}

const Registered kGemmBlocking({
    .id = "cpu/gemm-blocking",
    .title = "Blocking a matrix product",
    .question = "What does each step from three loops to a tuned kernel gain?",
    .mechanism =
        "A dot product waits for its own sum at every step. Row updates fill vectors but load and store y "
        "for "
        "each product; tiles keep y in registers and use every loaded number several times; the kernel picks "
        "its tile for this processor's registers and shares rows among cores.",
    .claim = {.text = "Tiling raises arithmetic intensity until the product is bound by arithmetic."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"dot products", "three loops, one sum at a time"},
        {"row updates", "loops turned so that the innermost runs in vectors"},
        {"register tiles", "4 by 8 sums kept in registers"}, {"cheetah", "the engine's kernel on one core"},
        {"cheetah, all cores", "the same on all cores"}},
    .sizes = {{"128", {128}}, {"512", {512}}},
    .quick = {{"192", {192}}},
    .tolerance = {.relative = 1e-4, .absolute = 1e-3},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

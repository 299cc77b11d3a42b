// SPDX-License-Identifier: MIT
// Softmax of long rows: three passes over memory, two with a running maximum, and in pieces that stay cached.
#include <algorithm>
#include <cmath>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// e^x for x <= 0: the same few operations for every variant, so that memory is what differs.
float exp_of(float x) {
  const float scaled = std::max(x, -80.f) * 1.44269504f;
  const float whole = std::floor(scaled), part = (scaled - whole) * 0.693147181f;
  const float fraction =
      1 + part * (1 + part * (0.5f + part * (0.16666667f + part * (0.041666667f + part * 0.0083333f))));
  return std::ldexp(fraction, static_cast<int>(whole));
}

void three_passes(const float* x, float* y, int64_t n) {
  float most = x[0];
  for (int64_t i = 1; i < n; ++i) most = std::max(most, x[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = exp_of(x[i] - most);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(y[i] / sum);
}

void two_passes(const float* x, float* y, int64_t n) {
  float most = x[0];
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > most) {
      sum *= exp_of(most - x[i]);
      most = x[i];
    }
    sum += exp_of(x[i] - most);
  }
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(exp_of(x[i] - most) / sum);
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n, -8, 8);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.bytes = 8.0 * static_cast<double>(n), .roof = Roof::kCoreDram});
  trial->reference([=](const HostArrays& host) {
    double sum = 0;
    for (const float value : host[x]) sum += std::exp(static_cast<double>(value));
    for (size_t i = 0; i < host[x].size(); ++i)
      host[y][i] = static_cast<float>(std::exp(static_cast<double>(host[x][i])) / sum);
  });
  trial->variant("three passes", [=](const Launch& at) { three_passes(at[x], at[y], n); });
  trial->variant("two passes", [=](const Launch& at) { two_passes(at[x], at[y], n); });
  return trial;
}

const Registered kOnlineSoftmax({
    .id = "cpu/online-softmax",
    .title = "Online softmax",
    .question = "Is it worth computing exponentials twice to save a pass over memory?",
    .mechanism =
        "A running maximum lets the sum be taken in the first pass, but the second must compute each "
        "exponential again. It pays where memory, not arithmetic, sets the pace: on a GPU, rarely on a core.",
    .claim = {.text = "Recomputing is cheaper than storing where a kernel is bound by memory."},
    .domain = Domain::kCpu,
    .variants = {{"three passes", "maximum, exponentials, division"},
        {"two passes", "maximum and sum together, exponentials again"}},
    .sizes = sizes_of({1 << 15, 1 << 20}),
    .quick = sizes_of({1 << 17}),
    .tolerance = {.relative = 1e-4},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

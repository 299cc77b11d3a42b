// SPDX-License-Identifier: MIT
// a = b + s * c over arrays past the caches, on one thread and on all, with and without write-allocate.
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr float kScale = 1.5f;

void triad(float* a, const float* b, const float* c, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) a[i] = b[i] + kScale * c[i];
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto b = trial->input<float>("b", n);
  const auto c = trial->input<float>("c", n);
  const auto a = trial->output<float>("a", n);
  const auto count = static_cast<double>(n);
  trial->set_cost({.flops = 2 * count, .bytes = 12 * count, .roof = Roof::kCoreDram});
  trial->set_cost("all cores", {.flops = 2 * count, .bytes = 12 * count, .roof = Roof::kDram});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[a].size(); ++i) host[a][i] = host[b][i] + kScale * host[c][i];
  });
  trial->variant("one core", [=](const Launch& at) { triad(at[a], at[b], at[c], 0, n); });
  trial->variant("all cores", [=](const Launch& at) {
    constexpr int64_t kGrain = 64 << 10;
    at.threads().parallel_for(
        n, kGrain, [&](int64_t begin, int64_t end, int) { triad(at[a], at[b], at[c], begin, end); });
  });
  return trial;
}

const Registered kTriad({
    .id = "cpu/stream-triad",
    .title = "Stream triad",
    .question = "How much of the memory's bandwidth does one core reach, and how much do all?",
    .mechanism =
        "A core keeps a bounded number of cache misses in flight, so one alone cannot fill the memory's "
        "pipes; several can. A plain store reads its line first: 16 bytes move where 12 are counted.",
    .claim = {.text = "Memory bandwidth is shared: more cores help until it is full."},
    .domain = Domain::kCpu,
    .variants = {{"one core", "a plain loop the compiler vectorises"},
        {"all cores", "the same loop, pieces taken by every core"}},
    .sizes = sizes_of({1 << 20, 1 << 22, 1 << 24}),
    .quick = sizes_of({1 << 22}),
    .tolerance = {.relative = 1e-6, .absolute = 1e-6},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

// SPDX-License-Identifier: MIT
// Sums the elements above a threshold: with a branch that is guessed, and without one.
#include <algorithm>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int32_t kThreshold = 500;  // of values below 1000: taken half of the time

// The barrier keeps the compiler from turning the branch into arithmetic.
int64_t sum_branching(const int32_t* x, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] >= kThreshold) {
      sum += x[i];
      asm volatile("" : "+r"(sum));
    }
  return sum;
}

int64_t sum_selecting(const int32_t* x, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += x[i] >= kThreshold ? x[i] : 0;
    asm volatile("" : "+r"(sum));  // one element at a time, as the branching loop
  }
  return sum;
}

int64_t sum_vectors(const int32_t* x, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] >= kThreshold ? x[i] : 0;
  return sum;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<int32_t>("x", n, 0, 1000);
  const auto sorted =
      trial->derived<int32_t>("sorted", n, [=](std::span<int32_t> to, const HostArrays& from) {
        std::ranges::copy(from[x], to.begin());
        std::ranges::sort(to);
      });
  const auto sum = trial->output<int64_t>("sum", 1);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(n), .item = "element"});
  trial->reference([=](const HostArrays& host) {
    for (const int32_t value : host[x]) host[sum][0] += value >= kThreshold ? value : 0;
  });
  trial->variant("branch", [=](const Launch& at) { *at[sum] = sum_branching(at[x], n); });
  trial->variant("branch, sorted", [=](const Launch& at) { *at[sum] = sum_branching(at[sorted], n); });
  trial->variant("select", [=](const Launch& at) { *at[sum] = sum_selecting(at[x], n); });
  trial->variant("select in vectors", [=](const Launch& at) { *at[sum] = sum_vectors(at[x], n); });
  return trial;
}

const Registered kBranches({
    .id = "cpu/branches",
    .title = "Branches and selects",
    .question = "What does a branch cost that cannot be guessed?",
    .mechanism =
        "A wrong guess throws away the work begun after it, some 15 cycles, half of the time on random data. "
        "Sorted data is guessed right; a select has nothing to guess and lets the loop run in vectors. The "
        "twin of warp divergence.",
    .claim = {.text = "Divergent branches serialise a warp; predication keeps all lanes in step."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"branch", "if, on random data"}, {"branch, sorted", "the same code on sorted data"},
        {"select", "arithmetic instead of a jump, one at a time"},
        {"select in vectors", "the same, as the compiler likes"}},
    .sizes = sizes_of({1 << 18}),  // more than a predictor can learn by heart
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab

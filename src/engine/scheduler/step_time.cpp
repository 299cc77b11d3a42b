// SPDX-License-Identifier: MIT
#include "engine/scheduler/step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cheetah {
namespace {

constexpr double kFade = 0.95;        // a step counts half after 13 others of its size
constexpr int64_t kStepsToLearn = 3;  // as many as there are unknowns
// A step with as many tokens tells what a token costs; smaller ones hardly tell it from the fixed cost.
constexpr int64_t kPromptTokens = 16;
// Features are brought to about the same size, so that one ridge suits all.
constexpr double kTokenScale = 1e-2, kPairScale = 1e-5;
constexpr double kRidge = 1e-7;  // relative
// A step this many times longer than predicted was disturbed by something else.
constexpr double kOutlier = 5;
constexpr double kLateShare = 0.02;  // of steps take longer than `late` says
constexpr double kLateStep = 0.04;   // it moves so far at once, upwards

using Features = std::array<double, 3>;
using Matrix = std::array<Features, 3>;

// Least squares over the features in `set`, the others zero. Gaussian elimination; the ridge keeps pivots
// positive.
Features solve_for(unsigned set, Matrix a, Features b) {
  const auto chosen = [&](size_t i) { return (set >> i & 1) != 0; };
  for (size_t i = 0; i < 3; ++i) {
    if (!chosen(i)) continue;
    a[i][i] += kRidge * a[i][i] + 1e-30;
  }
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = i + 1; chosen(i) && j < 3; ++j) {
      if (!chosen(j)) continue;
      const double factor = a[j][i] / a[i][i];
      for (size_t k = i; k < 3; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  Features x{};
  for (size_t i = 3; i-- > 0;) {
    if (!chosen(i)) continue;
    double rest = b[i];
    for (size_t k = i + 1; k < 3; ++k) rest -= chosen(k) ? a[i][k] * x[k] : 0;
    x[i] = rest / a[i][i];
  }
  return x;
}

double squared_error(const Matrix& a, const Features& b, const Features& x) {  // less a constant
  double error = 0;
  for (size_t i = 0; i < 3; ++i) {
    error -= 2 * b[i] * x[i];
    for (size_t j = 0; j < 3; ++j) error += x[i] * a[i][j] * x[j];
  }
  return error;
}

}  // namespace

void StepShape::add(int64_t new_tokens, int64_t context) {
  const auto count = static_cast<double>(new_tokens);
  tokens += new_tokens;
  pairs += count * static_cast<double>(context) + count * (count + 1) / 2;
}

int64_t StepTimeModel::tokens_within(double seconds, int64_t context) const {
  if (seconds <= 0) return 0;
  // per_pair / 2 * n^2 + linear * n = seconds
  const double linear = per_token_s + per_pair_s * (static_cast<double>(context) + 0.5);
  constexpr double kMost = 1e9;
  double n = kMost;
  if (per_pair_s > 0)
    n = (std::sqrt(linear * linear + 2 * per_pair_s * seconds) - linear) / per_pair_s;
  else if (linear > 0)
    n = seconds / linear;
  return static_cast<int64_t>(std::min(n, kMost));
}

void StepTimeLearner::observe(const StepShape& shape, double seconds) {
  seconds = std::max(seconds, 1e-7);
  if (model_.learned) {
    const double ratio = seconds / std::max(model_.predict(shape), 1e-7);
    model_.late += kLateStep * (ratio > model_.late ? 1 - kLateShare : -kLateShare);
    seconds = std::min(seconds, kOutlier * std::max(model_.predict(shape), 1e-4));
  }
  const Features features = {1.0, static_cast<double>(shape.tokens) * kTokenScale, shape.pairs * kPairScale};
  const double weight = 1 / (seconds * seconds);
  const auto size = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(shape.tokens)));
  Sums& sums = by_size_[std::min(size, kSizes - 1)];
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j)
      sums.products[i][j] = kFade * sums.products[i][j] + weight * features[i] * features[j];
    sums.targets[i] = kFade * sums.targets[i] + weight * features[i] * seconds;
  }
  saw_prompts_ = saw_prompts_ || shape.tokens >= kPromptTokens;
  if (++num_steps_ >= kStepsToLearn) solve();
}

// Non-negative least squares: a negative cost, which noise would otherwise give, cannot come out. With three
// unknowns every set of positive ones is tried.
void StepTimeLearner::solve() {
  Matrix products{};
  Features targets{};
  for (const Sums& sums : by_size_)
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) products[i][j] += sums.products[i][j];
      targets[i] += sums.targets[i];
    }
  Features best{};
  double least = 0;
  for (unsigned set = 1; set < 8; ++set) {
    const Features x = solve_for(set, products, targets);
    if (std::ranges::any_of(x, [](double cost) { return !(cost >= 0); })) continue;
    const double error = squared_error(products, targets, x);
    if (error >= least) continue;
    least = error;
    best = x;
  }
  model_.fixed_s = best[0];
  model_.per_token_s = best[1] * kTokenScale;
  model_.per_pair_s = best[2] * kPairScale;
  model_.late = std::max(model_.late, 1.0);
  model_.learned = saw_prompts_;
}

}  // namespace cheetah

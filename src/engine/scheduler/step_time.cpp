#include "engine/scheduler/step_time.h"

#include <algorithm>
#include <cmath>

namespace cheetah {
namespace {

constexpr double kFade = 0.99;        // a step counts half after 69 others
constexpr int64_t kStepsToLearn = 3;  // as many as there are unknowns
// Features are brought to about the same size, so that one ridge suits all.
constexpr double kTokenScale = 1e-2, kPairScale = 1e-5;
constexpr double kRidge = 1e-4;
constexpr double kOutlier =
    5;  // a step this many times longer than predicted was disturbed by something else

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
  if (model_.learned) seconds = std::min(seconds, kOutlier * std::max(model_.predict(shape), 1e-4));
  const std::array<double, 3> features = {1.0, static_cast<double>(shape.tokens) * kTokenScale,
                                          shape.pairs * kPairScale};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) products_[i][j] = kFade * products_[i][j] + features[i] * features[j];
    targets_[i] = kFade * targets_[i] + features[i] * seconds;
  }
  if (++num_steps_ >= kStepsToLearn) solve();
}

// Non-negative least squares by coordinate descent: three unknowns converge in a few rounds, and a negative
// cost, which noise would otherwise give, cannot come out.
void StepTimeLearner::solve() {
  std::array<double, 3> x = {model_.fixed_s, model_.per_token_s / kTokenScale,
                             model_.per_pair_s / kPairScale};
  for (int round = 0; round < 50; ++round)
    for (size_t i = 0; i < 3; ++i) {
      double rest = targets_[i];
      for (size_t j = 0; j < 3; ++j)
        if (j != i) rest -= products_[i][j] * x[j];
      x[i] = std::max(0.0, rest / (products_[i][i] + kRidge));
    }
  model_ = {
      .fixed_s = x[0], .per_token_s = x[1] * kTokenScale, .per_pair_s = x[2] * kPairScale, .learned = true};
}

}  // namespace cheetah

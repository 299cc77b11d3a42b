// SPDX-License-Identifier: MIT
#include "kernels/sample/mirostat.h"

#include <algorithm>
#include <cmath>

#include "kernels/sample/sample.h"

namespace cheetah {
namespace {

constexpr int64_t kEstimated = 100;  // tokens from which Zipf's exponent is estimated: the paper's m

// Tokens' weights about the best one, at the request's temperature.
class Weights {
 public:
  Weights(std::span<const Candidate> candidates, float temperature)
      : candidates_(candidates), temperature_(static_cast<double>(temperature)) {}
  double log(int64_t i) const {  // natural
    return (static_cast<double>(candidates_[static_cast<size_t>(i)].first) - candidates_.front().first) /
           temperature_;
  }
  double sum(int64_t count) const {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += std::exp(log(i));
    return total;
  }
  int64_t size() const { return std::ssize(candidates_); }

 private:
  std::span<const Candidate> candidates_;
  double temperature_;
};

// Of p(i) ~ i^-s, least squares over the ratios of neighbours. 0: not to be had from one token.
double zipf_exponent(const Weights& weights) {
  double products = 0, squares = 0;
  for (int64_t i = 0; i < std::min(kEstimated, weights.size()) - 1; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * (weights.log(i) - weights.log(i + 1));
    squares += t * t;
  }
  return squares > 0 ? products / squares : 0;
}

// How many of the best tokens make a text of surprise mu.
int64_t kept_by_estimate(const Weights& weights, double mu) {
  const auto count = static_cast<double>(weights.size());
  const double s = zipf_exponent(weights), epsilon = s - 1;
  if (s <= 0) return weights.size();  // all alike
  const double share = 1 - std::pow(count, -epsilon);
  const double k = std::abs(epsilon) < 1e-9 ? std::pow(std::exp2(mu) / std::log(count), 1 / s)
                                            : std::pow(epsilon * std::exp2(mu) / share, 1 / s);
  if (!(k >= 1)) return 1;
  return k < count ? static_cast<int64_t>(k) : weights.size();
}

int64_t kept_by_surprise(const Weights& weights, double mu) {
  const double log_total = std::log(weights.sum(weights.size()));
  int64_t kept = 1;
  while (kept < weights.size() && (log_total - weights.log(kept)) / M_LN2 <= mu) ++kept;
  return kept;
}

}  // namespace

float first_mirostat_mu(const SamplingParams& params) { return 2 * params.mirostat_tau; }

MirostatDraw draw_mirostat(
    std::span<const Candidate> candidates, const SamplingParams& params, float mu, double uniform) {
  const Weights weights(candidates, params.temperature);
  const int64_t kept =
      params.mirostat == Mirostat::kFirst ? kept_by_estimate(weights, mu) : kept_by_surprise(weights, mu);
  const double total = weights.sum(kept);
  double left = uniform * total;
  int64_t chosen = 0;
  for (int64_t i = 0; i < kept; ++i) {
    left -= std::exp(weights.log(i));
    if (left >= 0) continue;
    chosen = i;
    break;
  }
  const double surprise = (std::log(total) - weights.log(chosen)) / M_LN2;
  const double next = mu - params.mirostat_eta * (surprise - static_cast<double>(params.mirostat_tau));
  return {.id = candidates[static_cast<size_t>(chosen)].second, .mu = static_cast<float>(next)};
}

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "lab/decide.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/statistics.h"

namespace cheetah::lab {
namespace {

constexpr double kUndisturbed = 0.1;  // the quantile of a CPU's times that stands for all

struct Rounds {
  std::vector<double> numerator, denominator;
};

double estimate(const Rounds& rounds, Domain domain) {
  if (domain == Domain::kCpu)
    return quantile(rounds.numerator, kUndisturbed) / quantile(rounds.denominator, kUndisturbed);
  std::vector<double> ratios;
  for (size_t i = 0; i < rounds.numerator.size(); ++i)
    ratios.push_back(rounds.numerator[i] / rounds.denominator[i]);
  return median(ratios);
}

// Estimates from resampled rounds.
std::vector<double> bootstrap(const Rounds& rounds, Domain domain) {
  constexpr int kResamples = 400;
  Philox random(1);
  std::vector<double> estimates;
  Rounds draw = rounds;
  for (int i = 0; i < kResamples; ++i) {
    for (size_t j = 0; j < rounds.numerator.size(); ++j) {
      const size_t picked = random.next_u32() % rounds.numerator.size();
      draw.numerator[j] = rounds.numerator[picked];
      draw.denominator[j] = rounds.denominator[picked];
    }
    estimates.push_back(estimate(draw, domain));
  }
  return estimates;
}

}  // namespace

namespace {
constexpr std::string_view kVerdictNames[] = {
    "baseline", "faster", "neutral", "slower", "wrong", "impossible", "skipped"};
}  // namespace

std::string_view name_of(Verdict verdict) { return kVerdictNames[static_cast<size_t>(verdict)]; }

std::optional<Verdict> verdict_named(std::string_view name) {
  const auto at = std::ranges::find(kVerdictNames, name);
  if (at == std::end(kVerdictNames)) return std::nullopt;
  return static_cast<Verdict>(at - std::begin(kVerdictNames));
}

bool ExperimentResult::has_wrong() const {
  for (const SizeResult& size : sizes)
    for (const VariantResult& variant : size.variants)
      if (variant.verdict == Verdict::kWrong) return true;
  return false;
}

Speedup ratio_of(std::span<const double> numerator, std::span<const double> denominator, Domain domain) {
  CHEETAH_ASSERT(numerator.size() == denominator.size(), "ratios are taken round by round");
  if (numerator.empty()) return {};
  const Rounds rounds{.numerator = {numerator.begin(), numerator.end()},
      .denominator = {denominator.begin(), denominator.end()}};
  const std::vector<double> estimates = bootstrap(rounds, domain);
  return {.ratio = estimate(rounds, domain),
      .low = quantile(estimates, 0.025),
      .high = quantile(estimates, 0.975)};
}

double detectable_effect(std::span<const double> a, std::span<const double> a_again, Domain domain) {
  const Speedup same = ratio_of(a, a_again, domain);
  return std::max(std::abs(same.high - 1), std::abs(1 - same.low));
}

Verdict verdict_of(const Speedup& speedup, double band) {
  if (speedup.ratio > 1 + band && speedup.low > 1) return Verdict::kFaster;
  if (speedup.ratio < 1 / (1 + band) && speedup.high < 1) return Verdict::kSlower;
  return Verdict::kNeutral;
}

double least_band(Domain domain) { return domain == Domain::kCuda ? 0.02 : 0.05; }

double floor_margin(Domain domain) { return domain == Domain::kCuda ? 0.8 : 0.5; }

double floor_seconds(const Cost& cost, double rate) {
  if (rate <= 0) return 0;
  if (counts_flops(cost.roof)) return cost.flops / rate;
  return (counts_bytes(cost.roof) ? cost.bytes : cost.items) / rate;
}

VariantResult judge(const MeasuredVariant& variant, const Baseline& baseline, Domain domain) {
  const double floor_s = floor_seconds(variant.cost, variant.roof_rate);
  VariantResult result{.cost = variant.cost, .item = variant.cost.item, .roof_rate = variant.roof_rate};
  result.num_samples = static_cast<int>(variant.seconds.size());
  result.num_rejected = static_cast<int>(
      std::ranges::count_if(variant.seconds, [&](double s) { return s < floor_margin(domain) * floor_s; }));
  result.median_s = quantile(variant.seconds, domain == Domain::kCpu ? kUndisturbed : 0.5);
  result.spread = relative_spread(variant.seconds);
  result.roof_share = result.median_s > 0 ? floor_s / result.median_s : 0;
  std::vector<double> both;  // the baseline's two samples a round: their mean, or on a CPU the less disturbed
  for (size_t i = 0; i < baseline.a.size(); ++i) {
    const double a = baseline.a[i], again = baseline.a_again[i];
    both.push_back(domain == Domain::kCpu ? std::min(a, again) : (a + again) / 2);
  }
  result.speedup = ratio_of(both, variant.seconds, domain);
  const double band = std::max(least_band(domain), detectable_effect(baseline.a, baseline.a_again, domain));
  result.verdict = verdict_of(result.speedup, band);
  if (2 * result.num_rejected > result.num_samples) result.verdict = Verdict::kImpossible;
  return result;
}

}  // namespace cheetah::lab

#include "lab/decide.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/statistics.h"

namespace cheetah::lab {
namespace {

std::vector<double> ratios(std::span<const double> numerator, std::span<const double> denominator) {
  CHEETAH_ASSERT(numerator.size() == denominator.size(), "ratios are taken round by round");
  std::vector<double> out;
  for (size_t i = 0; i < numerator.size(); ++i) out.push_back(numerator[i] / denominator[i]);
  return out;
}

// Medians of resampled rounds, sorted.
std::vector<double> bootstrap_medians(std::span<const double> values) {
  constexpr int kResamples = 400;
  Philox random(1);
  std::vector<double> medians, draw(values.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& each : draw) each = values[random.next_u32() % values.size()];
    medians.push_back(median(draw));
  }
  std::ranges::sort(medians);
  return medians;
}

}  // namespace

namespace {
constexpr std::string_view kVerdictNames[] = {"baseline", "faster",     "neutral", "slower",
                                              "wrong",    "impossible", "skipped"};
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

Speedup ratio_of(std::span<const double> numerator, std::span<const double> denominator) {
  const std::vector<double> values = ratios(numerator, denominator);
  if (values.empty()) return {};
  const std::vector<double> medians = bootstrap_medians(values);
  return {.ratio = median(values), .low = quantile(medians, 0.025), .high = quantile(medians, 0.975)};
}

double detectable_effect(std::span<const double> a, std::span<const double> a_again) {
  const Speedup same = ratio_of(a, a_again);
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
  result.median_s = median(variant.seconds);
  result.spread = relative_spread(variant.seconds);
  result.roof_share = result.median_s > 0 ? floor_s / result.median_s : 0;
  std::vector<double> both;  // the baseline's two samples a round, averaged
  for (size_t i = 0; i < baseline.a.size(); ++i) both.push_back((baseline.a[i] + baseline.a_again[i]) / 2);
  result.speedup = ratio_of(both, variant.seconds);
  const double band = std::max(least_band(domain), detectable_effect(baseline.a, baseline.a_again));
  result.verdict = verdict_of(result.speedup, band);
  if (2 * result.num_rejected > result.num_samples) result.verdict = Verdict::kImpossible;
  return result;
}

}  // namespace cheetah::lab

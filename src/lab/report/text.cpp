// SPDX-License-Identifier: MIT
#include "lab/report/text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "base/table.h"

namespace cheetah::lab {
namespace {

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  return format("{:.{}f} {}{}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kPrefixes[prefix], unit);
}

std::vector<std::string> row_of(const VariantResult& v) {
  if (v.median_s == 0) return {v.name, "", "", "", "", "", std::string(name_of(v.verdict))};
  const std::string share =
      v.roof_rate > 0 ? format("{:.0f} % {}", 100 * v.roof_share, name_of(v.cost.roof)) : "";
  return {v.name, human_time(v.median_s), format("±{:.1f} %", 100 * v.spread), human_rate(v), share,
      format("{:.2f}x [{:.2f}, {:.2f}]", v.speedup.ratio, v.speedup.low, v.speedup.high),
      std::string(name_of(v.verdict))};
}

// A neutral verdict on an effect that looks large: the baseline beside itself differed as much.
std::string why_neutral(const SizeResult& size) {
  constexpr double kLooksLarge = 0.05;
  const bool any = std::ranges::any_of(size.variants, [](const VariantResult& variant) {
    return variant.verdict == Verdict::kNeutral && std::abs(variant.speedup.ratio - 1) > kLooksLarge;
  });
  if (!any) return "";
  return format(
      "  neutral: the baseline against itself differed by {:.0f} % in this run; less than that is noise\n",
      100 * size.detectable);
}

}  // namespace

std::string human_time(double seconds) {
  if (seconds >= 1) return format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return format("{:.3g} ms", 1e3 * seconds);
  if (seconds >= 1e-6) return format("{:.3g} us", 1e6 * seconds);
  return format("{:.3g} ns", 1e9 * seconds);
}

std::string human_rate(const VariantResult& variant) {
  const Cost& cost = variant.cost;
  if (variant.median_s <= 0) return "";
  if (cost.items > 0) return format("{}/{}", human_time(variant.median_s / cost.items), variant.item);
  if (counts_flops(cost.roof) || cost.bytes == 0)
    return cost.flops > 0 ? with_prefix(cost.flops / variant.median_s, "FLOP/s") : "";
  return with_prefix(cost.bytes / variant.median_s, "B/s");
}

std::string list_text(std::span<const Experiment* const> experiments) {
  std::string out;
  size_t width = 0;
  for (const Experiment* each : experiments) width = std::max(width, each->id.size());
  for (const Experiment* each : experiments)
    out += format("{:<{}}  {:<4}  {}\n", each->id, width, name_of(each->domain), each->question);
  return out;
}

std::string result_text(const ExperimentResult& result) {
  std::string out = format("{}: {}\n", result.id, result.question);
  if (!result.skipped.empty()) out += format("  skipped: {}\n", result.skipped);
  for (const SizeResult& size : result.sizes) {
    Table table({size.label, "time", "spread", "rate", "of roof", "speed-up, 95 %", "verdict"});
    for (const VariantResult& variant : size.variants) table.add(row_of(variant));
    out += "\n";
    out += table.render();
    for (const VariantResult& variant : size.variants)
      if (!variant.note.empty()) out += format("  {}: {}\n", variant.name, variant.note);
    out += why_neutral(size);
  }
  for (const std::string& each : result.disturbances) out += format("  while it ran, {}\n", each);
  return out;
}

std::string explained_text(const ExperimentResult& result) {
  std::string out = result_text(result);
  out += format("\n  mechanism  {}\n", result.mechanism);
  if (!result.claim.empty()) out += format("  claim      {}\n", result.claim);
  for (const VariantText& variant : result.variants) out += format("  {}: {}\n", variant.name, variant.idea);
  return out;
}

std::string run_summary_text(const LabRun& run) {
  std::map<Verdict, int> counts;
  size_t skipped = 0;
  for (const ExperimentResult& e : run.experiments) {
    skipped += e.skipped.empty() ? 0 : 1;
    for (const SizeResult& size : e.sizes)
      for (const VariantResult& v : size.variants) ++counts[v.verdict];
  }
  const size_t num = run.experiments.size() - skipped;
  std::string out = format("{} experiment{}", num, num == 1 ? "" : "s");
  if (skipped > 0) out += format(" ({} more cannot run here)", skipped);
  for (const auto& [verdict, count] : counts) out += format(", {} {}", count, name_of(verdict));
  out += format("\non {}\n", run.provenance.hardware);
  for (const MeasuredRoof& roof : run.roofs) {
    const char* unit = counts_flops(roof.roof) ? "FLOP/s" : counts_bytes(roof.roof) ? "B/s" : "/s";
    out += format("  roof {:<12} {:>12}", name_of(roof.roof), with_prefix(roof.rate, unit));
    if (roof.other_rate > 0) out += format("  (the driver's copy: {})", with_prefix(roof.other_rate, unit));
    out += "\n";
  }
  return out;
}

}  // namespace cheetah::lab

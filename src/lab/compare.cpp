// SPDX-License-Identifier: MIT
#include "lab/compare.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "base/statistics.h"
#include "base/table.h"
#include "lab/report/text.h"

namespace cheetah::lab {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;  // experiment, size, variant

struct Seen {
  std::vector<double> seconds;
  double detectable = 0;
  bool wrong = false;
};

std::map<Key, Seen> seen_in(std::span<const LabRun> runs) {
  std::map<Key, Seen> all;
  for (const LabRun& run : runs)
    for (const ExperimentResult& experiment : run.experiments)
      for (const SizeResult& size : experiment.sizes)
        for (const VariantResult& variant : size.variants) {
          if (variant.verdict == Verdict::kSkipped) continue;
          Seen& seen = all[{experiment.id, size.label, variant.name}];
          seen.wrong |= variant.verdict == Verdict::kWrong;
          seen.detectable = std::max(seen.detectable, size.detectable);
          if (variant.median_s > 0) seen.seconds.push_back(variant.median_s);
        }
  return all;
}

void demand_one_machine(std::span<const LabRun> before, std::span<const LabRun> after) {
  const Provenance& first = before.front().provenance;
  for (const std::span<const LabRun> side : {before, after})
    for (const LabRun& run : side) {
      if (run.provenance.hardware != first.hardware)
        throw Error(format("runs of different hardware cannot be compared: '{}' and '{}'", first.hardware,
            run.provenance.hardware));
      if (run.provenance.driver != first.driver)
        throw Error(format("runs under different drivers cannot be compared: '{}' and '{}'", first.driver,
            run.provenance.driver));
    }
}

ComparedVariant compared(const Key& key, const Seen& before, const Seen& after, double threshold) {
  ComparedVariant c{.experiment = std::get<0>(key), .size = std::get<1>(key), .variant = std::get<2>(key)};
  c.band = std::max({threshold, before.detectable, after.detectable});
  if (after.wrong && !before.wrong) c.change = Change::kBroken;
  if (before.seconds.empty() || after.seconds.empty()) return c;
  c.before_s = median(before.seconds);
  c.after_s = median(after.seconds);
  c.ratio = c.after_s / c.before_s;
  if (c.change == Change::kBroken) return c;
  const auto [least, most] = std::ranges::minmax(after.seconds);
  if (least > c.before_s * (1 + c.band)) c.change = Change::kSlower;
  if (most < c.before_s / (1 + c.band)) c.change = Change::kFaster;
  return c;
}

}  // namespace

std::string_view name_of(Change change) {
  constexpr std::string_view kNames[] = {"same", "faster", "SLOWER", "BROKEN"};
  return kNames[static_cast<size_t>(change)];
}

bool Comparison::has_regression() const {
  return std::ranges::any_of(variants,
      [](const ComparedVariant& v) { return v.change == Change::kSlower || v.change == Change::kBroken; });
}

Comparison compare_runs(std::span<const LabRun> before, std::span<const LabRun> after, double threshold) {
  CHEETAH_ASSERT(!before.empty() && !after.empty(), "a comparison has two sides");
  demand_one_machine(before, after);
  const std::map<Key, Seen> old = seen_in(before), now = seen_in(after);
  Comparison comparison;
  for (const auto& [key, seen] : old) {
    const auto at = now.find(key);
    if (at == now.end())
      ++comparison.num_only_before;
    else
      comparison.variants.push_back(compared(key, seen, at->second, threshold));
  }
  comparison.num_only_after = static_cast<int64_t>(now.size() - comparison.variants.size());
  return comparison;
}

std::string comparison_text(const Comparison& comparison) {
  Table table({"experiment", "size", "variant", "before", "after", "ratio", "noise", "change"});
  int64_t same = 0;
  for (const ComparedVariant& v : comparison.variants) {
    if (v.change == Change::kSame) {
      ++same;
      continue;
    }
    table.add({v.experiment, v.size, v.variant, human_time(v.before_s), human_time(v.after_s),
        format("{:.2f}x", v.ratio), format("{:.0f} %", 100 * v.band), std::string(name_of(v.change))});
  }
  const auto changed = static_cast<int64_t>(comparison.variants.size()) - same;
  std::string out = changed > 0 ? table.render() : std::string();
  out += format("{} variants the same, {} changed", same, changed);
  if (comparison.num_only_before + comparison.num_only_after > 0)
    out += format("; {} only before, {} only after", comparison.num_only_before, comparison.num_only_after);
  return out + "\n";
}

double parse_threshold(const std::string& text) {
  double value = 0;
  const bool percent = text.ends_with('%');
  const char* end = text.data() + text.size() - (percent ? 1 : 0);
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (percent) value /= 100;
  if (error != std::errc() || stop != end || !(value > 0 && value < 10))
    throw UsageError(format("--fail-on: expected a share such as 5% or 0.05, not '{}'", printable(text)));
  return value;
}

}  // namespace cheetah::lab

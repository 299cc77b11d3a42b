// SPDX-License-Identifier: MIT
// Did a change do what it was meant to do (O7, and the checks after raising occupancy).
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "lab/analysis/diagnose.h"

namespace cheetah::analysis {
namespace {

constexpr double kNoise = 0.02;  // a smaller change of the time is not told from noise without repeated runs

double speedup_of(const Counters& before, const Counters& after) {
  const Number old_time = before["duration_us"], new_time = after["duration_us"];
  if (old_time && new_time && *new_time > 0) return *old_time / *new_time;
  const Number old_rate = before["gflops"], new_rate = after["gflops"];
  return old_rate && new_rate && *old_rate > 0 ? *new_rate / *old_rate : 0;
}

bool has(const Diagnosis& diagnosis, const std::string& id) {
  const Finding* finding = diagnosis.find(id);
  return finding != nullptr && finding->strength != Strength::kNote;
}

std::vector<std::string> moved_counters(const Counters& before, const Counters& after) {
  std::vector<std::string> moved;
  for (const CounterName& name : counter_names()) {
    const Number old = before[name.name], now = after[name.name];
    if (!old || !now || std::abs(*now - *old) <= 0.05 * std::max(std::abs(*old), std::abs(*now))) continue;
    moved.push_back(format("{}: {:.4g} -> {:.4g}", name.meaning, *old, *now));
  }
  return moved;
}

// More warps that change nothing only cost registers.
bool occupancy_was_in_vain(const Counters& before, const Counters& after) {
  const Number old = before["occupancy_pct"], now = after["occupancy_pct"];
  const Number old_dram = before["dram_pct"], dram = after["dram_pct"];
  return old && now && *now > *old + 10 && old_dram && dram && *dram <= *old_dram + 2;
}

std::string verdict_of(const Comparison& c, const Diagnosis& before, const Diagnosis& after) {
  if (c.speedup == 0)
    return "neither file tells the time: the counters alone do not say whether it got faster";
  if (c.speedup < 1 - kNoise) return format("{:.2f}x: slower; undo it", c.speedup);
  if (c.speedup <= 1 + kNoise)
    return format("{:.2f}x: no difference that one run can tell{}", c.speedup,
        occupancy_was_in_vain(before.counters, after.counters)
            ? "; occupancy rose and memory is no busier: undo it"
            : "");
  const bool primary_gone = !before.primary.empty() && !has(after, before.primary);
  if (primary_gone)
    return format("{:.2f}x: it worked; the limit was {} and is {} now", c.speedup, name_of(before.regime),
        name_of(after.regime));
  return format("{:.2f}x: faster, though the limit is still {}", c.speedup, name_of(after.regime));
}

}  // namespace

Comparison compare(const Diagnosis& before, const Diagnosis& after) {
  Comparison c;
  c.speedup = speedup_of(before.counters, after.counters);
  for (const Finding& finding : before.findings)
    if (has(before, finding.id)) (has(after, finding.id) ? c.stayed : c.cleared).push_back(finding.id);
  for (const Finding& finding : after.findings)
    if (has(after, finding.id) && !has(before, finding.id)) c.appeared.push_back(finding.id);
  c.moved = moved_counters(before.counters, after.counters);
  c.verdict = verdict_of(c, before, after);
  return c;
}

}  // namespace cheetah::analysis

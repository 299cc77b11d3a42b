// SPDX-License-Identifier: MIT
// What this machine alone cannot know: what its site expects of it, and what it counted over days.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "doctor/check.h"
#include "doctor/diff.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastHours = 0.2;  // before that one event makes a large rate

Outcome host_is_as_expected(const Facts& facts) {
  if (!facts.expected) return not_applicable("no profile of the site was named (--expect FILE)");
  const auto list = inventory(facts);
  std::vector<Subject> wrong;
  for (const auto& [key, values] : *facts.expected) {
    const std::string& name = key;
    const auto here =
        std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.first == name; });
    const std::string value = here == list.end() ? "-" : here->second;
    if (std::find(values.begin(), values.end(), value) != values.end()) continue;
    std::string right;
    for (const std::string& one : values) right += (right.empty() ? "" : " or ") + one;
    wrong.push_back({name, format("{} instead of {}", value, right)});
  }
  return bad_if_any(std::move(wrong), "this host differs from its site's profile",
      format("all {} values of the site's profile are here", facts.expected->size()));
}

// How many of a counter a day are too many; corrected errors come now and then on good hardware.
double most_per_day(std::string_view name) {
  for (const char* fatal : {"uncorrect", "fatal", "oom_kill"})
    if (contains(name, fatal)) return 0;
  if (contains(name, "link_downed")) return 2;
  if (contains(name, "corrected")) return 24;
  if (contains(name, "replays") || contains(name, "symbol_error") || contains(name, "nvlink")) return 100;
  return contains(name, "throttled") ? 50 : 10'000;
}

Outcome counters_are_still(const Facts& facts) {
  if (facts.trends.empty())
    return not_applicable("no history was named (--history FILE, kept by cheetah doctor watch)");
  std::vector<Subject> growing;
  double hours = 0;
  for (const Trend& trend : facts.trends) {
    hours = std::max(hours, trend.hours);
    if (trend.hours >= kLeastHours && trend.added > 0 && trend.per_day() > most_per_day(trend.name))
      growing.push_back({trend.name,
          format("{:.0f} in {:.1f} h, {:.3g} per day", trend.added, trend.hours, trend.per_day())});
  }
  if (hours < kLeastHours)
    return unknown("the history is shorter than 12 minutes: let 'cheetah doctor watch' run");
  return bad_if_any(std::move(growing), "error counters grow",
      format("{} error counters over {:.1f} h, none grows too fast", facts.trends.size(), hours));
}

constexpr Check kChecks[] = {
    {"SITE-01", Layer::kHost, Level::kFail, 0.20, "The host is as its site expects",
        "A job runs at the pace of the host that has fewer GPUs, another driver or a slower link.",
        "the whole job at the odd host's pace", FixKind::kAdvice,
        "bring {it} to the site's profile, or correct the profile", "", "F13", host_is_as_expected},
    {"SITE-02", Layer::kHost, Level::kFail, 0.15, "Error counters do not grow",
        "A total says nothing about today; a rate does.", "a straggler now, a lost part later",
        FixKind::kAdvice, "find the part behind {it}: reseat or replace it", "", "J10", counters_are_still},
};

}  // namespace

std::span<const Check> site_checks() { return kChecks; }

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#include "lab/analysis/diagnose.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "lab/analysis/rules.h"

namespace cheetah::analysis {
namespace {

Unjudged unjudged(const Rule& rule, const Counters& counters) {
  Unjudged result{.id = std::string(rule.id), .title = std::string(rule.title), .missing = {}, .collect = {}};
  std::set<std::string> flags;
  for (const std::string_view need : rule.needs) {
    if (need == "stalls" ? !counters.stalls.empty() : counters[need].has_value()) continue;
    result.missing.emplace_back(need);
    if (need == "stalls")
      flags.insert("--section WarpStateStats --metrics group:smsp__pcsamp_warp_stall_reasons");
    for (const CounterName& name : counter_names())
      if (name.name == need && !name.collect.empty()) flags.emplace(name.collect);
  }
  for (const std::string& flag : flags) result.collect += (result.collect.empty() ? "" : " ") + flag;
  return result;
}

void judge(const Rule& rule, Diagnosis& diagnosis) {
  const Tri holds = rule.holds(diagnosis.counters);
  if (holds == Tri::kUnknown) {
    Unjudged missing = unjudged(rule, diagnosis.counters);
    if (!missing.missing.empty()) diagnosis.unjudged.push_back(std::move(missing));
  }
  if (holds != Tri::kYes) return;
  Finding finding = rule.words(diagnosis.counters);
  finding.id = rule.id;
  finding.title = rule.title;
  std::erase(finding.evidence, "");
  diagnosis.findings.push_back(std::move(finding));
  if (diagnosis.primary.empty() && rule.regime != Regime::kUnclear) {
    diagnosis.primary = rule.id;
    diagnosis.regime = rule.regime;
  }
}

std::vector<std::string> next_steps(const Diagnosis& diagnosis) {
  std::vector<std::string> next;
  if (diagnosis.primary.empty() && !diagnosis.unjudged.empty()) {
    next.push_back("collect more: ncu --set full --csv --page raw PROGRAM");
    next.push_back(
        "where counters are not permitted (ERR_NVGPUCTRPERM): lab occupancy, lab access, lab sass and lab "
        "roofline need none");
    return next;
  }
  if (diagnosis.primary.empty())
    return {"no rule holds: compare with the roofline (lab roofline) or a library's kernel"};
  const Finding& first = *diagnosis.find(diagnosis.primary);
  if (!first.remedies.empty()) next.push_back(format("change one thing: {}", first.remedies.front()));
  next.push_back(
      "measure again with the same inputs, check the results, and compare: lab diagnose AFTER --before THIS");
  next.push_back("keep it only if the counter it aims at and the time both moved");
  return next;
}

}  // namespace

std::string_view name_of(Regime regime) {
  constexpr std::string_view kNames[] = {"unclear", "host", "underutilised", "compute", "bandwidth",
      "on-chip", "latency", "synchronisation", "divergence", "access"};
  return kNames[static_cast<size_t>(regime)];
}

std::string_view name_of(Strength strength) {
  constexpr std::string_view kNames[] = {"note", "likely", "sure"};
  return kNames[static_cast<size_t>(strength)];
}

const Finding* Diagnosis::find(std::string_view id) const {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? nullptr : &*found;
}

Diagnosis diagnose(const Counters& counters) {
  Diagnosis diagnosis{.counters = counters, .primary = {}, .findings = {}, .unjudged = {}, .next = {}};
  for (const auto* rules : {&regime_rules(), &memory_rules(), &launch_rules()})
    for (const Rule& rule : *rules) judge(rule, diagnosis);
  // The primary one first, then what is surer; the order of the rules otherwise.
  std::ranges::stable_sort(diagnosis.findings, [&](const Finding& a, const Finding& b) {
    const auto rank = [&](const Finding& f) {
      return f.id == diagnosis.primary ? 2 : f.strength == Strength::kNote ? 0 : 1;
    };
    return rank(a) > rank(b);
  });
  diagnosis.next = next_steps(diagnosis);
  return diagnosis;
}

}  // namespace cheetah::analysis

// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/format.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

Status status_of(const Check& check, const Outcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::kGood:
      return Status::kPass;
    case Verdict::kNote:
      return Status::kInfo;
    case Verdict::kNotApplicable:
      return Status::kNotApplicable;
    case Verdict::kUnknown:
      return Status::kUnknown;
    case Verdict::kBad:
      break;
  }
  const Level level = outcome.level.value_or(check.level);
  if (level == Level::kFail) return Status::kFail;
  return level == Level::kWarn ? Status::kWarn : Status::kInfo;
}

bool is_wanted(const Check& check, const ExamineOptions& options) {
  const auto holds = [&](const std::vector<std::string>& ids) {
    return std::ranges::any_of(ids, [&](const std::string& id) { return equal_ignoring_case(id, check.id); });
  };
  if (holds(options.waived)) return false;
  if (!options.only.empty()) return holds(options.only);
  return options.layers.empty() ||
         std::find(options.layers.begin(), options.layers.end(), check.layer) != options.layers.end();
}

// Troubles first, the dearest among them first; equal ones in the tables' order.
bool comes_before(const Finding& a, const Finding& b) {
  const auto rank = [](const Finding& finding) {
    return finding.risk > 0 ? -1 : static_cast<int>(finding.status);
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return a.risk > b.risk;
}

// What a host's files held may reach a terminal, a page or a script: no control character of it does.
void make_printable(Outcome& outcome) {
  constexpr size_t kMaxSentence = 4000, kMaxName = 400;
  outcome.found = printable(outcome.found, kMaxSentence);
  for (Evidence& evidence : outcome.evidence) {
    evidence.source = printable(evidence.source, kMaxName);
    evidence.value = printable(evidence.value, kMaxName);
  }
  for (Subject& subject : outcome.subjects) {
    subject.name = printable(subject.name, kMaxName);
    subject.was = printable(subject.was, kMaxName);
  }
}

}  // namespace

std::string_view name_of(Status status) {
  constexpr std::string_view kNames[] = {"fail", "warn", "info", "unknown", "pass", "n/a"};
  return kNames[static_cast<size_t>(status)];
}

int Report::count(Status status) const {
  return static_cast<int>(std::count_if(
      findings.begin(), findings.end(), [&](const Finding& finding) { return finding.status == status; }));
}

Finding examine_one(const Check& check, const Facts& facts, const Source* read) {
  Finding finding;
  finding.check = &check;
  try {
    finding.outcome = check.examine(facts);
  } catch (const std::exception& error) {
    finding.outcome = unknown(format("the check failed: {}", printable(error.what(), 200)));
  }
  finding.status = status_of(check, finding.outcome);
  const bool costs = finding.status == Status::kFail || finding.status == Status::kWarn;
  if (costs) finding.risk = finding.outcome.risk >= 0 ? finding.outcome.risk : check.risk;
  const MemorySource nothing;
  finding.fix = fix_for(check, facts, finding.outcome, read != nullptr ? *read : nothing);
  make_printable(finding.outcome);
  return finding;
}

Report examine(const Facts& facts, const ExamineOptions& options) {
  Report report;
  report.problems = facts.problems;
  double safe = 1;
  for (const Check* check : all_checks()) {
    if (!is_wanted(*check, options)) continue;
    report.findings.push_back(examine_one(*check, facts, options.read));
    safe *= 1 - std::clamp(report.findings.back().risk, 0.0, 1.0);
    const Finding& finding = report.findings.back();
    if (finding.status == Status::kUnknown && contains(finding.outcome.found, "root"))
      report.root_adds.push_back(format("{} ({})", check->title, check->id));
  }
  report.goodput_at_risk = 1 - safe;
  std::stable_sort(report.findings.begin(), report.findings.end(), comes_before);
  return report;
}

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#include "doctor/check.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/format.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxNamed = 6;  // subjects named in a sentence; the report lists all

}  // namespace

std::vector<const Check*> all_checks() {
  std::vector<const Check*> all;
  for (const auto table : {host_checks(), memory_checks(), kernel_checks(), kernel_log_checks(),
           gpu_presence_checks(), gpu_checks(), gpu_link_checks(), rdma_checks(), network_checks(),
           storage_checks(), link_checks(), gpu_state_checks(), limit_checks(), container_checks(),
           job_checks(), nccl_checks(), variable_checks(), setting_checks(), pod_checks(), engine_checks(),
           profile_checks(), counter_checks(), measured_checks(), site_checks(), active_checks()})
    for (const Check& check : table) all.push_back(&check);
  return all;
}

const Check* find_check(std::string_view id) {
  for (const Check* check : all_checks())
    if (equal_ignoring_case(check->id, id)) return check;
  return nullptr;
}

std::string_view name_of(Layer layer) {
  constexpr std::string_view kNames[] = {"Host", "GPU", "Network", "Storage", "Container", "Job",
      "Configuration", "Pod", "Engine", "Profile", "Measured"};
  return kNames[static_cast<size_t>(layer)];
}

Outcome good(std::string found) { return {Verdict::kGood, std::move(found), {}, {}}; }
Outcome note(std::string found) { return {Verdict::kNote, std::move(found), {}, {}}; }
Outcome bad(std::string found, std::vector<Subject> subjects) {
  return {Verdict::kBad, std::move(found), {}, std::move(subjects)};
}
Outcome not_applicable(std::string reason) { return {Verdict::kNotApplicable, std::move(reason), {}, {}}; }
Outcome unknown(std::string reason) { return {Verdict::kUnknown, std::move(reason), {}, {}}; }

Outcome with_risk(Outcome outcome, double risk) {
  outcome.risk = std::clamp(risk, 0.0, 0.95);
  return outcome;
}
Outcome with_level(Outcome outcome, Level level) {
  outcome.level = level;
  return outcome;
}

Outcome bad_if_any(std::vector<Subject> subjects, const std::string& found, std::string otherwise) {
  if (subjects.empty()) return good(std::move(otherwise));
  std::string sentence = found + ": ";
  for (size_t i = 0; i < subjects.size() && i < kMaxNamed; ++i) {
    sentence += format("{}{}", i > 0 ? ", " : "", subjects[i].name);
    if (!subjects[i].was.empty()) sentence += format(" ({})", subjects[i].was);
  }
  if (subjects.size() > kMaxNamed) sentence += format(" and {} more", subjects.size() - kMaxNamed);
  return bad(std::move(sentence), std::move(subjects));
}

std::string shown(int64_t value) { return format("{}", value); }
std::string shown(double value) { return format("{:.6g}", value); }
std::string shown(bool value) { return value ? "yes" : "no"; }
std::string shown(const std::string& value) {
  return value.size() > 160 ? value.substr(0, 157) + "…" : value;
}
std::string shown(const std::vector<int>& value) { return value.empty() ? "none" : to_list(value); }

}  // namespace cheetah::doctor

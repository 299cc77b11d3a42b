// SPDX-License-Identifier: MIT
#pragma once
// A check is a pure function from facts to an outcome, and a row of a table that says what it means, what it
// costs and how to mend it.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace cheetah::doctor {

enum class Verdict {
  kGood,
  kNote,           // nothing is wrong; worth knowing
  kBad,            // as bad as the check's level says
  kNotApplicable,  // what it looks at is not here
  kUnknown,        // it is here, but we may not or cannot read it
};

enum class Level { kInfo, kWarn, kFail };

struct Evidence {
  std::string source, value;
};

// One thing that is wrong: the {it} of the fix, with what stands there now, the {was} of the undo.
struct Subject {
  std::string name, was;
};

struct Outcome {
  Verdict verdict = Verdict::kGood;
  std::string found;  // one sentence; the reason when not applicable or unknown
  std::vector<Evidence> evidence;
  std::vector<Subject> subjects;
  double risk = -1;                           // share of goodput at stake; below 0: the check's own estimate
  std::optional<Level> level = std::nullopt;  // of this case, where it differs from the check's
};

enum class Layer {
  kHost,
  kGpu,
  kNetwork,
  kStorage,
  kContainer,
  kJob,
  kConfiguration,
  kPod,
  kEngine,
  kProfile,
  kMeasured
};
enum class FixKind {
  kCommand,   // shell commands, at once, until the next boot
  kBoot,      // the kernel's command line: counts after a reboot
  kFirmware,  // BIOS, BMC, cables
  kSetting,   // of the job, the engine, the pod, the container
  kAdvice,
};

struct Check {
  std::string_view id;
  Layer layer;
  Level level;  // of a bad outcome
  double risk;  // share of goodput a typical case costs: our estimate, for the order and the score
  std::string_view title;
  std::string_view why;
  std::string_view effect;
  FixKind fix_kind;
  std::string_view fix;    // {it} and {was} stand for each subject
  std::string_view undo;   // "": nothing to undo
  std::string_view items;  // rows of the checklist it answers
  Outcome (*examine)(const Facts&);
};

// Every check there is, layer by layer.
std::vector<const Check*> all_checks();
const Check* find_check(std::string_view id);
std::string_view name_of(Layer layer);

// ---- for the bodies of checks ----
Outcome good(std::string found);
Outcome note(std::string found);
Outcome bad(std::string found, std::vector<Subject> subjects = {});
Outcome not_applicable(std::string reason);
Outcome unknown(std::string reason);
// The outcome with a risk in proportion to what was found, at most 0.95.
Outcome with_risk(Outcome outcome, double risk);
Outcome with_level(Outcome outcome, Level level);
// Bad when there are subjects: "FOUND: name (was), …"; otherwise good.
Outcome bad_if_any(std::vector<Subject> subjects, const std::string& found, std::string otherwise);
inline Outcome judge(bool is_good, std::string found) {
  return is_good ? good(std::move(found)) : bad(std::move(found));
}
// The outcome for a value that is not known.
template <class T>
Outcome without(const Value<T>& value) {
  const std::string reason = (value.source().empty() ? "" : value.source() + ": ") + value.reason();
  return value.is_unreadable() ? unknown(reason) : not_applicable(reason);
}

std::string shown(int64_t value);
std::string shown(double value);
std::string shown(bool value);
std::string shown(const std::string& value);
std::string shown(const std::vector<int>& value);
template <class T>
std::string shown(const std::vector<T>& value) {
  return shown(static_cast<int64_t>(value.size())) + " found";
}
template <class T>
std::string shown(const T&) {
  return "read";
}

// Calls body with the values when all are known, and adds them as evidence; otherwise the first unknown one
// decides.
template <class Body, class... T>
Outcome when_known(Body body, const Value<T>&... values) {
  Outcome missing;
  bool all_known = true;
  const auto look = [&](const auto& value) {
    if (!all_known || value.known()) return;
    all_known = false;
    missing = without(value);
  };
  (look(values), ...);
  if (!all_known) return missing;
  Outcome outcome = body(*values...);
  (outcome.evidence.push_back({values.source(), shown(*values)}), ...);
  return outcome;
}

// The tables, one a file.
std::span<const Check> host_checks();
std::span<const Check> memory_checks();
std::span<const Check> kernel_checks();
std::span<const Check> gpu_presence_checks();
std::span<const Check> kernel_log_checks();
std::span<const Check> gpu_checks();
std::span<const Check> gpu_link_checks();
std::span<const Check> network_checks();
std::span<const Check> rdma_checks();
std::span<const Check> storage_checks();
std::span<const Check> link_checks();
std::span<const Check> gpu_state_checks();
std::span<const Check> limit_checks();
std::span<const Check> container_checks();
std::span<const Check> job_checks();
std::span<const Check> nccl_checks();
std::span<const Check> variable_checks();
std::span<const Check> setting_checks();
std::span<const Check> pod_checks();
std::span<const Check> engine_checks();
std::span<const Check> profile_checks();
std::span<const Check> counter_checks();
std::span<const Check> measured_checks();
std::span<const Check> site_checks();
std::span<const Check> active_checks();

}  // namespace cheetah::doctor

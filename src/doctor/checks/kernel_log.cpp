// SPDX-License-Identifier: MIT
// What the kernel's log tells, one check for each kind of device: by the catalogue in log/.
#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxEvidence = 8;

std::string age_text(double age_s) {
  if (age_s < 0) return "";
  if (age_s < 120) return ", just now";
  if (age_s < 7200) return format(", {:.0f} minutes ago", age_s / 60);
  return age_s < 172800 ? format(", {:.0f} hours ago", age_s / 3600)
                        : format(", {:.0f} days ago", age_s / 86400);
}

std::string sentence(const LogFacts& log, const LogEvent& event) {
  return format("{}{}{}{}", event.what, event.culprit.empty() ? "" : " (" + event.culprit + ")",
      event.count > 1 ? format(", {} times", event.count) : "", age_text(log.age_s(event)));
}

struct Kinds {
  Subsystem first, last;
  const char* clean;        // "the kernel's log tells of no GPU trouble"
  double lasting, passing;  // what either costs
};

Outcome judge_log(const Facts& facts, const Kinds& kinds) {
  if (!facts.log.events) return without(facts.log.events);
  std::vector<Subject> subjects;
  std::vector<Evidence> evidence;
  std::string found, history;
  double risk = 0;
  for (const LogEvent& event : *facts.log.events) {
    if (event.subsystem < kinds.first || event.subsystem > kinds.last) continue;
    const std::string text = sentence(facts.log, event);
    if (!facts.log.is_trouble(event)) {
      if (history.empty()) history = text;
      continue;
    }
    risk = std::max(risk, event.gravity == Gravity::kLasting ? kinds.lasting : kinds.passing);
    if (subjects.size() < 3) found += (found.empty() ? "" : "; ") + text;
    subjects.push_back({event.culprit, event.what});
    if (evidence.size() < kMaxEvidence) evidence.push_back({facts.log.events.source(), event.line});
  }
  if (subjects.size() > 3) found += format("; and {} more", subjects.size() - 3);
  Outcome outcome = !subjects.empty() ? bad(found, std::move(subjects))
                    : history.empty() ? good(kinds.clean)
                                      : note("nothing now; earlier: " + history);
  outcome.evidence = std::move(evidence);
  if (outcome.evidence.empty()) outcome.evidence.push_back({facts.log.events.source(), "read"});
  if (outcome.verdict == Verdict::kBad) outcome.risk = risk;
  return outcome;
}

Outcome gpu_log(const Facts& facts) {
  return judge_log(facts,
      {Subsystem::kGpu, Subsystem::kSwitch, "the kernel's log tells of no GPU or NVSwitch fault", 0.5, 0.15});
}
Outcome bus_log(const Facts& facts) {
  return judge_log(
      facts, {Subsystem::kPcie, Subsystem::kPcie, "the kernel's log tells of no PCIe error", 0.4, 0.1});
}
Outcome disk_log(const Facts& facts) {
  return judge_log(facts, {Subsystem::kStorage, Subsystem::kStorage,
                              "the kernel's log tells of no disk or file system fault", 0.3, 0.1});
}
Outcome adapter_log(const Facts& facts) {
  return judge_log(facts, {Subsystem::kNetwork, Subsystem::kNetwork,
                              "the kernel's log tells of no network adapter fault", 0.4, 0.1});
}
Outcome memory_log(const Facts& facts) {
  return judge_log(
      facts, {Subsystem::kMemory, Subsystem::kMemory, "the kernel's log tells of no memory error", 0.4, 0.1});
}
Outcome kernel_log(const Facts& facts) {
  return judge_log(facts,
      {Subsystem::kKernel, Subsystem::kKernel, "the kernel's log tells of no lockup or hung task", 0.3, 0.1});
}
Outcome memory_kill_log(const Facts& facts) {
  return judge_log(facts, {Subsystem::kOutOfMemory, Subsystem::kOutOfMemory,
                              "the kernel's log tells of no process killed for memory", 0.15, 0.15});
}

constexpr Check kChecks[] = {
    {"HST-25", Layer::kHost, Level::kFail, 0.50, "The log tells of no GPU fault",
        "Xid and SXid numbers of the hardware announce a device that is failing.",
        "a straggler now, a lost job later", FixKind::kAdvice,
        "drain the node; look up the number; reset, reseat or replace the part", "", "J10", gpu_log},
    {"LOG-01", Layer::kHost, Level::kFail, 0.40, "The log tells of no PCIe error",
        "A link with errors repeats transfers, and a fatal error takes its device away.",
        "slow copies; a lost device", FixKind::kAdvice, "reseat or replace {it} or its riser", "", "J10",
        bus_log},
    {"LOG-02", Layer::kHost, Level::kFail, 0.30, "The log tells of no disk fault",
        "A disk that times out stalls every reader for half a minute before the request is given up.",
        "stalls; lost data", FixKind::kAdvice, "back up and replace {it}", "", "J10", disk_log},
    {"LOG-03", Layer::kHost, Level::kFail, 0.40, "The log tells of no adapter fault",
        "An adapter whose firmware stopped takes its rail away, and the collective waits for it.",
        "hung collectives", FixKind::kAdvice, "update or replace {it}", "", "J10", adapter_log},
    {"LOG-04", Layer::kHost, Level::kFail, 0.40, "The log tells of no memory error",
        "Corrected errors by the dozen come before one that is not corrected.", "a lost node",
        FixKind::kAdvice, "find the DIMM and replace it", "", "J10", memory_log},
    {"LOG-05", Layer::kHost, Level::kWarn, 0.30, "The log tells of no lockup",
        "A CPU that is stuck in the kernel stops the threads that wait for it.",
        "stalls of seconds to minutes", FixKind::kAdvice, "look at the lines around it in the log", "", "J10",
        kernel_log},
    {"LOG-06", Layer::kHost, Level::kWarn, 0.15, "The log tells of no process killed for memory",
        "The kernel ends the largest process when memory runs out: a rank, and with it the job.", "lost jobs",
        FixKind::kSetting, "use less memory, or raise the limit", "", "J08", memory_kill_log},
};

}  // namespace

std::span<const Check> kernel_log_checks() { return kChecks; }

}  // namespace cheetah::doctor

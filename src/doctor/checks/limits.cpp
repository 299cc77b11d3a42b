// SPDX-License-Identifier: MIT
// CTR: limits that slow down before they stop.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostProcesses = 0.9;  // of the limit

Outcome memory_is_not_held_back(const Facts& facts) {
  return when_known(
      [&](double high, const Fields& events) {
        if (std::isinf(high)) return good("the group has no memory.high");
        const double times = number_in(events, "high").value_or(0);
        const std::string limit = human_bytes(high);
        if (times == 0) return good(format("the group stays below its memory.high of {}", limit));
        const double used = facts.container.memory_current.value_or(0);
        Outcome outcome =
            bad(format("the group was held back {:.0f} times at its memory.high of {}", times, limit),
                {{facts.container.cgroup, limit}});
        return with_risk(std::move(outcome), used > 0.95 * high ? 0.3 : 0.05);
      },
      facts.container.memory_high, facts.container.memory_events);
}

Outcome processes_are_left(const Facts& facts) {
  return when_known(
      [&](double most, double now) {
        const std::string found = std::isinf(most)
                                      ? format("{:.0f} processes and threads, without a limit", now)
                                      : format("{:.0f} of {:.0f} processes and threads run", now, most);
        if (std::isinf(most) || now < kMostProcesses * most) return good(found);
        return bad(found + ": the next one fails to start", {{facts.container.cgroup, shown(most)}});
      },
      facts.container.pids_max, facts.container.pids_current);
}

Outcome pod_is_guaranteed(const Facts& facts) {
  if (!contains(facts.container.cgroup, "kubepods")) return not_applicable("this is not a Kubernetes pod");
  if (!facts.has_gpu()) return not_applicable("there is no GPU");
  for (const char* kind : {"besteffort", "burstable"}) {
    if (!contains(facts.container.cgroup, kind)) continue;
    Outcome outcome = bad(format("the pod's quality of service is {}: other pods take its CPUs first", kind),
        {{facts.container.cgroup, kind}});
    const bool has_quota = !starts_with(facts.container.cpu_max.value_or("max"), "max");
    const bool is_serious = std::string_view(kind) == "besteffort" || has_quota;
    return with_level(std::move(outcome), is_serious ? Level::kWarn : Level::kInfo);
  }
  return good("the pod's quality of service is guaranteed");
}

constexpr Check kChecks[] = {
    {"CTR-40", Layer::kContainer, Level::kWarn, 0.15, "Memory is not held back",
        "Above memory.high the kernel stops every allocating thread to reclaim.", "stalls on each allocation",
        FixKind::kSetting, "raise memory.high of the group above its peak, or set it to max", "", "J08",
        memory_is_not_held_back},
    {"CTR-41", Layer::kContainer, Level::kFail, 0.20, "Processes are left",
        "At pids.max a fork or a new thread fails: loaders and NCCL die at start.", "failed start-up",
        FixKind::kSetting, "raise pids.max of the group (docker --pids-limit, podPidsLimit of the kubelet)",
        "", "F14", processes_are_left},
    {"CTR-42", Layer::kContainer, Level::kWarn, 0.05, "The pod's CPUs are its own",
        "Only a guaranteed pod with whole CPUs gets exclusive ones; others share with their neighbours.",
        "jitter when the node is busy", FixKind::kSetting,
        "set requests equal to limits, with whole CPUs, for every container of the pod", "", "G08",
        pod_is_guaranteed},
};

}  // namespace

std::span<const Check> limit_checks() { return kChecks; }

}  // namespace cheetah::doctor

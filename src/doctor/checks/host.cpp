// SPDX-License-Identifier: MIT
// HST: the processors of the host.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kSlowWakeUs = 10;      // an idle state that takes longer to leave costs latency
constexpr double kLeastCoresPerGpu = 4;  // physical: loaders, tokenizers, one launch thread

Outcome governor_is_performance(const Facts& facts) {
  std::vector<Subject> slow;
  std::string where, modes;
  for (const CpuCore& core : facts.cpu.cores) {
    if (core.governor.is_unreadable()) return without(core.governor);
    if (!core.governor) continue;
    where = core.governor.source();
    modes = *core.governor;
    // With intel_pstate and amd-pstate in active mode "powersave" is a name; the preference decides.
    const bool fast = *core.governor == "performance" || core.preference.is("performance");
    if (!fast) slow.push_back({format("cpu{}", core.cpu), *core.governor});
  }
  if (where.empty())
    return not_applicable("the CPU's frequency is not ours to set (no cpufreq), as in most virtual machines");
  const double share = static_cast<double>(slow.size()) / static_cast<double>(facts.cpu.cores.size());
  Outcome outcome =
      bad_if_any(std::move(slow), "these CPUs save power", "every CPU runs the performance governor");
  outcome.evidence.push_back({where, modes});
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), std::max(0.1 * share, 0.002))
                                          : outcome;
}

Outcome idle_states_are_shallow(const Facts& facts) {
  std::vector<Subject> deep;
  bool any = false;
  for (const CpuCore& core : facts.cpu.cores)
    for (size_t i = 0; i < core.idle_states.size(); ++i) {
      const IdleState& state = core.idle_states[i];
      any = true;
      if (!state.disabled && state.latency_us > kSlowWakeUs)
        deep.push_back({format("cpu{}/cpuidle/state{}", core.cpu, i),
            format("{}, {} us", state.name, state.latency_us)});
    }
  if (!any) return not_applicable("the kernel manages no idle states here");
  if (!facts.serves())
    return note(
        format("{} deep idle states are on; they matter for latency, not for {}", deep.size(), "throughput"));
  if (facts.machine.is_virtual) return note("idle states of a virtual machine: the host decides");
  return bad_if_any(std::move(deep), "CPUs may sleep deeply", "no CPU sleeps deeper than 10 us");
}

Outcome smt_is_off(const Facts& facts) {
  return when_known(
      [](const std::string& active) {
        if (active != "1") return good("every thread has a core of its own");
        return bad("two threads share a core: compare both ways, loaders often gain and kernels often lose");
      },
      facts.cpu.smt_active);
}

Outcome isolation_leaves_cpus(const Facts& facts) {
  if (!facts.cpu.isolated) return without(facts.cpu.isolated);
  if (facts.cpu.isolated->empty()) return not_applicable("no CPU is isolated");
  std::vector<Subject> starved;
  for (const NumaNode& node : facts.cpu.nodes.value_or({}))
    if (!node.cpus.empty() && is_subset(node.cpus, *facts.cpu.isolated))
      starved.push_back({format("node{}", node.node), "all isolated"});
  if (starved.empty() && facts.cpu.online && is_subset(*facts.cpu.online, *facts.cpu.isolated))
    starved.push_back({"the machine", "all isolated"});
  return bad_if_any(std::move(starved), "no CPU is left for the system",
      format("CPUs {} are isolated", to_list(*facts.cpu.isolated)));
}

Outcome cpu_is_not_throttled(const Facts& facts) {
  return when_known(
      [&](double total) {
        const auto now = facts.counters.delta("cpu.throttled");
        if (now.value_or(0) > 0) return bad(format("the CPU was throttled {} times while we looked", *now));
        return total > 0 ? note(format("the CPU was throttled {:.0f} times since boot, not now", total))
                         : good("the CPU was never throttled");
      },
      facts.counters.total("cpu.throttled"));
}

Outcome host_feeds_its_gpus(const Facts& facts) {
  if (!facts.has_gpu()) return not_applicable("there is no GPU");
  return when_known(
      [&](int64_t cores, double memory) {
        const double gpus = std::max<double>(facts.gpu.count(), static_cast<double>(facts.pci.gpus().size()));
        double gpu_bytes = 0;
        for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
          gpu_bytes += gpu.number("memory.total").value_or(0);
        const std::string found = format("{:.1f} physical cores a GPU, {} of memory for {} of GPU memory",
            static_cast<double>(cores) / gpus, human_bytes(memory), human_bytes(gpu_bytes));
        // On Grace the GPU's memory is the CPU's as well.
        const double wanted = facts.machine.is_grace ? 0.5 : facts.trains() ? 1.0 : 0.75;
        if (static_cast<double>(cores) / gpus >= kLeastCoresPerGpu && memory >= wanted * gpu_bytes)
          return good(found);
        return facts.machine.is_cloud() ? note(found + ", as the cloud sells it")
                                        : bad("too little for these GPUs: " + found);
      },
      facts.cpu.physical_cores, facts.memory.bytes("MemTotal"));
}

Outcome boost_is_on(const Facts& facts) {
  return when_known(
      [](const std::string& boost) {
        return boost == "0" ? bad("the CPU may not boost its clock", {{"boost", boost}})
                            : good("the CPU may boost its clock");
      },
      facts.cpu.boost);
}

// With acpi-cpufreq the limit is the nominal clock and boost goes above it: the largest step is no limit.
// Without a table of steps, what most cores may run at is taken for it.
int64_t uncapped_khz(const CpuCore& core, bool boosts, int64_t usual) {
  if (core.top_step_khz) return std::min(*core.top_step_khz, *core.max_khz);
  return boosts && core.driver.is("acpi-cpufreq") && usual >= *core.max_khz / 2 ? usual : *core.max_khz;
}

int64_t usual_limit_khz(const std::vector<CpuCore>& cores) {
  std::map<int64_t, size_t> limits;
  for (const CpuCore& core : cores)
    if (core.limit_khz) ++limits[*core.limit_khz];
  for (const auto& [limit, count] : limits)
    if (count * 2 > cores.size()) return limit;
  return 0;
}

Outcome frequency_is_not_capped(const Facts& facts) {
  std::vector<Subject> capped;
  int told = 0;
  double missing = 0;
  const bool boosts = facts.cpu.boost.is("1");
  const int64_t usual = usual_limit_khz(facts.cpu.cores);
  for (const CpuCore& core : facts.cpu.cores) {
    if (!core.limit_khz || !core.max_khz) continue;
    ++told;
    const int64_t full = uncapped_khz(core, boosts, usual);
    if (*core.limit_khz >= full * 95 / 100) continue;
    capped.push_back({format("cpu{}", core.cpu), format("{} of {} kHz", *core.limit_khz, full)});
    missing += 1 - static_cast<double>(*core.limit_khz) / static_cast<double>(full);
  }
  if (told == 0) return not_applicable("the CPU's frequency is not ours to set (no cpufreq)");
  Outcome outcome = bad_if_any(
      std::move(capped), "the clock is limited below what the CPU can do", "no CPU's clock is limited");
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.4 * missing / told) : outcome;
}

// CPUs that are there and switched off, beyond the siblings that switching SMT off takes away.
Outcome cpus_are_online(const Facts& facts) {
  return when_known(
      [&](const std::vector<int>& present, const std::vector<int>& online) {
        std::vector<int> missing;
        std::set_difference(
            present.begin(), present.end(), online.begin(), online.end(), std::back_inserter(missing));
        if (missing.empty()) return good(format("all {} CPUs are online", online.size()));
        const bool no_smt =
            facts.cpu.smt_active.is("0") || contains(facts.cpu.smt_control.value_or(""), "off");
        if (no_smt && missing.size() == online.size())
          return good(format("{} CPUs are online, their siblings off", online.size()));
        const double share = static_cast<double>(missing.size()) / static_cast<double>(present.size());
        return with_risk(
            bad(format("{} of {} CPUs are offline: {}", missing.size(), present.size(), to_list(missing)),
                {{to_list(missing), "offline"}}),
            0.3 * share);
      },
      facts.cpu.present, facts.cpu.online);
}

constexpr Check kChecks[] = {
    {"HST-54", Layer::kHost, Level::kWarn, 0.05, "All CPUs are online",
        "CPUs that were switched off, by hand or by an error, are missing to loaders and launches.",
        "in proportion to the missing CPUs", FixKind::kAdvice,
        "switch them on (echo 1 > /sys/devices/system/cpu/cpuN/online); look for machine checks in the log",
        "", "F01", cpus_are_online},
    {"HST-08", Layer::kHost, Level::kWarn, 0.10, "CPUs run at full clock",
        "A power-saving governor lowers the clock of a core that waits for the GPU, just when it must launch "
        "the next kernel.",
        "5-20 % on launch-bound and preprocessing-bound work", FixKind::kCommand,
        "set the performance governor, or tuned's throughput-performance profile", "", "F01",
        governor_is_performance},
    {"HST-09", Layer::kHost, Level::kWarn, 0.03, "CPUs wake up fast",
        "Leaving a deep idle state takes tens to hundreds of microseconds, paid on each wake-up of a waiting "
        "thread.",
        "adds its latency to every token of a lightly loaded server", FixKind::kCommand,
        "disable the idle states that take longer than 10 us to leave", "", "F01", idle_states_are_shallow},
    {"HST-10", Layer::kHost, Level::kInfo, 0, "Hardware threads",
        "Two threads on a core share its execution units: loaders may gain, compute-bound threads lose.",
        "either way, by up to 20 %: measure", FixKind::kAdvice, "compare a run with smt/control set to off",
        "", "I03", smt_is_off},
    {"HST-11", Layer::kHost, Level::kFail, 0.20, "Isolation leaves CPUs for the system",
        "isolcpus takes the listed CPUs away from the scheduler; if it lists them all, everything shares what "
        "is left.",
        "all unpinned threads on one core", FixKind::kBoot,
        "list only the worker CPUs in isolcpus=, or use a cpuset partition", "", "F11",
        isolation_leaves_cpus},
    {"HST-20", Layer::kHost, Level::kFail, 0.20, "The CPU is not throttled by heat",
        "A package that is too hot drops its clock for all cores at once.", "10-50 % of CPU speed while hot",
        FixKind::kFirmware, "check fans, dust, heat sinks and the BMC's power settings", "", "F01,C08",
        cpu_is_not_throttled},
    {"HST-27", Layer::kHost, Level::kWarn, 0.15, "The host can feed its GPUs",
        "Loading, tokenizing, sampling and launching need cores; staging and caches need memory.",
        "GPUs wait for the host", FixKind::kAdvice,
        "use a node with at least 4 cores and 1x (better 2x) its memory for each GPU, or give GPUs back", "",
        "C04", host_feeds_its_gpus},
    {"HST-30", Layer::kHost, Level::kWarn, 0.15, "CPUs may boost",
        "Without boost the few threads that feed a GPU run at the base clock.",
        "20-40 % of single-thread speed", FixKind::kCommand, "let the CPU boost", "", "F01", boost_is_on},
    {"HST-31", Layer::kHost, Level::kWarn, 0.15, "The CPU's clock is not limited",
        "A limit left from a test or a power policy holds every core down.",
        "in proportion to the missing clock", FixKind::kCommand,
        "raise scaling_max_freq to the CPU's own limit", "", "F01", frequency_is_not_capped},
};

}  // namespace

std::span<const Check> host_checks() { return kChecks; }

}  // namespace cheetah::doctor

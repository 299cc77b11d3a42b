// HST: processor, memory and NUMA of the host.
#include <algorithm>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kSlowWakeUs = 10;  // an idle state that takes longer to leave costs latency
constexpr int64_t kMostSwappiness = 10;
constexpr double kLeastCoresPerGpu = 8;  // physical: loaders, tokenizers, one launch thread
constexpr double kLeastAvailableShare = 0.10;
constexpr double kMostCompactionsPerSecond = 1;

bool has_swap(const Facts& facts) { return facts.memory.swaps && !facts.memory.swaps->empty(); }

Outcome swap_is_unused(const Facts& facts) {
  return given(
      [](const std::vector<SwapArea>& areas) {
        std::vector<Subject> used;
        for (const SwapArea& area : areas)
          if (area.used > 0)
            used.push_back({area.name, human_bytes(static_cast<double>(area.used)) + " used"});
        if (areas.empty()) return good("there is no swap area");
        return bad_if_any(std::move(used), "memory has been swapped out", "swap exists and is empty");
      },
      facts.memory.swaps);
}

Outcome swappiness_is_low(const Facts& facts) {
  return given(
      [&](int64_t swappiness) {
        if (!has_swap(facts))
          return note(format("swappiness is {}, without effect: there is no swap", swappiness));
        if (swappiness <= kMostSwappiness) return good(format("swappiness is {}", swappiness));
        return bad(format("swappiness is {}: the kernel swaps memory of idle workers early", swappiness),
                   {{"vm.swappiness", format("{}", swappiness)}});
      },
      facts.memory.swappiness);
}

Outcome nothing_is_swapped_now(const Facts& facts) {
  return given(
      [](double in, double out) {
        return judge(in + out == 0, format("{} pages were swapped while we looked", in + out));
      },
      facts.counters.delta("vmstat.pswpin"), facts.counters.delta("vmstat.pswpout"));
}

Outcome huge_pages_on(const Facts& facts) {
  return given(
      [&](const std::string& mode) {
        if (facts.trains() ? mode != "never" : mode == "madvise" || mode == "never")
          return good(format("transparent huge pages are '{}'", mode));
        if (!facts.trains() && mode == "always")
          return note(
              "transparent huge pages are 'always': good for throughput; latency-bound serving prefers "
              "madvise");
        return bad(format("transparent huge pages are '{}'", mode), {{"enabled", mode}});
      },
      facts.memory.thp_enabled);
}

Outcome defrag_does_not_stall(const Facts& facts) {
  return given(
      [&](const std::string& mode) {
        if (mode != "always" || facts.trains()) return good(format("defragmentation is '{}'", mode));
        return bad("defragmentation is 'always': a page fault may wait for memory to be moved",
                   {{"defrag", mode}});
      },
      facts.memory.thp_defrag);
}

Outcome memory_is_not_compacting(const Facts& facts) {
  return given(
      [&](double stalls, double fallbacks) {
        const double rate = (stalls + fallbacks) / std::max(facts.counters.interval_s, 1e-3);
        return judge(rate < kMostCompactionsPerSecond,
                     format("{:.1f} compaction stalls and failed huge pages a second", rate));
      },
      facts.counters.delta("vmstat.compact_stall"), facts.counters.delta("vmstat.thp_fault_fallback"));
}

Outcome huge_page_pool_is_even(const Facts& facts) {
  if (!facts.cpu.nodes) return without(facts.cpu.nodes);
  std::vector<Subject> empty;
  int64_t total = 0;
  for (const NumaNode& node : *facts.cpu.nodes) {
    const int64_t pages = node.huge_pages_total.value_or(0);
    total += pages;
    if (pages > 0 && node.huge_pages_free.value_or(0) == 0)
      empty.push_back({format("node{}", node.node), format("0 of {} free", pages)});
    if (pages == 0 && !node.cpus.empty()) empty.push_back({format("node{}", node.node), "no pages"});
  }
  if (total == 0) return not_applicable("no huge pages are reserved");
  return bad_if_any(std::move(empty), "a NUMA node has no free reserved huge page",
                    format("{} huge pages are reserved", total));
}

Outcome governor_is_performance(const Facts& facts) {
  std::vector<Subject> slow;
  std::string where, modes;
  for (const CpuCore& core : facts.cpu.cores) {
    if (!core.governor) continue;
    where = core.governor.source();
    modes = *core.governor;
    // With intel_pstate and amd-pstate in active mode "powersave" is a name; the preference decides.
    const bool fast = *core.governor == "performance" || core.preference.is("performance");
    if (!fast) slow.push_back({format("cpu{}", core.cpu), *core.governor});
  }
  if (where.empty())
    return not_applicable("the CPU's frequency is not ours to set (no cpufreq), as in most virtual machines");
  Outcome outcome =
      bad_if_any(std::move(slow), "these CPUs save power", "every CPU runs the performance governor");
  outcome.evidence.push_back({where, modes});
  return outcome;
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
  if (facts.host.is_virtual.value_or(false))
    return note("idle states of a virtual machine: the host decides");
  return bad_if_any(std::move(deep), "CPUs may sleep deeply", "no CPU sleeps deeper than 10 us");
}

Outcome smt_is_off(const Facts& facts) {
  return given(
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

Outcome numa_balancing_is_off(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  return given(
      [](int64_t balancing) {
        if (balancing == 0) return good("the kernel does not move pages between nodes");
        return bad("automatic NUMA balancing is on: pages of bound processes are unmapped and moved",
                   {{"kernel.numa_balancing", format("{}", balancing)}});
      },
      facts.memory.numa_balancing);
}

Outcome zone_reclaim_is_off(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  return given(
      [](int64_t mode) {
        if (mode == 0) return good("memory of other nodes is used before caches are dropped");
        return bad("zone reclaim is on: a full node drops its page cache instead of using the next node",
                   {{"vm.zone_reclaim_mode", format("{}", mode)}});
      },
      facts.memory.zone_reclaim);
}

Outcome writeback_starts_early(const Facts& facts) {
  return given(
      [&](int64_t limit, int64_t background) {
        const bool by_bytes = facts.memory.dirty_bytes.value_or(0) > 0;
        const int64_t top = by_bytes ? *facts.memory.dirty_bytes : limit;
        const int64_t start = facts.memory.dirty_background_bytes.value_or(0) > 0
                                  ? *facts.memory.dirty_background_bytes
                                  : background;
        const bool comparable = by_bytes == (facts.memory.dirty_background_bytes.value_or(0) > 0);
        if (!comparable || start < top)
          return good(
              format("writing back begins at {} and blocks at {}{}", start, top, by_bytes ? " bytes" : " %"));
        return bad("writing back begins only when writers already block",
                   {{"vm.dirty_background_ratio", format("{}", background)}});
      },
      facts.memory.dirty_ratio, facts.memory.dirty_background_ratio);
}

Outcome cpu_is_not_throttled(const Facts& facts) {
  return given(
      [&](double total) {
        const auto now = facts.counters.delta("cpu.throttled");
        if (now.value_or(0) > 0) return bad(format("the CPU was throttled {} times while we looked", *now));
        return total > 0 ? note(format("the CPU was throttled {:.0f} times since boot, not now", total))
                         : good("the CPU was never throttled");
      },
      facts.counters.total("cpu.throttled"));
}

Outcome memory_has_no_errors(const Facts& facts) {
  if (facts.memory.controllers.empty())
    return not_applicable("the kernel watches no memory controller (no EDAC)");
  std::vector<Subject> broken;
  int64_t corrected = 0;
  for (const MemoryController& controller : facts.memory.controllers) {
    if (controller.uncorrected.is_unreadable()) return without(controller.uncorrected);
    corrected += controller.corrected.value_or(0);
    if (controller.uncorrected.value_or(0) > 0)
      broken.push_back({controller.name, format("{} uncorrected", *controller.uncorrected)});
  }
  return bad_if_any(std::move(broken), "memory returned wrong bits that could not be corrected",
                    format("no uncorrected memory error ({} corrected)", corrected));
}

Outcome memory_is_left(const Facts& facts) {
  return given(
      [&](double total, double available) {
        const double killed = facts.counters.total("vmstat.oom_kill").value_or(0);
        const double share = total > 0 ? available / total : 1;
        if (facts.counters.delta("vmstat.oom_kill").value_or(0) > 0)
          return bad("the kernel killed a process for memory while we looked");
        if (share < kLeastAvailableShare)
          return bad(format("only {:.0f} % of memory is available", 100 * share));
        if (killed > 0)
          return note(format("the kernel killed {:.0f} processes for memory since boot", killed));
        return good(format("{:.0f} % of memory is available", 100 * share));
      },
      facts.memory.bytes("MemTotal"), facts.memory.bytes("MemAvailable"));
}

Outcome host_feeds_its_gpus(const Facts& facts) {
  if (!facts.has_gpu()) return not_applicable("there is no GPU");
  return given(
      [&](int64_t cores, double memory) {
        const double gpus = std::max<double>(facts.gpu.count(), static_cast<double>(facts.pci.gpus().size()));
        double gpu_bytes = 0;
        for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
          gpu_bytes += gpu.number("memory.total").value_or(0);
        const std::string found =
            format("{:.1f} physical cores a GPU, {} of memory for {} of GPU memory",
                   static_cast<double>(cores) / gpus, human_bytes(memory), human_bytes(gpu_bytes));
        return judge(static_cast<double>(cores) / gpus >= kLeastCoresPerGpu &&
                         memory >= (facts.trains() ? 1.0 : 0.75) * gpu_bytes,
                     found);
      },
      facts.cpu.physical_cores, facts.memory.bytes("MemTotal"));
}

Outcome boost_is_on(const Facts& facts) {
  return given(
      [](const std::string& boost) {
        return boost == "0" ? bad("the CPU may not boost its clock", {{"boost", boost}})
                            : good("the CPU may boost its clock");
      },
      facts.cpu.boost);
}

Outcome frequency_is_not_capped(const Facts& facts) {
  std::vector<Subject> capped;
  bool any = false;
  for (const CpuCore& core : facts.cpu.cores) {
    if (!core.limit_khz || !core.max_khz) continue;
    any = true;
    if (*core.limit_khz < *core.max_khz * 95 / 100)
      capped.push_back({format("cpu{}", core.cpu), format("{} of {} kHz", *core.limit_khz, *core.max_khz)});
  }
  if (!any) return not_applicable("the CPU's frequency is not ours to set (no cpufreq)");
  return bad_if_any(std::move(capped), "the clock is limited below what the CPU can do",
                    "no CPU's clock is limited");
}

Outcome memory_is_even(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  int64_t least = INT64_MAX, most = 0;
  std::vector<Subject> bare;
  for (const NumaNode& node : *facts.cpu.nodes) {
    if (node.cpus.empty()) continue;
    least = std::min(least, node.memory_bytes);
    most = std::max(most, node.memory_bytes);
  }
  if (most == 0) return unknown("the nodes do not tell their memory");
  for (const NumaNode& node : *facts.cpu.nodes)
    if (!node.cpus.empty() && node.memory_bytes < most * 8 / 10)
      bare.push_back({format("node{}", node.node), human_bytes(static_cast<double>(node.memory_bytes))});
  return bad_if_any(
      std::move(bare),
      format("nodes have less memory than the largest ({})", human_bytes(static_cast<double>(most))),
      format("every node has {}", human_bytes(static_cast<double>(least))));
}

Outcome ksm_is_off(const Facts& facts) {
  return given(
      [](int64_t run) {
        return run == 1 ? bad("the kernel scans memory for equal pages to merge", {{"run", "1"}})
                        : good("same-page merging is off");
      },
      facts.memory.ksm);
}

constexpr Check kChecks[] = {
    {"HST-01", Layer::kHost, Level::kFail, 0.30, "No memory is swapped out",
     "A page that was swapped out costs a disk read on the next touch, a thousand times a memory access, and "
     "stalls every rank that waits for this one.",
     "stalls of milliseconds a page; the whole job waits", FixKind::kCommand, "swapoff -a", "swapon -a",
     "F02", swap_is_unused},
    {"HST-02", Layer::kHost, Level::kWarn, 0.05, "Swapping is a last resort",
     "With swap present a high swappiness trades idle memory of workers for page cache.",
     "first steps after a pause run at disk speed", FixKind::kCommand, "sysctl -w vm.swappiness=1",
     "sysctl -w vm.swappiness={was}", "F02", swappiness_is_low},
    {"HST-03", Layer::kHost, Level::kFail, 0.40, "Nothing is swapped right now",
     "Pages moving to and from disk mean that the working set does not fit.",
     "2x to 100x slower until it stops", FixKind::kAdvice,
     "lower the memory use (batch, workers, caches) or add memory; then swapoff -a", "", "F02",
     nothing_is_swapped_now},
    {"HST-04", Layer::kHost, Level::kWarn, 0.05, "Huge pages are available",
     "With 4 KiB pages a large weight or KV buffer needs millions of translations; the TLB holds a few "
     "thousand.",
     "up to 10-20 % of CPU-side memory throughput", FixKind::kCommand,
     "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
     "echo {was} > /sys/kernel/mm/transparent_hugepage/enabled", "F07", huge_pages_on},
    {"HST-05", Layer::kHost, Level::kWarn, 0.04, "A page fault does not wait for compaction",
     "Direct compaction stops the faulting thread while memory is moved: a latency spike of milliseconds.",
     "p99 latency spikes under memory pressure", FixKind::kCommand,
     "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
     "echo {was} > /sys/kernel/mm/transparent_hugepage/defrag", "F07", defrag_does_not_stall},
    {"HST-06", Layer::kHost, Level::kWarn, 0.05, "Memory is not being compacted",
     "Stalls and failed huge pages say that free memory is in small pieces.", "latency spikes while it lasts",
     FixKind::kAdvice, "reserve huge pages at boot, or restart the largest process after warm-up", "", "F07",
     memory_is_not_compacting},
    {"HST-07", Layer::kHost, Level::kWarn, 0.03, "Reserved huge pages are there on every node",
     "A pool that is empty on one node sends its allocations to the other, or fails them.",
     "remote memory or failed start", FixKind::kCommand,
     "echo 1024 > /sys/devices/system/node/{it}/hugepages/hugepages-2048kB/nr_hugepages",
     "echo 0 > /sys/devices/system/node/{it}/hugepages/hugepages-2048kB/nr_hugepages", "F07",
     huge_page_pool_is_even},
    {"HST-08", Layer::kHost, Level::kWarn, 0.10, "CPUs run at full clock",
     "A power-saving governor lowers the clock of a core that waits for the GPU, just when it must launch "
     "the next kernel.",
     "5-20 % on launch-bound and preprocessing-bound work", FixKind::kCommand,
     "echo performance > /sys/devices/system/cpu/{it}/cpufreq/scaling_governor",
     "echo {was} > /sys/devices/system/cpu/{it}/cpufreq/scaling_governor", "F01", governor_is_performance},
    {"HST-09", Layer::kHost, Level::kWarn, 0.03, "CPUs wake up fast",
     "Leaving a deep idle state takes tens to hundreds of microseconds, paid on each wake-up of a waiting "
     "thread.",
     "adds its latency to every token of a lightly loaded server", FixKind::kCommand,
     "echo 1 > /sys/devices/system/cpu/{it}/disable", "echo 0 > /sys/devices/system/cpu/{it}/disable", "F01",
     idle_states_are_shallow},
    {"HST-10", Layer::kHost, Level::kInfo, 0, "Hardware threads",
     "Two threads on a core share its execution units: loaders may gain, compute-bound threads lose.",
     "either way, by up to 20 %: measure", FixKind::kAdvice, "compare a run with smt/control set to off", "",
     "I03", smt_is_off},
    {"HST-11", Layer::kHost, Level::kFail, 0.20, "Isolation leaves CPUs for the system",
     "isolcpus takes the listed CPUs away from the scheduler; if it lists them all, everything shares what "
     "is left.",
     "all unpinned threads on one core", FixKind::kBoot,
     "list only the worker CPUs in isolcpus=, or use a cpuset partition", "", "F11", isolation_leaves_cpus},
    {"HST-12", Layer::kHost, Level::kWarn, 0.04, "The kernel does not move pages of bound jobs",
     "Automatic NUMA balancing unmaps pages to see who touches them; on bound processes that is cost without "
     "gain.",
     "1-5 %, with latency spikes", FixKind::kCommand, "sysctl -w kernel.numa_balancing=0",
     "sysctl -w kernel.numa_balancing={was}", "F05", numa_balancing_is_off},
    {"HST-16", Layer::kHost, Level::kWarn, 0.03, "Write-back starts before writers block",
     "A checkpoint fills the page cache; if flushing begins at the limit, the writer and everybody else "
     "blocks.",
     "training stalls for the length of a checkpoint", FixKind::kCommand,
     "sysctl -w vm.dirty_background_ratio=5", "sysctl -w vm.dirty_background_ratio={was}", "H11",
     writeback_starts_early},
    {"HST-20", Layer::kHost, Level::kFail, 0.20, "The CPU is not throttled by heat",
     "A package that is too hot drops its clock for all cores at once.", "10-50 % of CPU speed while hot",
     FixKind::kFirmware, "check fans, dust, heat sinks and the BMC's power settings", "", "F01,C08",
     cpu_is_not_throttled},
    {"HST-21", Layer::kHost, Level::kFail, 0.25, "Host memory has no uncorrected errors",
     "An uncorrected error has already destroyed data or killed a process; more follow.",
     "crashes, and results that cannot be trusted", FixKind::kFirmware,
     "drain the node and replace the memory module", "", "J10", memory_has_no_errors},
    {"HST-22", Layer::kHost, Level::kWarn, 0.15, "Memory is left",
     "Below a tenth of memory the kernel reclaims caches on every allocation, and the OOM killer is near.",
     "reclaim stalls; a killed worker ends the job", FixKind::kAdvice,
     "lower workers, caches or batch, or add memory", "", "J08", memory_is_left},
    {"HST-27", Layer::kHost, Level::kWarn, 0.15, "The host can feed its GPUs",
     "Loading, tokenizing, sampling and launching need cores; staging and caches need memory.",
     "GPUs wait for the host", FixKind::kAdvice,
     "use a node with at least 8 cores and 1x (better 2x) its memory for each GPU, or give GPUs back", "",
     "C04", host_feeds_its_gpus},
    {"HST-30", Layer::kHost, Level::kWarn, 0.15, "CPUs may boost",
     "Without boost the few threads that feed a GPU run at the base clock.", "20-40 % of single-thread speed",
     FixKind::kCommand,
     "echo 1 > /sys/devices/system/cpu/cpufreq/boost || echo 0 > "
     "/sys/devices/system/cpu/intel_pstate/no_turbo",
     "echo 0 > /sys/devices/system/cpu/cpufreq/boost || echo 1 > "
     "/sys/devices/system/cpu/intel_pstate/no_turbo",
     "F01", boost_is_on},
    {"HST-31", Layer::kHost, Level::kWarn, 0.15, "The CPU's clock is not limited",
     "A limit left from a test or a power policy holds every core down.",
     "in proportion to the missing clock", FixKind::kCommand,
     "cat /sys/devices/system/cpu/{it}/cpufreq/cpuinfo_max_freq > "
     "/sys/devices/system/cpu/{it}/cpufreq/scaling_max_freq",
     "", "F01", frequency_is_not_capped},
    {"HST-32", Layer::kHost, Level::kWarn, 0.10, "Every NUMA node has its memory",
     "A node with less memory than the others lost a module or a channel: its bandwidth is lower and its "
     "jobs go remote.",
     "bandwidth of the node in proportion", FixKind::kFirmware,
     "look for a missing or disabled memory module in the BMC's log", "", "C06", memory_is_even},
    {"HST-33", Layer::kHost, Level::kWarn, 0.03, "A full node uses its neighbour",
     "Zone reclaim drops the page cache of a node although other nodes have free memory.",
     "data read from disk again", FixKind::kCommand, "sysctl -w vm.zone_reclaim_mode=0",
     "sysctl -w vm.zone_reclaim_mode={was}", "F05", zone_reclaim_is_off},
    {"HST-34", Layer::kHost, Level::kWarn, 0.02, "No same-page merging",
     "ksmd reads and compares all of memory, for virtual machines' sake.", "a core and memory bandwidth",
     FixKind::kCommand, "echo 0 > /sys/kernel/mm/ksm/run", "echo 1 > /sys/kernel/mm/ksm/run", "F01",
     ksm_is_off},
};

}  // namespace

std::span<const Check> host_checks() { return kChecks; }

}  // namespace cheetah::doctor

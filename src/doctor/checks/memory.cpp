// SPDX-License-Identifier: MIT
// HST: memory and NUMA nodes of the host.
#include <algorithm>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kLittleSwap = 256.0 * 1048576;  // of pages nobody asked for again
constexpr int64_t kMostSwappiness = 10;
constexpr double kLeastAvailableShare = 0.10;
constexpr double kMostCompactionsPerSecond = 1;

bool has_swap(const Facts& facts) { return facts.memory.swaps && !facts.memory.swaps->empty(); }

Outcome swap_is_unused(const Facts& facts) {
  return when_known(
      [&](const std::vector<SwapArea>& areas) {
        std::vector<Subject> used;
        double bytes = 0;
        for (const SwapArea& area : areas) {
          bytes += static_cast<double>(area.used);
          if (area.used > 0)
            used.push_back({area.name, human_bytes(static_cast<double>(area.used)) + " used"});
        }
        if (areas.empty()) return good("there is no swap area");
        if (bytes > 0 && bytes < kLittleSwap)
          return note(format("{} were swapped out once: too little to matter", human_bytes(bytes)));
        Outcome outcome =
            bad_if_any(std::move(used), "memory has been swapped out", "swap exists and is empty");
        const double share = bytes / std::max(facts.memory.bytes("MemTotal").value_or(0), 1.0);
        if (outcome.verdict != Verdict::kBad) return outcome;
        return with_risk(std::move(outcome), share > 1 ? 0.4 : 0.05 + 3.5 * std::min(share, 0.1));
      },
      facts.memory.swaps);
}

Outcome swappiness_is_low(const Facts& facts) {
  return when_known(
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
  return when_known(
      [](double in, double out) {
        return judge(in + out == 0, format("{} pages were swapped while we looked", in + out));
      },
      facts.counters.delta("vmstat.pswpin"), facts.counters.delta("vmstat.pswpout"));
}

Outcome huge_pages_on(const Facts& facts) {
  return when_known(
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
  return when_known(
      [&](const std::string& mode) {
        if (mode != "always" || facts.trains()) return good(format("defragmentation is '{}'", mode));
        return bad(
            "defragmentation is 'always': a page fault may wait for memory to be moved", {{"defrag", mode}});
      },
      facts.memory.thp_defrag);
}

Outcome memory_is_not_compacting(const Facts& facts) {
  return when_known(
      [&](double stalls, double fallbacks) {
        const double rate = (stalls + fallbacks) / std::max(facts.counters.interval_s, 1e-3);
        return judge(rate < kMostCompactionsPerSecond,
            format("{:.1f} compaction stalls and failed huge pages per second", rate));
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

Outcome numa_balancing_is_off(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  return when_known(
      [](int64_t balancing) {
        if (balancing == 0) return good("the kernel does not move pages between nodes");
        return bad("automatic NUMA balancing is on: pages of bound processes are unmapped and moved",
            {{"kernel.numa_balancing", format("{}", balancing)}});
      },
      facts.memory.numa_balancing);
}

Outcome zone_reclaim_is_off(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  return when_known(
      [](int64_t mode) {
        if (mode == 0) return good("memory of other nodes is used before caches are dropped");
        return bad("zone reclaim is on: a full node drops its page cache instead of using the next node",
            {{"vm.zone_reclaim_mode", format("{}", mode)}});
      },
      facts.memory.zone_reclaim);
}

Outcome writeback_starts_early(const Facts& facts) {
  return when_known(
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
  return when_known(
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

// A lost module is a few percent of a node; what firmware and crash kernels keep is a few gigabytes at most.
Outcome memory_is_even(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  if (facts.machine.is_virtual)
    return not_applicable("in a virtual machine the hypervisor divides the memory");
  int64_t least = INT64_MAX, most = 0;
  for (const NumaNode& node : *facts.cpu.nodes) {
    if (node.cpus.empty()) continue;
    least = std::min(least, node.memory_bytes);
    most = std::max(most, node.memory_bytes);
  }
  if (most == 0) return unknown("the nodes do not tell their memory");
  const int64_t slack = std::max<int64_t>(most * 35 / 1000, int64_t{6} << 30);
  std::vector<Subject> bare;
  for (const NumaNode& node : *facts.cpu.nodes)
    if (!node.cpus.empty() && node.memory_bytes < most - slack)
      bare.push_back({format("node{}", node.node), human_bytes(static_cast<double>(node.memory_bytes))});
  const double missing = 1 - static_cast<double>(least) / static_cast<double>(most);
  Outcome outcome = bad_if_any(std::move(bare),
      format("nodes have less memory than the largest ({})", human_bytes(static_cast<double>(most))),
      format("the nodes have {} to {}", human_bytes(static_cast<double>(least)),
          human_bytes(static_cast<double>(most))));
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.5 * missing) : outcome;
}

Outcome ksm_is_off(const Facts& facts) {
  return when_known(
      [](int64_t run) {
        return run == 1 ? bad("the kernel scans memory for equal pages to merge", {{"run", "1"}})
                        : good("same-page merging is off");
      },
      facts.memory.ksm);
}

// Strict accounting refuses what would never be touched: frameworks and CUDA reserve far more than they use.
Outcome memory_may_be_reserved(const Facts& facts) {
  return when_known(
      [&](int64_t mode) {
        if (mode != 2) return good(format("vm.overcommit_memory is {}", mode));
        const double limit = facts.memory.bytes("CommitLimit").value_or(0);
        return bad(format("only {} may be reserved in all: large reservations fail with memory free",
                       human_bytes(limit)),
            {{"vm.overcommit_memory", "2"}});
      },
      facts.memory.overcommit);
}

Outcome memory_corrects_little(const Facts& facts) {
  std::vector<Subject> noisy;
  int told = 0;
  const double most = 1000 + 24 * facts.host.uptime_s / 86400;  // a healthy module has a few a day at most
  for (const MemoryController& controller : facts.memory.controllers) {
    if (!controller.corrected) continue;
    ++told;
    if (static_cast<double>(*controller.corrected) > most)
      noisy.push_back({controller.name, format("{} corrected", *controller.corrected)});
  }
  if (told == 0) return not_applicable("the kernel counts no corrected memory errors (no EDAC)");
  return bad_if_any(std::move(noisy), "memory errors are corrected by the thousand",
      format("{} memory controllers correct little", told));
}

// Controllers of one machine hold the same modules: one with less has lost one.
Outcome modules_are_all_there(const Facts& facts) {
  std::vector<Subject> less;
  int64_t most = 0;
  int told = 0;
  for (const MemoryController& controller : facts.memory.controllers) {
    if (!controller.size_mb || *controller.size_mb <= 0) continue;
    ++told;
    most = std::max(most, *controller.size_mb);
  }
  if (told < 2)
    return not_applicable("the kernel does not tell the size of two memory controllers (no EDAC)");
  for (const MemoryController& controller : facts.memory.controllers)
    if (controller.size_mb && *controller.size_mb > 0 && *controller.size_mb < most)
      less.push_back({controller.name, format("{} of {} MiB", *controller.size_mb, most)});
  // Not every slot need be filled; a lost module makes one controller differ, a plan makes several.
  if (less.size() > 1) return note("the memory controllers hold different amounts");
  return bad_if_any(std::move(less), "memory controllers hold less than the others: a module is missing",
      format("{} memory controllers hold {} MiB each", told, most));
}

constexpr Check kChecks[] = {
    {"HST-51", Layer::kHost, Level::kWarn, 0.10, "Memory may be reserved",
        "CUDA, allocators and loaders reserve address space far beyond what they touch.",
        "out-of-memory errors with memory free", FixKind::kCommand, "set vm.overcommit_memory to 0", "",
        "F03", memory_may_be_reserved},
    {"HST-52", Layer::kHost, Level::kWarn, 0.08, "Memory corrects little",
        "A module that corrects by the thousand takes time for each, and fails for good before long.",
        "stalls of the memory channel; a crash later", FixKind::kFirmware,
        "find the module in the BMC's log and replace it", "", "J10", memory_corrects_little},
    {"HST-53", Layer::kHost, Level::kWarn, 0.08, "No memory module is missing",
        "A controller with a module less has a channel less, and the machine its bandwidth.",
        "memory bandwidth in proportion", FixKind::kFirmware,
        "look for a missing or disabled memory module in the BMC's log", "", "C06", modules_are_all_there},
    {"HST-01", Layer::kHost, Level::kFail, 0.30, "No memory is swapped out",
        "A page that was swapped out costs a disk read on the next touch, a thousand times a memory access, and "
        "stalls every rank that waits for this one.",
        "stalls of milliseconds a page; the whole job waits", FixKind::kCommand,
        "turn swap off when memory has room for what is swapped out", "", "F02", swap_is_unused},
    {"HST-02", Layer::kHost, Level::kWarn, 0.05, "Swapping is a last resort",
        "With swap present a high swappiness trades idle memory of workers for page cache.",
        "first steps after a pause run at disk speed", FixKind::kCommand, "set vm.swappiness to 1", "", "F02",
        swappiness_is_low},
    {"HST-03", Layer::kHost, Level::kFail, 0.40, "Nothing is swapped right now",
        "Pages moving to and from disk mean that the working set does not fit.",
        "2x to 100x slower until it stops", FixKind::kAdvice,
        "lower the memory use (batch, workers, caches) or add memory; then swapoff -a", "", "F02",
        nothing_is_swapped_now},
    {"HST-04", Layer::kHost, Level::kWarn, 0.05, "Huge pages are available",
        "With 4 KiB pages a large weight or KV buffer needs millions of translations; the TLB holds a few "
        "thousand.",
        "up to 10-20 % of CPU-side memory throughput", FixKind::kCommand,
        "set transparent huge pages to madvise", "", "F07", huge_pages_on},
    {"HST-05", Layer::kHost, Level::kWarn, 0.04, "A page fault does not wait for compaction",
        "Direct compaction stops the faulting thread while memory is moved: a latency spike of milliseconds.",
        "p99 latency spikes under memory pressure", FixKind::kCommand, "set their defragmentation to madvise",
        "", "F07", defrag_does_not_stall},
    {"HST-06", Layer::kHost, Level::kWarn, 0.05, "Memory is not being compacted",
        "Stalls and failed huge pages say that free memory is in small pieces.",
        "latency spikes while it lasts", FixKind::kAdvice,
        "reserve huge pages at boot, or restart the largest process after warm-up", "", "F07",
        memory_is_not_compacting},
    {"HST-07", Layer::kHost, Level::kWarn, 0.03, "Reserved huge pages are there on every node",
        "A pool that is empty on one node sends its allocations to the other, or fails them.",
        "remote memory or failed start", FixKind::kCommand,
        "reserve as many pages on each node as on the fullest one", "", "F07", huge_page_pool_is_even},
    {"HST-12", Layer::kHost, Level::kWarn, 0.04, "The kernel does not move pages of bound jobs",
        "Automatic NUMA balancing unmaps pages to see who touches them; on bound processes that is cost without "
        "gain.",
        "1-5 %, with latency spikes", FixKind::kCommand, "set kernel.numa_balancing to 0", "", "F05",
        numa_balancing_is_off},
    {"HST-16", Layer::kHost, Level::kWarn, 0.03, "Write-back starts before writers block",
        "A checkpoint fills the page cache; if flushing begins at the limit, the writer and everybody else "
        "blocks.",
        "training stalls for the length of a checkpoint", FixKind::kCommand,
        "set vm.dirty_background_ratio to 5", "", "H11", writeback_starts_early},
    {"HST-21", Layer::kHost, Level::kFail, 0.25, "Host memory has no uncorrected errors",
        "An uncorrected error has already destroyed data or killed a process; more follow.",
        "crashes, and results that cannot be trusted", FixKind::kFirmware,
        "drain the node and replace the memory module", "", "J10", memory_has_no_errors},
    {"HST-22", Layer::kHost, Level::kWarn, 0.15, "Memory is left",
        "Below a tenth of memory the kernel reclaims caches on every allocation, and the OOM killer is near.",
        "reclaim stalls; a killed worker ends the job", FixKind::kAdvice,
        "lower workers, caches or batch, or add memory", "", "J08", memory_is_left},
    {"HST-32", Layer::kHost, Level::kWarn, 0.10, "Every NUMA node has its memory",
        "A node with less memory than the others lost a module or a channel: its bandwidth is lower and its "
        "jobs go remote.",
        "bandwidth of the node in proportion", FixKind::kFirmware,
        "look for a missing or disabled memory module in the BMC's log", "", "C06", memory_is_even},
    {"HST-33", Layer::kHost, Level::kWarn, 0.03, "A full node uses its neighbour",
        "Zone reclaim drops the page cache of a node although other nodes have free memory.",
        "data read from disk again", FixKind::kCommand, "set vm.zone_reclaim_mode to 0", "", "F05",
        zone_reclaim_is_off},
    {"HST-34", Layer::kHost, Level::kWarn, 0.02, "No same-page merging",
        "ksmd reads and compares all of memory, for virtual machines' sake.", "a core and memory bandwidth",
        FixKind::kCommand, "stop ksmd", "", "F01", ksm_is_off},
};

}  // namespace

std::span<const Check> memory_checks() { return kChecks; }

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
// Fixes of processor, memory, kernel and control group.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "doctor/fixes/fix.h"

namespace cheetah::doctor {
namespace {

const std::string kCpus = "sys/devices/system/cpu/";
const std::string kHuge = "sys/kernel/mm/transparent_hugepage/";
constexpr double kSwapReserve = 0.10;  // of memory that must stay free after swap is read back

void at_boot(FixBuilder& fix, std::string_view check, const std::string& lines) {
  fix.create(format("etc/tmpfiles.d/cheetah-{}.conf", check), lines);
}

// Brings swapped pages back only when memory has room for them.
void turn_swap_off(FixBuilder& fix) {
  const Facts& facts = fix.facts;
  const double total = facts.memory.bytes("MemTotal").value_or(0);
  const auto available = facts.memory.bytes("MemAvailable");
  double used = 0;
  for (const SwapArea& area : facts.memory.swaps.value_or({})) used += static_cast<double>(area.used);
  if (!available)
    return fix.refuse(
        "free memory could not be read: without it nobody knows whether the swapped pages fit back");
  if (used > *available - kSwapReserve * total)
    return fix.refuse(
        format("{} are swapped out and {} are available: turning swap off would make the kernel kill "
               "processes; first end or shrink what uses the memory, then run this again",
            human_bytes(used), human_bytes(*available)));
  for (const SwapArea& area : facts.memory.swaps.value_or({})) {
    if (area.used <= 0) continue;
    const std::string device = (area.name.empty() || area.name[0] == '/' ? "" : "/") + area.name;
    fix.run(When::kNow, {"swapoff", device}, {"swapon", device});
  }
  if (used <= 0)
    return fix.refuse(
        "the kernel lists no swap area in use: the pages come back when the job touches them, or when it is "
        "started again");
  fix.note(
      "it reads the swapped pages back, which takes minutes for many GiB; to keep swap off after a reboot, "
      "remove its line from /etc/fstab or mask its .swap unit");
}

void stop_group_swapping(FixBuilder& fix) {
  const auto& group = fix.facts.container;
  const double room = group.memory_max.value_or(0) - group.memory_current.value_or(0);
  if (!group.memory_max || !group.memory_current || room < group.swap_current.value_or(0))
    return fix.refuse(
        "the group has no room below memory.max for what it swapped: raise memory.max or use less "
        "memory first, else its processes are killed");
  for (const Subject& subject : fix.outcome.subjects) fix.write(subject.name + "/memory.swap.max", "0");
  fix.note(
      "to keep it: systemctl set-property UNIT MemorySwapMax=0, or the pod's swap behaviour in the kubelet");
}

void set_transparent(FixBuilder& fix, std::string_view check, const char* name) {
  fix.write(kHuge + name, "madvise");
  at_boot(fix, check, format("w /{}{} - - - - madvise", kHuge, name));
}
void set_huge_pages(FixBuilder& fix) { set_transparent(fix, "HST-04", "enabled"); }
void set_defrag(FixBuilder& fix) { set_transparent(fix, "HST-05", "defrag"); }
void set_measured_huge_pages(FixBuilder& fix) { set_transparent(fix, "MSR-26", "enabled"); }

// Gives the nodes without pages as many as the fullest node has; no pool is ever made smaller.
void even_the_pools(FixBuilder& fix) {
  constexpr double kPageBytes = 2097152;
  int64_t most = 0, missing = 0;
  const auto nodes = fix.facts.cpu.nodes.value_or({});
  for (const NumaNode& node : nodes) most = std::max(most, node.huge_pages_total.value_or(0));
  std::vector<int> small;
  for (const NumaNode& node : nodes)
    if (!node.cpus.empty() && node.huge_pages_total.value_or(0) < most) {
      small.push_back(node.node);
      missing += most - node.huge_pages_total.value_or(0);
    }
  if (small.empty())
    return fix.refuse(
        "every node has the same number of pages and they are in use: reserve more by hand for what "
        "the job needs, in nr_hugepages of each node");
  const double available = fix.facts.memory.bytes("MemAvailable").value_or(0);
  if (static_cast<double>(missing) * kPageBytes > available / 2)
    return fix.refuse(
        format("{} more would have to be reserved and {} are available: reserve huge pages at boot, "
               "before memory is in use",
            human_bytes(static_cast<double>(missing) * kPageBytes), human_bytes(available)));
  std::string lines;
  for (const int node : small) {
    const std::string path =
        format("sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages", node);
    fix.write(path, format("{}", most));
    lines += format("{}w /{} - - - - {}", lines.empty() ? "" : "\n", path, most);
  }
  at_boot(fix, "HST-07", lines);
}

void set_governor(FixBuilder& fix) {
  if (const auto& profile = fix.facts.settings.tuned_profile; profile && !profile->empty()) {
    fix.run(When::kLasting, {"tuned-adm", "profile", "throughput-performance"},
        {"tuned-adm", "profile", *profile});
    return fix.note(
        "tuned manages this machine and would overwrite the governor: its profile is changed instead");
  }
  for (const Subject& subject : fix.outcome.subjects)
    fix.write(kCpus + subject.name + "/cpufreq/scaling_governor", "performance");
  at_boot(fix, "HST-08", format("w /{}cpu*/cpufreq/scaling_governor - - - - performance", kCpus));
}

void disable_deep_idle(FixBuilder& fix) {
  std::set<std::string> states;
  for (const Subject& subject : fix.outcome.subjects) {
    fix.write(kCpus + subject.name + "/disable", "1");
    states.insert(subject.name.substr(subject.name.rfind('/') + 1));
  }
  std::string lines;
  for (const std::string& state : states)
    lines += format("{}w /{}cpu*/cpuidle/{}/disable - - - - 1", lines.empty() ? "" : "\n", kCpus, state);
  at_boot(fix, "HST-09", lines);
  fix.note(
      "cores that never sleep deeply draw more power and leave less boost to the others: measure both ways");
}

void let_boost(FixBuilder& fix) {
  const std::string intel = kCpus + "intel_pstate/no_turbo", other = kCpus + "cpufreq/boost";
  const bool is_intel = !fix.text_of(intel).empty();
  fix.write(is_intel ? intel : other, is_intel ? "0" : "1");
  at_boot(fix, "HST-30", format("w /{} - - - - {}", is_intel ? intel : other, is_intel ? 0 : 1));
}

void lift_frequency_cap(FixBuilder& fix) {
  std::set<std::string> highest;
  for (const Subject& subject : fix.outcome.subjects) {
    const std::string folder = kCpus + subject.name + "/cpufreq/";
    const std::string most = setting_in(fix.text_of(folder + "cpuinfo_max_freq"));
    if (most.empty()) continue;
    fix.write(folder + "scaling_max_freq", most);
    highest.insert(most);
  }
  if (highest.size() == 1)
    at_boot(fix, "HST-31", format("w /{}cpu*/cpufreq/scaling_max_freq - - - - {}", kCpus, *highest.begin()));
  fix.note("find what set it (tuned, cpupower.service, thermald): it would set it again");
}

void stop_merging(FixBuilder& fix) {
  fix.write("sys/kernel/mm/ksm/run", "0");
  at_boot(fix, "HST-34", "w /sys/kernel/mm/ksm/run - - - - 0");
  fix.note(
      "pages that are merged already stay merged; virtual machines that count on merging need the memory");
}

void place_interrupts(FixBuilder& fix) {
  for (const Subject& subject : fix.outcome.subjects) {
    const auto number = to_integer(subject.name);
    for (const PciDevice& device : fix.facts.pci.devices.value_or({}))
      if (number && device.local_cpus &&
          std::find(device.interrupts.begin(), device.interrupts.end(), static_cast<int>(*number)) !=
              device.interrupts.end())
        fix.write(format("proc/irq/{}/smp_affinity_list", *number), to_list(*device.local_cpus));
  }
  fix.note(
      "interrupt numbers change with each boot: for good, run the adapter vendor's affinity script at boot");
  if (fix.facts.host.runs("irqbalance")) fix.note("irqbalance runs and moves them again: see HST-15");
}

void stop_irqbalance(FixBuilder& fix) {
  fix.run(When::kNow, {"systemctl", "stop", "irqbalance"}, {"systemctl", "start", "irqbalance"});
  fix.run(When::kLasting, {"systemctl", "disable", "irqbalance"}, {"systemctl", "enable", "irqbalance"});
  fix.note("only with interrupts placed by hand (HST-14): without either they all stay on the first CPUs");
}

void spread_queues(FixBuilder& fix) {
  if (!fix.has_unit("irqbalance"))
    return fix.refuse(
        "irqbalance is not installed: install it, or spread the queues with the adapter vendor's affinity "
        "script (set_irq_affinity.sh)");
  fix.start("irqbalance");
}

// The ACS control register of a bridge, as it was read; nullopt when it was not.
std::optional<uint16_t> acs_control(std::string_view config) {
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(config[at + i])} << (8 * i);
    return value;
  };
  size_t offset = 0x100;
  for (int steps = 0; steps < 64 && offset >= 0x100 && offset + 8 <= config.size(); ++steps) {
    if ((word(offset) & 0xffff) == 13) return static_cast<uint16_t>(word(offset + 4) >> 16);
    offset = word(offset) >> 20;
  }
  return std::nullopt;
}

void stop_redirecting(FixBuilder& fix) {
  constexpr uint16_t kRedirects = 0x4 | 0x8 | 0x20;  // request, completion, egress control
  for (const PciDevice& device : fix.facts.pci.devices.value_or({}))
    if (device.driver == "vfio-pci")
      return fix.refuse(
          format("{} is handed to a virtual machine (vfio-pci): without ACS its guest could reach "
                 "other devices",
              device.address));
  std::string rules;
  for (const Subject& subject : fix.outcome.subjects) {
    const auto control = acs_control(fix.text_of("sys/bus/pci/devices/" + subject.name + "/config"));
    if (!control) {
      fix.note(format("the ACS register of {} was not read: it is left alone", printable(subject.name)));
      continue;
    }
    const std::string cleared = format("ECAP_ACS+0x6.w={:04x}", *control & ~kRedirects),
                      found = format("ECAP_ACS+0x6.w={:04x}", *control);
    fix.run(When::kNow, {"setpci", "-s", subject.name, cleared}, {"setpci", "-s", subject.name, found});
    rules +=
        format("{}ACTION==\"add\", SUBSYSTEM==\"pci\", KERNEL==\"{}\", RUN+=\"/usr/bin/setpci -s %k {}\"",
            rules.empty() ? "" : "\n", printable(subject.name), cleared);
  }
  if (!rules.empty()) fix.create("etc/udev/rules.d/90-cheetah-HST-37.rules", rules);
}

void fix_time_service(FixBuilder& fix) {
  for (const char* daemon : {"chronyd", "systemd-timesyn", "ntpd"})
    if (fix.facts.host.runs(daemon))
      return fix.refuse(
          format("{} runs and is not synchronized: its servers cannot be reached or do not agree "
                 "('chronyc sources -v' or 'timedatectl timesync-status' shows which)",
              daemon));
  for (const char* service : {"chronyd", "chrony", "systemd-timesyncd", "ntpd"})
    if (fix.has_unit(service)) return fix.start(service);
  fix.refuse(
      "no time service is installed: install chrony and name the cluster's time servers in its settings");
}

// The kernel dropped the TSC for a reason: it is never forced back.
void choose_clock(FixBuilder& fix) {
  const std::string folder = "sys/devices/system/clocksource/clocksource0/";
  const std::string log = fix.facts.host.kernel_log.value_or("");
  if (contains(log, "TSC unstable") || contains(log, "as unstable because the skew is too large") ||
      contains(log, "tsc: Fast TSC calibration failed"))
    return fix.refuse(
        "the kernel found that the processors' time stamp counters do not agree: do not force them; "
        "update the firmware, and have the machine looked at");
  const std::string offered = " " + fix.text_of(folder + "available_clocksource") + " ";
  for (const char* fast : {"tsc", "kvm-clock", "arch_sys_counter"})
    if (contains(offered, std::string(" ") + fast + " ") ||
        contains(offered, std::string(" ") + fast + "\n")) {
      fix.write(folder + "current_clocksource", fast);
      return fix.note(format("for good: clocksource={} on the kernel's command line", fast));
    }
  fix.refuse(
      "the kernel does not offer the time stamp counter: look for its reason at boot (dmesg | grep -i tsc); "
      "in a virtual machine the host must pass an invariant TSC through");
}

struct Setting {
  std::string_view check;
  const char* name;
  const char* value;
};
constexpr Setting kSettings[] = {{"HST-02", "vm.swappiness", "1"}, {"HST-12", "kernel.numa_balancing", "0"},
    {"HST-16", "vm.dirty_background_ratio", "5"}, {"HST-33", "vm.zone_reclaim_mode", "0"},
    {"HST-40", "kernel.perf_event_paranoid", "1"}, {"HST-41", "vm.max_map_count", "262144"},
    {"JOB-07", "kernel.sched_rt_runtime_us", "950000"},
    {"NET-07", "net.ipv4.tcp_congestion_control", "cubic"},
    {"NET-12", "net.ipv4.ip_local_port_range", "32768 60999"}, {"NET-23", "net.core.somaxconn", "4096"},
    {"HST-51", "vm.overcommit_memory", "0"}};

template <size_t kIndex>
void set_sysctl(FixBuilder& fix) {
  constexpr const Setting& setting = kSettings[kIndex];
  fix.sysctl(setting.check, setting.name, setting.value);
}

void start_writeback_early(FixBuilder& fix) {
  const auto& memory = fix.facts.memory;
  if (memory.dirty_background_bytes.value_or(0) <= 0) return set_sysctl<2>(fix);
  fix.sysctl("HST-16", "vm.dirty_background_bytes",
      format("{}", std::max<int64_t>(memory.dirty_bytes.value_or(0) / 2, 1048576)));
}

void explain_stranger(FixBuilder& fix) {
  for (const Subject& subject : fix.outcome.subjects)
    for (const char* service : {"kubelet", "containerd", "dockerd", "cilium", "systemd"})
      if (contains(subject.was, service))
        return fix.advise(
            format("{} belongs to this node: give it CPUs of its own (the kubelet's reservedSystemCPUs, "
                   "or CPUAffinity= in systemd), do not stop it",
                service));
}

template <Subsystem kFirst, Subsystem kLast>
void say_the_action(FixBuilder& fix) {
  if (!fix.facts.log.events) return;
  for (const LogEvent& event : *fix.facts.log.events)
    if (event.subsystem >= kFirst && event.subsystem <= kLast && fix.facts.log.is_trouble(event))
      return fix.advise((event.culprit.empty() ? "" : event.culprit + ": ") + event.action);
}

constexpr PlannerOf kPlanners[] = {{"HST-25", say_the_action<Subsystem::kGpu, Subsystem::kSwitch>},
    {"LOG-01", say_the_action<Subsystem::kPcie, Subsystem::kPcie>},
    {"LOG-02", say_the_action<Subsystem::kStorage, Subsystem::kStorage>},
    {"LOG-03", say_the_action<Subsystem::kNetwork, Subsystem::kNetwork>},
    {"LOG-04", say_the_action<Subsystem::kMemory, Subsystem::kMemory>},
    {"LOG-05", say_the_action<Subsystem::kKernel, Subsystem::kKernel>},
    {"LOG-06", say_the_action<Subsystem::kOutOfMemory, Subsystem::kOutOfMemory>}, {"HST-01", turn_swap_off},
    {"JOB-01", turn_swap_off}, {"CTR-07", stop_group_swapping}, {"HST-02", set_sysctl<0>},
    {"HST-04", set_huge_pages}, {"HST-05", set_defrag}, {"MSR-26", set_measured_huge_pages},
    {"HST-07", even_the_pools}, {"HST-08", set_governor}, {"HST-09", disable_deep_idle},
    {"HST-12", set_sysctl<1>}, {"HST-16", start_writeback_early}, {"HST-30", let_boost},
    {"HST-31", lift_frequency_cap}, {"HST-33", set_sysctl<3>}, {"HST-34", stop_merging},
    {"HST-14", place_interrupts}, {"HST-15", stop_irqbalance}, {"HST-23", explain_stranger},
    {"HST-26", choose_clock}, {"HST-37", stop_redirecting}, {"HST-38", fix_time_service},
    {"HST-40", set_sysctl<4>}, {"HST-41", set_sysctl<5>}, {"JOB-07", set_sysctl<6>},
    {"NET-07", set_sysctl<7>}, {"NET-12", set_sysctl<8>}, {"NET-23", set_sysctl<9>},
    {"HST-51", set_sysctl<10>}, {"NET-34", spread_queues}};

}  // namespace

std::span<const PlannerOf> host_fixes() { return kPlanners; }

}  // namespace cheetah::doctor

// HST: kernel, interrupts, PCI and what the kernel's log tells.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostCpuPressure = 10, kMostIoPressure = 5, kMostMemoryPressure = 1;  // % of the last minute
constexpr const char* kOldestKernel = "5.15";
constexpr double kMostClockErrorUs = 10'000;
constexpr double kMostStrangerShare = 0.05;  // of all CPU time
constexpr int64_t kLeastMaps = 65530;

Outcome devices_know_their_node(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  return given(
      [](const std::vector<PciDevice>& devices) {
        std::vector<Subject> lost;
        for (const PciDevice& device : devices)
          if ((device.is_gpu() || device.is_network() || device.is_nvme()) && device.node && *device.node < 0)
            lost.push_back({device.address, "node -1"});
        return bad_if_any(std::move(lost), "the firmware does not say which node these devices belong to",
                          "every GPU, NIC and NVMe knows its node");
      },
      facts.pci.devices);
}

const PciDevice* owner_of(const Facts& facts, int interrupt) {
  for (const PciDevice& device : *facts.pci.devices)
    if (std::find(device.interrupts.begin(), device.interrupts.end(), interrupt) != device.interrupts.end())
      return &device;
  return nullptr;
}

Outcome interrupts_are_local(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  if (!facts.pci.devices) return without(facts.pci.devices);
  return given(
      [&](const std::vector<Interrupt>& interrupts) {
        std::vector<Subject> remote;
        int seen = 0;
        for (const Interrupt& interrupt : interrupts) {
          const PciDevice* device = owner_of(facts, interrupt.number);
          if (device == nullptr || !device->local_cpus || device->local_cpus->empty() ||
              interrupt.cpus.empty())
            continue;
          ++seen;
          if (!interrupt.managed && !is_subset(interrupt.cpus, *device->local_cpus))
            remote.push_back({format("{}", interrupt.number),
                              format("{} on CPU {}", interrupt.name, to_list(interrupt.cpus))});
        }
        if (seen == 0) return not_applicable("no interrupt of a GPU, NIC or NVMe is placed");
        return bad_if_any(std::move(remote), "interrupts are handled on the far node",
                          format("{} interrupts are handled on their device's node", seen));
      },
      facts.pci.interrupts);
}

Outcome irqbalance_keeps_off(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  if (!facts.host.processes) return without(facts.host.processes);
  if (!facts.host.runs("irqbalance")) return good("irqbalance does not run: placed interrupts stay");
  return facts.has_gpu() ? bad("irqbalance runs and may move the interrupts of NICs and GPUs away")
                         : note("irqbalance runs");
}

Outcome cgroup_is_unified(const Facts& facts) {
  return given(
      [](int64_t version) {
        if (version == 2) return good("control groups v2");
        return bad("control groups v1: no pressure, no memory.high and no swap limit of a group");
      },
      facts.container.cgroup_version);
}

Outcome kernel_is_recent(const Facts& facts) {
  return given(
      [](const std::string& kernel) {
        return judge(compare_versions(kernel, kOldestKernel) >= 0,
                     format("kernel {}; {} or newer has DMA-BUF, io_uring and the schedulers we count on",
                            kernel, kOldestKernel));
      },
      facts.host.kernel);
}

Outcome pressure(const Facts& facts, const char* kind, double most) {
  const auto found = facts.host.pressure.find(kind);
  if (found == facts.host.pressure.end()) return not_applicable("the kernel measures no pressure");
  return given(
      [&](const Pressure& value) {
        return judge(value.some_avg60 < most,
                     format("somebody waited for {} in {:.1f} % of the last minute", kind, value.some_avg60));
      },
      found->second);
}
Outcome cpu_pressure(const Facts& facts) { return pressure(facts, "cpu", kMostCpuPressure); }
Outcome memory_pressure(const Facts& facts) { return pressure(facts, "memory", kMostMemoryPressure); }
Outcome io_pressure(const Facts& facts) { return pressure(facts, "io", kMostIoPressure); }

bool is_expected(std::string_view name) {
  for (const char* known : {"python", "vllm", "sglang", "trtllm", "tritonserver", "cheetah", "torchrun",
                            "ray", "kworker", "ksoftirqd", "nvidia", "nv-hostengine", "llama-server"})
    if (starts_with(name, known)) return true;
  return false;
}

// Lifetimes differ, so the share is of the whole uptime: a daemon that eats a core shows, a burst does not.
Outcome no_stranger_burns_cpu(const Facts& facts) {
  if (!facts.has_gpu() && !facts.job)
    return not_applicable("no GPU and no job: every process is the workload");
  return given(
      [&](const std::vector<BusyProcess>& processes, const std::vector<int>& cpus) {
        double total = 0;
        for (const BusyProcess& process : processes) total += process.ticks;
        std::vector<Subject> strangers;
        for (const BusyProcess& process : processes)
          if (!is_expected(process.name) && total > 0 && process.ticks / total > kMostStrangerShare &&
              process.ticks > 6000.0 * static_cast<double>(cpus.size()))
            strangers.push_back(
                {format("{}", process.pid),
                 format("{}, {:.0f} % of all CPU time", process.name, 100 * process.ticks / total)});
        return bad_if_any(std::move(strangers), "processes that are no part of the job use CPU time",
                          "no stranger uses much CPU time");
      },
      facts.host.processes, facts.cpu.online);
}

bool peers_matter(const Facts& facts) {
  return facts.pci.gpus().size() > 1 || (facts.has_gpu() && facts.network.has_rdma());
}

Outcome iommu_passes_through(const Facts& facts) {
  if (!peers_matter(facts)) return not_applicable("no two devices copy to each other directly");
  return given(
      [&](const std::string& line, const std::vector<std::string>& iommus) {
        if (facts.host.is_virtual.value_or(false))
          return note("in a virtual machine the host decides about the IOMMU");
        if (iommus.empty()) return good("no IOMMU is active");
        const std::string padded = " " + line + " ";
        for (const char* option :
             {" iommu=pt ", " iommu.passthrough=1 ", " iommu=off ", " intel_iommu=off ", " amd_iommu=off "})
          if (contains(padded, option)) return good(format("the IOMMU lets DMA pass ({})", trimmed(option)));
        return bad("the IOMMU translates every DMA: copies between devices are slow or fail",
                   {{"kernel command line", line}});
      },
      facts.host.command_line, facts.host.iommus);
}

Outcome switches_do_not_redirect(const Facts& facts) {
  if (!peers_matter(facts)) return not_applicable("no two devices copy to each other directly");
  return given(
      [&](const std::vector<PciDevice>& devices) {
        std::vector<Subject> redirecting;
        int known = 0, hidden = 0;
        for (const PciDevice& device : devices) {
          if (!device.is_bridge()) continue;
          known += device.redirects_peers.known() ? 1 : 0;
          hidden += device.redirects_peers.is_unreadable() ? 1 : 0;
          if (device.redirects_peers.is(true)) redirecting.push_back({device.address, "ACS redirect"});
        }
        if (known == 0)
          return hidden > 0 ? unknown("only root may read the switches' ACS registers")
                            : not_applicable("there is no PCI bridge");
        if (facts.host.is_virtual.value_or(false))
          return note("in a virtual machine ACS keeps tenants apart: leave it on");
        return bad_if_any(std::move(redirecting), "PCI switches send traffic between devices up to the CPU",
                          "no PCI switch redirects traffic between devices");
      },
      facts.pci.devices);
}

struct XidKind {
  int number;
  const char* meaning;
  bool is_hardware;  // others are faults of the program that ran
};
constexpr XidKind kXids[] = {
    {13, "a kernel of the program faulted", false},   {31, "a kernel touched memory it does not own", false},
    {43, "a program's channel was stopped", false},   {45, "the program was ended on the GPU", false},
    {48, "an uncorrectable memory error", true},      {63, "a memory row was retired", true},
    {64, "a memory row could not be retired", true},  {74, "an NVLink error", true},
    {79, "the GPU fell off the bus", true},           {92, "many corrected memory errors", true},
    {94, "a contained memory error", true},           {95, "an uncontained memory error", true},
    {119, "the GPU's own processor timed out", true}, {120, "the GPU's own processor failed", true}};

// "NVRM: Xid (PCI:0000:13:00): 79, pid=…": the sentence for a fault of the hardware, or of a kind unknown to
// us;
// "" for a fault of a program.
std::string hardware_fault(std::string_view line) {
  const size_t colon = line.rfind("): ");
  const std::string_view rest = colon == std::string_view::npos ? "" : line.substr(colon + 3);
  const auto number = to_integer(rest.substr(0, rest.find(',')));
  for (const XidKind& kind : kXids)
    if (number == kind.number) return kind.is_hardware ? format("Xid {}: {}", kind.number, kind.meaning) : "";
  return "Xid " + printable(rest.substr(0, 40));
}

Outcome log_has_no_device_error(const Facts& facts) {
  return given(
      [](const std::string& log) {
        std::vector<Subject> errors;
        for (const std::string_view line : lines_of(log)) {
          if (contains(line, "NVRM: Xid"))
            if (const std::string fault = hardware_fault(line.substr(0, line.find(", pid"))); !fault.empty())
              errors.push_back({fault, ""});
          for (const char* mark : {"AER: Uncorrected (Fatal)", "nvme nvme", "mlx5_core"})
            if (contains(line, mark) &&
                (contains(line, "timeout") || contains(line, "Fatal") || contains(line, "failed")))
              errors.push_back({printable(line.substr(0, 120), 120), ""});
          if (errors.size() >= 64) break;
        }
        return bad_if_any(std::move(errors), "the kernel's log tells of hardware trouble",
                          "the kernel's log tells of no GPU, NIC or disk trouble");
      },
      facts.host.kernel_log);
}

Outcome clock_source_is_fast(const Facts& facts) {
  return given(
      [](const std::string& source) {
        const bool fast = source == "tsc" || source == "kvm-clock" || source == "arch_sys_counter" ||
                          source == "hyperv_clocksource_tsc_page";
        return judge(fast, format("time is read from {}", source));
      },
      facts.host.clocksource);
}

Outcome clock_is_synchronized(const Facts& facts) {
  if (!facts.intent.multi_node)
    return not_applicable("one machine: no clocks to compare (--multi-node asks for it)");
  return given(
      [](const std::string& state) {
        const auto words = words_of(state);
        if (words.size() < 4) return unknown("the clock's state was not understood");
        const double error_us = to_number(words[3]).value_or(0);
        return judge(words[1] == "1" && error_us < kMostClockErrorUs,
                     format("the clock is {}synchronized, off by at most {:.1f} ms",
                            words[1] == "1" ? "" : "not ", error_us / 1000));
      },
      facts.host.clock_sync);
}

Outcome mitigations_are_off(const Facts& facts) {
  return given(
      [](const std::vector<std::string>& active) {
        if (active.empty()) return good("no processor mitigation is active");
        return bad(format("{} processor mitigations are active; they protect tenants from each other",
                          active.size()));
      },
      facts.host.mitigations);
}

Outcome profiling_is_allowed(const Facts& facts) {
  if (facts.host.is_root.value_or(false)) return good("root may use all CPU counters");
  return given(
      [](int64_t level) {
        return level <= 1 ? good(format("perf_event_paranoid is {}", level))
                          : bad(format("perf_event_paranoid is {}: CPU counters are for root alone", level),
                                {{"kernel.perf_event_paranoid", format("{}", level)}});
      },
      facts.host.perf_paranoid);
}

Outcome maps_suffice(const Facts& facts) {
  return given(
      [](int64_t count) {
        return count >= kLeastMaps ? good(format("a process may have {} mappings", count))
                                   : bad(format("a process may have {} mappings only", count),
                                         {{"vm.max_map_count", format("{}", count)}});
      },
      facts.memory.max_map_count);
}

constexpr Check kChecks[] = {
    {"HST-13", Layer::kHost, Level::kWarn, 0.05, "Devices know their NUMA node",
     "Without it neither the launcher nor NCCL can place threads and buffers next to a GPU or NIC.",
     "placement by chance: up to half the copy bandwidth", FixKind::kFirmware,
     "update the BIOS, or give NCCL a topology file; NVML's affinity is a fallback for GPUs", "", "F05",
     devices_know_their_node},
    {"HST-14", Layer::kHost, Level::kWarn, 0.08, "Interrupts are handled next to their device",
     "An interrupt on the other socket pulls the device's data across the link between the sockets.",
     "latency of every packet and completion; 5-15 % of network throughput", FixKind::kCommand,
     "for d in /sys/bus/pci/devices/*; do if [ -e $d/msi_irqs/{it} ]; then cat $d/local_cpulist > "
     "/proc/irq/{it}/smp_affinity_list; fi; done",
     "", "F06,O03", interrupts_are_local},
    {"HST-15", Layer::kHost, Level::kInfo, 0.01, "irqbalance does not undo placement",
     "It moves interrupts by load and knows nothing of GPUs.", "placed interrupts wander", FixKind::kCommand,
     "systemctl stop irqbalance", "systemctl start irqbalance", "F06", irqbalance_keeps_off},
    {"HST-17", Layer::kHost, Level::kInfo, 0, "Control groups v2",
     "Pressure, memory.high and swap limits of a group exist in v2 alone.", "less control, not less speed",
     FixKind::kBoot, "systemd.unified_cgroup_hierarchy=1", "systemd.unified_cgroup_hierarchy=0", "F02",
     cgroup_is_unified},
    {"HST-18", Layer::kHost, Level::kWarn, 0.05, "The kernel is recent",
     "Old kernels lack DMA-BUF for GPUDirect, io_uring's fast paths and large TCP buffers.",
     "features fall back silently", FixKind::kAdvice, "move to a supported long-term kernel", "", "F01",
     kernel_is_recent},
    {"HST-19", Layer::kHost, Level::kWarn, 0.10, "CPUs are not oversubscribed",
     "Pressure counts the time somebody was ready to run and had no CPU.", "in proportion to the waiting",
     FixKind::kAdvice, "fewer workers or jobs on this node", "", "G08,H09", cpu_pressure},
    {"HST-35", Layer::kHost, Level::kWarn, 0.15, "Memory is not under pressure",
     "Threads waited for the kernel to find free memory.", "stalls until memory is found", FixKind::kAdvice,
     "lower memory use or add memory", "", "J08", memory_pressure},
    {"HST-36", Layer::kHost, Level::kWarn, 0.10, "Nobody waits for disks",
     "Threads waited for I/O: loaders that do, starve the GPU.", "in proportion to the waiting",
     FixKind::kAdvice, "see the storage checks; cache or prefetch more", "", "H09", io_pressure},
    {"HST-23", Layer::kHost, Level::kWarn, 0.05, "No stranger burns CPU time",
     "A scanner or indexer takes cores and caches from the job.", "its share of the CPUs, and jitter",
     FixKind::kAdvice, "stop or pin process {it}", "", "F01", no_stranger_burns_cpu},
    {"HST-24", Layer::kHost, Level::kFail, 0.20, "The IOMMU lets direct copies pass",
     "A translating IOMMU sends peer traffic through the root complex, or refuses it.",
     "GPU-to-GPU and GPU-to-NIC copies at half speed or through host memory", FixKind::kBoot, "iommu=pt",
     "remove iommu=pt", "O01", iommu_passes_through},
    {"HST-37", Layer::kHost, Level::kFail, 0.18, "PCI switches do not redirect peer traffic",
     "With ACS redirection on, two devices below one switch talk through the CPU.",
     "half the bandwidth between neighbours", FixKind::kCommand, "setpci -s {it} ECAP_ACS+0x6.w=0000",
     "setpci -s {it} ECAP_ACS+0x6.w=001d", "O01", switches_do_not_redirect},
    {"HST-25", Layer::kHost, Level::kFail, 0.50, "The kernel's log is clean",
     "Xid lines, fatal PCI errors and timeouts announce a device that is failing.",
     "a straggler now, a lost job later", FixKind::kAdvice,
     "drain the node; look up the Xid; reseat or replace the part", "", "J10", log_has_no_device_error},
    {"HST-26", Layer::kHost, Level::kWarn, 0.03, "Reading the time is cheap",
     "With a slow clock source each time stamp is a system call of microseconds.",
     "tracing and schedulers slow down", FixKind::kBoot, "tsc=reliable", "remove tsc=reliable", "J07",
     clock_source_is_fast},
    {"HST-38", Layer::kHost, Level::kWarn, 0.01, "Clocks of the cluster agree",
     "Traces and logs of several nodes cannot be laid over each other otherwise.",
     "wrong conclusions about stragglers", FixKind::kCommand,
     "systemctl start chronyd || systemctl start systemd-timesyncd", "", "J07", clock_is_synchronized},
    {"HST-39", Layer::kHost, Level::kInfo, 0, "Processor mitigations",
     "They make system calls and context switches dearer.",
     "0-5 % of syscall-heavy work; a security decision, not a performance one", FixKind::kAdvice,
     "leave them on unless the machine runs trusted code alone", "", "B07", mitigations_are_off},
    {"HST-40", Layer::kHost, Level::kInfo, 0, "CPU counters may be read",
     "Without them a profile cannot tell why a loop is slow.", "blind profiling", FixKind::kCommand,
     "sysctl -w kernel.perf_event_paranoid=1", "sysctl -w kernel.perf_event_paranoid={was}", "J01",
     profiling_is_allowed},
    {"HST-41", Layer::kHost, Level::kWarn, 0.02, "Processes may map enough",
     "Frameworks map each shard and library; at the limit mmap fails.",
     "out-of-memory errors with memory free", FixKind::kCommand, "sysctl -w vm.max_map_count=262144",
     "sysctl -w vm.max_map_count={was}", "F03", maps_suffice},
};

}  // namespace

std::span<const Check> kernel_checks() { return kChecks; }

}  // namespace cheetah::doctor

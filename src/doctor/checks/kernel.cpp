// SPDX-License-Identifier: MIT
// HST: kernel, interrupts, PCI and what the kernel's log tells.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostCpuPressure = 10, kMostIoPressure = 5, kMostMemoryPressure = 1;  // % of the last minute
constexpr const char* kOldestKernel = "5.4";
constexpr double kMostClockErrorUs = 10'000;
constexpr double kMostStrangerShare = 0.02;  // of the machine's CPUs
constexpr int64_t kLeastMaps = 65530;

Outcome devices_know_their_node(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  if (facts.machine.is_virtual)
    return not_applicable("in a virtual machine the hypervisor decides what is told of nodes");
  return when_known(
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

// The CPUs of a device's socket: with several NUMA nodes on one socket, its neighbours are as good.
std::vector<int> cpus_of_socket(const Facts& facts, const std::vector<int>& local) {
  std::set<int64_t> packages;
  for (const CpuCore& core : facts.cpu.cores)
    if (core.package && std::binary_search(local.begin(), local.end(), core.cpu))
      packages.insert(*core.package);
  std::vector<int> cpus = local;
  for (const CpuCore& core : facts.cpu.cores)
    if (core.package && packages.contains(*core.package)) cpus.push_back(core.cpu);
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

// GPUs and what feeds them; a management adapter may take its interrupts anywhere.
bool wants_local_interrupts(const Facts& facts, const PciDevice& device) {
  if (!device.is_network()) return device.is_gpu();
  if (facts.network.rdma)
    for (const RdmaPort& port : *facts.network.rdma)
      if (port.pci == device.address) return facts.machine.is_rail(port);
  if (!facts.network.nics) return true;
  for (const Nic& nic : *facts.network.nics)
    if (nic.pci == device.address) return nic.is_fast();
  return facts.network.nics->empty();
}

Outcome interrupts_are_local(const Facts& facts) {
  if (facts.cpu.num_nodes_with_cpus() < 2) return not_applicable("there is one NUMA node");
  if (!facts.pci.devices) return without(facts.pci.devices);
  return when_known(
      [&](const std::vector<Interrupt>& interrupts) {
        std::map<const PciDevice*, std::vector<const Interrupt*>> owned;
        int seen = 0;
        for (const Interrupt& interrupt : interrupts) {
          const PciDevice* device = owner_of(facts, interrupt.number);
          if (device == nullptr || !device->local_cpus || device->local_cpus->empty() ||
              interrupt.cpus.empty() || interrupt.managed || !wants_local_interrupts(facts, *device))
            continue;
          ++seen;
          owned[device].push_back(&interrupt);
        }
        std::vector<Subject> remote;
        for (const auto& [device, lines] : owned) {
          const std::vector<int> near = cpus_of_socket(facts, *device->local_cpus);
          std::vector<Subject> far;
          for (const Interrupt* interrupt : lines)
            if (!is_subset(interrupt->cpus, near))
              far.push_back({format("{}", interrupt->number),
                  format("{} on CPU {}", interrupt->name, to_list(interrupt->cpus))});
          // A driver with more queues than its node has CPUs spreads the rest over the other on purpose.
          const size_t spread = lines.size() > near.size() ? lines.size() - near.size() : 0;
          if (far.size() > spread) remote.insert(remote.end(), far.begin(), far.end());
        }
        if (seen == 0) return not_applicable("no interrupt of a GPU or a fast adapter is placed");
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
  return when_known(
      [](int64_t version) {
        if (version == 2) return good("control groups v2");
        return bad("control groups v1: no pressure, no memory.high and no swap limit of a group");
      },
      facts.container.cgroup_version);
}

// Distributions bring drivers and DMA-BUF back to kernels of old numbers: only what none supports is old.
Outcome kernel_is_recent(const Facts& facts) {
  return when_known(
      [](const std::string& kernel) {
        if (compare_versions(kernel, kOldestKernel) >= 0) return good(format("the kernel is {}", kernel));
        return bad(format("the kernel is {}; {} or newer has what GPU and network drivers count on", kernel,
                       kOldestKernel),
            {{"kernel", kernel}});
      },
      facts.host.kernel);
}

Outcome pressure(const Facts& facts, const char* kind, double most) {
  const auto found = facts.host.pressure.find(kind);
  if (found == facts.host.pressure.end()) return not_applicable("the kernel measures no pressure");
  return when_known(
      [&](const Pressure& value) {
        return judge(value.some_avg60 < most,
            format("tasks waited for {} in {:.1f} % of the last minute", kind, value.some_avg60));
      },
      found->second);
}
Outcome cpu_pressure(const Facts& facts) { return pressure(facts, "cpu", kMostCpuPressure); }
Outcome memory_pressure(const Facts& facts) { return pressure(facts, "memory", kMostMemoryPressure); }
Outcome io_pressure(const Facts& facts) { return pressure(facts, "io", kMostIoPressure); }

constexpr const char* kExpected[] = {"python", "pt_", "vllm", "VLLM", "sglang", "SGLang", "trtllm",
    "tritonserver", "cheetah", "torchrun", "ray", "nvidia", "nv-", "dcgm", "llama-server", "kubelet",
    "containerd", "dockerd", "crio", "cilium", "calico", "slurm", "systemd", "mpirun", "orted", "julia",
    "node_exporter", "irqbalance", "kswapd", "ksoftirqd", "kworker", "rcu_", "migration"};

// The job's own family: its ranks share a parent, a session or a process group, or hold a GPU.
bool belongs_to_the_job(const Facts& facts, const BusyProcess& process) {
  for (const char* known : kExpected)
    if (starts_with(process.name, known)) return true;
  if (facts.job && facts.job->is_relative(process.pid)) return true;
  if (process.pid == 2 || process.parent == 2) return true;  // the kernel's own threads
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    for (const GpuProcess& user : gpu.processes())
      if (user.pid == process.pid) return true;
  const BusyProcess* job = facts.job ? facts.host.process(to_integer(facts.intent.pid).value_or(0)) : nullptr;
  if (job == nullptr) return false;
  return process.pid == job->pid || process.parent == job->pid || process.pid == job->parent ||
         (process.parent > 2 && process.parent == job->parent) ||
         (process.session > 2 && process.session == job->session) ||
         (process.group > 2 && process.group == job->group);
}

// CPUs a process kept busy on average, since it started.
double busy_cpus(const Facts& facts, const BusyProcess& process) {
  const double lifetime = 100 * facts.host.uptime_s - process.start_ticks;
  return lifetime > 0 ? process.ticks / std::max(lifetime, 6000.0) : 0;
}

// A share of the machine, not of what happens to run: daemons of a long-lived node use little of it.
Outcome no_stranger_burns_cpu(const Facts& facts) {
  if (!facts.has_gpu() && !facts.job)
    return not_applicable("no GPU and no job: every process is the workload");
  return when_known(
      [&](const std::vector<BusyProcess>& processes, const std::vector<int>& cpus) {
        std::vector<Subject> strangers;
        double taken = 0;
        if (facts.host.uptime_s <= 0) return unknown("the machine does not tell how long it has been up");
        for (const BusyProcess& process : processes) {
          const double busy = busy_cpus(facts, process);
          const double share = busy / std::max<double>(static_cast<double>(cpus.size()), 1);
          if (share < kMostStrangerShare || busy < 0.9 || belongs_to_the_job(facts, process)) continue;
          taken += share;
          strangers.push_back({format("{}", process.pid), format("{}, {:.1f} CPUs", process.name, busy)});
        }
        Outcome outcome = bad_if_any(std::move(strangers),
            "processes that are no part of the job use CPU time", "no other process uses much CPU time");
        return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.5 * taken) : outcome;
      },
      facts.host.processes, facts.cpu.online);
}

bool peers_matter(const Facts& facts) {
  return facts.pci.gpus().size() > 1 || (facts.has_gpu() && facts.network.has_rdma());
}

bool translates(const PciDevice& device) {
  return starts_with(device.iommu_type, "DMA") && !is_passed_on(device) &&
         (device.is_gpu() || device.is_network());
}

Outcome iommu_passes_through(const Facts& facts) {
  if (!peers_matter(facts)) return not_applicable("no two devices copy to each other directly");
  if (facts.machine.is_virtual) return note("in a virtual machine the host decides about the IOMMU");
  if (facts.machine.is_grace) return note("on Grace the GPU shares the CPU's address translation by design");
  return when_known(
      [&](const std::string& line, const std::vector<std::string>& iommus) {
        // What the kernel does counts more than what it was told: the default may be built in.
        std::vector<Subject> translated;
        int told = 0;
        for (const PciDevice& device : facts.pci.devices.value_or({})) {
          told += !device.iommu_type.empty() && (device.is_gpu() || device.is_network()) ? 1 : 0;
          if (translates(device)) translated.push_back({device.address, device.iommu_type});
        }
        if (told > 0)
          return bad_if_any(std::move(translated), "the IOMMU translates every DMA of these devices",
              format("the IOMMU lets DMA of {} devices pass", told));
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

// Bridges below a root port, with a GPU or an adapter under them: where two devices could talk directly.
std::set<std::string> bridges_above_peers(const std::vector<PciDevice>& devices) {
  std::set<std::string> bridges;
  for (const PciDevice& device : devices)
    if (device.is_gpu() || device.is_network() || device.is_nvme())
      for (size_t i = 1; i < device.path.size(); ++i) bridges.insert(device.path[i]);
  return bridges;
}

Outcome switches_do_not_redirect(const Facts& facts) {
  if (!peers_matter(facts)) return not_applicable("no two devices copy to each other directly");
  return when_known(
      [&](const std::vector<PciDevice>& devices) {
        std::vector<Subject> redirecting;
        int known = 0, hidden = 0;
        const std::set<std::string> between = bridges_above_peers(devices);
        for (const PciDevice& device : devices) {
          if (!device.is_bridge() || !between.contains(device.address)) continue;
          known += device.redirects_peers.known() ? 1 : 0;
          hidden += device.redirects_peers.is_unreadable() ? 1 : 0;
          if (device.redirects_peers.is(true)) redirecting.push_back({device.address, "ACS redirect"});
        }
        if (known == 0)
          return hidden > 0 ? unknown("only root may read the switches' ACS registers")
                            : not_applicable("there is no PCI switch above GPUs and adapters");
        if (facts.machine.is_virtual || own_gpus(facts.pci).size() < facts.pci.gpus().size())
          return note("ACS keeps virtual machines apart: leave it on");
        return bad_if_any(std::move(redirecting), "PCI switches send traffic between devices up to the CPU",
            "no PCI switch redirects traffic between devices");
      },
      facts.pci.devices);
}

Outcome clock_source_is_fast(const Facts& facts) {
  return when_known(
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
  return when_known(
      [](const std::string& state) {
        const auto words = words_of(state);
        if (words.size() < 4) return unknown("the clock's state was not understood");
        const double error_us = to_number(words[3]).value_or(0);
        return judge(words[1] == "1" && error_us < kMostClockErrorUs,
            format("the clock is {}synchronized, off by at most {:.1f} ms", words[1] == "1" ? "" : "not ",
                error_us / 1000));
      },
      facts.host.clock_sync);
}

Outcome mitigations_are_off(const Facts& facts) {
  return when_known(
      [](const std::vector<std::string>& active) {
        if (active.empty()) return good("no processor mitigation is active");
        return bad(format(
            "{} processor mitigations are active; they protect tenants from each other", active.size()));
      },
      facts.host.mitigations);
}

Outcome profiling_is_allowed(const Facts& facts) {
  if (facts.host.is_root.value_or(false)) return good("root may use all CPU counters");
  return when_known(
      [](int64_t level) {
        return level <= 1 ? good(format("perf_event_paranoid is {}", level))
                          : bad(format("perf_event_paranoid is {}: CPU counters are for root alone", level),
                                {{"kernel.perf_event_paranoid", format("{}", level)}});
      },
      facts.host.perf_paranoid);
}

Outcome maps_suffice(const Facts& facts) {
  return when_known(
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
        "place the interrupts on CPUs next to their device", "", "F06,O03", interrupts_are_local},
    {"HST-15", Layer::kHost, Level::kInfo, 0.01, "irqbalance does not undo placement",
        "It moves interrupts by load and knows nothing of GPUs.", "placed interrupts wander",
        FixKind::kCommand, "stop irqbalance once interrupts are placed by hand", "", "F06",
        irqbalance_keeps_off},
    {"HST-17", Layer::kHost, Level::kInfo, 0, "Control groups v2",
        "Pressure, memory.high and swap limits of a group exist in v2 alone.", "less control, not less speed",
        FixKind::kBoot, "systemd.unified_cgroup_hierarchy=1", "systemd.unified_cgroup_hierarchy=0", "F02",
        cgroup_is_unified},
    {"HST-18", Layer::kHost, Level::kWarn, 0.05, "The kernel is recent",
        "Old kernels lack DMA-BUF for GPUDirect, io_uring's fast paths and large TCP buffers.",
        "features fall back silently", FixKind::kAdvice, "move to a supported long-term kernel", "", "F01",
        kernel_is_recent},
    {"HST-19", Layer::kHost, Level::kWarn, 0.10, "CPUs are not oversubscribed",
        "Pressure counts the time a task was ready to run and had no CPU.", "in proportion to the waiting",
        FixKind::kAdvice, "fewer workers or jobs on this node", "", "G08,H09", cpu_pressure},
    {"HST-35", Layer::kHost, Level::kWarn, 0.15, "Memory is not under pressure",
        "Threads waited for the kernel to find free memory.", "stalls until memory is found",
        FixKind::kAdvice, "lower memory use or add memory", "", "J08", memory_pressure},
    {"HST-36", Layer::kHost, Level::kWarn, 0.10, "Nobody waits for disks",
        "Threads waited for I/O: loaders that do, starve the GPU.", "in proportion to the waiting",
        FixKind::kAdvice, "see the storage checks; cache or prefetch more", "", "H09", io_pressure},
    {"HST-23", Layer::kHost, Level::kWarn, 0.05, "No other process uses CPU time",
        "A scanner or indexer takes cores and caches from the job.", "its share of the CPUs, and jitter",
        FixKind::kAdvice, "stop or pin process {it}", "", "F01", no_stranger_burns_cpu},
    {"HST-24", Layer::kHost, Level::kFail, 0.20, "The IOMMU lets direct copies pass",
        "A translating IOMMU sends peer traffic through the root complex, or refuses it.",
        "GPU-to-GPU and GPU-to-NIC copies at half speed or through host memory", FixKind::kBoot, "iommu=pt",
        "remove iommu=pt", "O01", iommu_passes_through},
    {"HST-37", Layer::kHost, Level::kFail, 0.18, "PCI switches do not redirect peer traffic",
        "With ACS redirection on, two devices below one switch talk through the CPU.",
        "half the bandwidth between neighbours", FixKind::kCommand,
        "clear the redirect bits of the bridges' ACS registers, unless virtual machines hold devices", "",
        "O01", switches_do_not_redirect},
    {"HST-26", Layer::kHost, Level::kWarn, 0.03, "Reading the time is cheap",
        "With a slow clock source each time stamp is a system call of microseconds.",
        "tracing and schedulers slow down", FixKind::kCommand,
        "choose the time stamp counter, unless the kernel found it unstable", "", "J07",
        clock_source_is_fast},
    {"HST-38", Layer::kHost, Level::kWarn, 0.01, "Clocks of the cluster agree",
        "Traces and logs of several nodes cannot be laid over each other otherwise.",
        "wrong conclusions about stragglers", FixKind::kCommand, "start the time service that is installed",
        "", "J07", clock_is_synchronized},
    {"HST-39", Layer::kHost, Level::kInfo, 0, "Processor mitigations",
        "They make system calls and context switches dearer.",
        "0-5 % of syscall-heavy work; a security decision, not a performance one", FixKind::kAdvice,
        "leave them on unless the machine runs trusted code alone", "", "B07", mitigations_are_off},
    {"HST-40", Layer::kHost, Level::kInfo, 0, "CPU counters may be read",
        "Without them a profile cannot tell why a loop is slow.", "blind profiling", FixKind::kCommand,
        "set kernel.perf_event_paranoid to 1", "", "J01", profiling_is_allowed},
    {"HST-41", Layer::kHost, Level::kWarn, 0.02, "Processes may map enough",
        "Frameworks map each shard and library; at the limit mmap fails.",
        "out-of-memory errors with memory free", FixKind::kCommand, "set vm.max_map_count to 262144", "",
        "F03", maps_suffice},
};

}  // namespace

std::span<const Check> kernel_checks() { return kChecks; }

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
// GPU: which GPUs are here, seen by the bus, the driver, NVML and the container, and who uses them.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/checks/every_gpu.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastFreeShare = 0.05;

Outcome device_files_open(const Facts& facts) {
  if (own_gpus(facts.pci).empty() && facts.gpu.count() == 0) return not_applicable("there is no NVIDIA GPU");
  return when_known(
      [&](const Fields& nodes) {
        std::vector<Subject> closed;
        const bool any = std::any_of(nodes.begin(), nodes.end(),
            [](const auto& node) { return starts_with(node.first, "dev/nvidia"); });
        if (!any && facts.machine.is_container)
          return note("the container was given no GPU: it has no device file of one");
        for (const char* needed : {"dev/nvidiactl", "dev/nvidia-uvm"})
          if (nodes.find(needed) == nodes.end()) closed.push_back({needed, "missing"});
        for (const auto& [path, access] : nodes)
          if (starts_with(path, "dev/nvidia") && access != "rw" && !contains(path, "caps"))
            closed.push_back({path, "not ours to open"});
        return bad_if_any(
            std::move(closed), "device files are missing or closed to us", "every device file can be opened");
      },
      facts.gpu.device_nodes);
}

std::set<std::string> nvml_addresses(const Facts& facts) {
  std::set<std::string> addresses;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    if (!gpu.address().empty()) addresses.insert(gpu.address());
  return addresses;
}

// On a host every GPU of the bus is the driver's and NVML's. A container sees the host's bus, but only the GPUs
// it was given in the driver's folder and in NVML.
Outcome gpus_are_all_here(const Facts& facts) {
  const auto on_bus = own_gpus(facts.pci);
  if (on_bus.empty())
    return not_applicable(facts.pci.gpus().empty()
                              ? "there is no NVIDIA GPU on the PCI bus"
                              : "every GPU of the bus is passed on to a virtual machine");
  const std::vector<std::string> addresses = facts.gpu.driver_gpus.value_or({});
  const std::set<std::string> driven(addresses.begin(), addresses.end());
  const std::set<std::string> listed = nvml_addresses(facts);
  const bool has_nvml = facts.gpu.gpus.known(), tells_addresses = !listed.empty();
  if (facts.machine.is_container && driven.empty() && !has_nvml)
    return note("the container was given none of the host's GPUs");
  std::vector<Subject> gone;
  for (const PciDevice* gpu : on_bus) {
    const bool is_driven = driven.contains(gpu->address);
    const bool is_listed = listed.contains(gpu->address);
    if (!is_driven && !is_listed) {
      if (facts.machine.is_container && !(driven.empty() && listed.empty())) continue;  // another's
      gone.push_back({gpu->address,
          gpu->driver.empty() || gpu->driver == "nvidia" ? "no driver holds it" : gpu->driver + " holds it"});
    } else if (!is_driven && !driven.empty() && !facts.machine.is_container) {
      gone.push_back({gpu->address, "NVML lists it, the driver does not hold it"});
    } else if (has_nvml && tells_addresses && !is_listed) {
      // Runtimes that do not hide the driver's folder show the host's GPUs there.
      const bool hidden = facts.machine.is_container && driven.size() == on_bus.size();
      if (!hidden) gone.push_back({gpu->address, "the driver holds it, NVML does not list it"});
    }
  }
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    if (gpu.flag("lost")) gone.push_back({format("GPU {}", gpu.index), "NVML has lost it"});
  const double share = static_cast<double>(gone.size()) / static_cast<double>(on_bus.size());
  Outcome outcome =
      bad_if_any(std::move(gone), format("of {} GPUs on the bus these cannot be used", on_bus.size()),
          format("{} GPUs on the bus, {} in the driver, {} in NVML", on_bus.size(), driven.size(),
              has_nvml ? format("{}", facts.gpu.count()) : "(not read)"));
  outcome.evidence.push_back({facts.gpu.driver_gpus.source(), format("{} in the driver", driven.size())});
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), std::min(0.9, share)) : outcome;
}

bool uses(const Gpu& gpu, int64_t pid) {
  const auto processes = gpu.processes();
  return std::any_of(
      processes.begin(), processes.end(), [&](const GpuProcess& process) { return process.pid == pid; });
}

// Ranks of one job share a parent, a session or a process group; a server of ours serves every rank.
bool is_of_the_job(const Facts& facts, int64_t pid, int64_t job) {
  if (pid == job) return true;
  const BusyProcess* own = facts.host.process(job);
  const BusyProcess* other = facts.host.process(pid);
  if (own == nullptr || other == nullptr) return false;
  return other->parent == job || own->parent == pid || starts_with(other->name, "nvidia-cuda-mps") ||
         (own->parent > 2 && own->parent == other->parent) ||
         (own->session > 2 && own->session == other->session) ||
         (own->group > 2 && own->group == other->group);
}

// The job's GPUs are those where NVML lists it: every rank opens the device files of all.
Outcome gpus_are_ours(const Facts& facts) {
  if (!facts.job) return not_applicable("no job was named (--pid)");
  const int64_t job = to_integer(facts.intent.pid).value_or(0);
  return every_gpu(facts, "others use the job's GPUs", "no other process is on the job's GPUs",
      [&](const Gpu& gpu) -> Wrong {
        const auto used = gpu.number("memory.used"), total = gpu.number("memory.total");
        if (!gpu.text("processes") || !uses(gpu, job)) return std::nullopt;
        for (const GpuProcess& process : gpu.processes())
          if (!is_of_the_job(facts, process.pid, job))
            return format(
                "process {} holds {}", process.pid, human_bytes(static_cast<double>(process.bytes)));
        return used && total && *used > *total * (1 - kLeastFreeShare / 5)
                   ? "less than 1 % of its memory is free"
                   : "";
      });
}

Outcome sharing_is_deliberate(const Facts& facts) {
  return every_gpu(facts, "processes share a GPU by taking turns", "no GPU is shared by turns",
      [&](const Gpu& gpu) -> Wrong {
        if (!gpu.text("processes")) return std::nullopt;
        const auto processes = gpu.processes();
        const bool served = facts.host.runs("nvidia-cuda-mps") || gpu.flag("mig.current");
        return processes.size() > 1 && !served ? format("{} processes, no MPS", processes.size()) : "";
      });
}

constexpr Check kChecks[] = {
    {"GPU-01", Layer::kGpu, Level::kFail, 0.90, "GPU device files can be opened",
        "Without nvidiactl, nvidia-uvm and the GPU's own file CUDA does not start.", "no GPU at all",
        FixKind::kCommand,
        "nvidia-modprobe makes missing device files; files that are there are a matter of permission", "",
        "F09", device_files_open},
    {"GPU-02", Layer::kGpu, Level::kFail, 0.20, "Every GPU of the bus can be used",
        "A GPU that the driver dropped is idle, and a job of N GPUs does not start.",
        "one Nth of the node, or all of it", FixKind::kAdvice,
        "without a driver: install it for the running kernel and keep nouveau out; one lost GPU: look for Xid 79 in "
        "the kernel's log, then reset, reseat or replace the card",
        "", "C02", gpus_are_all_here},
    {"GPU-18", Layer::kGpu, Level::kWarn, 0.20, "The GPUs are ours alone",
        "A second program takes memory, cache and time slices.", "up to half the GPU; out-of-memory errors",
        FixKind::kAdvice, "move the other process away, or give it a MIG slice", "", "A09,M02,P09",
        gpus_are_ours},
    {"GPU-23", Layer::kGpu, Level::kInfo, 0.10, "A shared GPU is shared well",
        "Processes without MPS take turns: while one runs, the others wait.",
        "idle units while small kernels run alone", FixKind::kCommand,
        "start MPS before the processes, or give each a GPU or a MIG slice of its own", "", "G02",
        sharing_is_deliberate},
};

}  // namespace

std::span<const Check> gpu_presence_checks() { return kChecks; }

}  // namespace cheetah::doctor

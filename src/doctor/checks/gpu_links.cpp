// SPDX-License-Identifier: MIT
// GPU: PCIe, NVLink, fabric, and how near NICs are.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/checks/every_gpu.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostReplays = 100;  // since boot; a clean link has none

const PciDevice* pci_of(const Facts& facts, const Gpu& gpu) { return facts.pci.find(gpu.address()); }

Outcome gpu_links_are_wide(const Facts& facts) {
  std::vector<Subject> narrow;
  int told = 0;
  double missing = 0;
  const auto judge_link = [&](const std::string& name, double width, double most) {
    ++told;
    if (width >= most || width <= 0) return;
    narrow.push_back({name, format("x{:.0f} of x{:.0f}", width, most)});
    missing = std::max(missing, 1 - width / most);
  };
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto width = gpu.number("pcie.width"), most = gpu.number("pcie.width.max");
    if (width && most) judge_link(format("{}", gpu.index), *width, *most);
  }
  if (told == 0)
    for (const PciDevice* device : own_gpus(facts.pci))
      if (device->width && device->max_width)
        judge_link(
            device->address, static_cast<double>(*device->width), static_cast<double>(*device->max_width));
  if (told == 0) return not_applicable("no GPU tells its PCIe link");
  Outcome outcome = bad_if_any(
      std::move(narrow), "GPUs run on fewer PCIe lanes than they have", "every GPU has all its PCIe lanes");
  outcome.evidence.push_back(
      {facts.gpu.gpus ? facts.gpu.gpus.source() : "sys/bus/pci/devices", format("{} links", told)});
  if (outcome.verdict != Verdict::kBad) return outcome;
  if (facts.machine.is_virtual) return note("the virtual machine's PCIe links are names: " + outcome.found);
  return with_risk(std::move(outcome), 0.3 * missing);
}

// An idle GPU lowers its link's speed by design: judged at work alone.
Outcome gpu_links_are_fast(const Facts& facts) {
  std::vector<Subject> slow;
  int busy = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto gen = gpu.number("pcie.gen"), most = gpu.number("pcie.gen.max");
    if (!gen || !most || gpu.number("utilization").value_or(0) < 50) continue;
    ++busy;
    if (*gen < *most) slow.push_back({format("{}", gpu.index), format("gen {:.0f} of {:.0f}", *gen, *most)});
  }
  if (busy == 0) return not_applicable("no GPU is at work: idle links slow down by design");
  return bad_if_any(std::move(slow), "PCIe links run below their generation", "PCIe links run at full speed");
}

Outcome links_do_not_replay(const Facts& facts) {
  std::vector<Subject> noisy;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto replays = gpu.number("pcie.replays");
    const PciDevice* device = pci_of(facts, gpu);
    const int64_t fatal = device != nullptr ? device->fatal_errors.value_or(0) : 0;
    if (!replays && (device == nullptr || !device->fatal_errors)) continue;
    ++told;
    if (fatal > 0)
      noisy.push_back({format("{}", gpu.index), format("{} fatal PCI errors", fatal)});
    else if (replays.value_or(0) > kMostReplays)
      noisy.push_back({format("{}", gpu.index), format("{:.0f} replays", *replays)});
  }
  if (told == 0) return not_applicable("no GPU counts PCIe errors");
  return bad_if_any(std::move(noisy), "PCIe transfers are repeated", "PCIe links are clean");
}

// SXM boards are wired all to all. PCIe cards have bridges, or none: pairs are compared with each other.
Outcome nvlinks_are_up(const Facts& facts) {
  std::vector<Subject> down;
  int told = 0;
  double most_up = 0, missing = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    most_up = std::max(most_up, gpu.number("nvlink.up").value_or(0));
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto present = gpu.number("nvlink.present"), up = gpu.number("nvlink.up");
    if (!present || !up || (facts.gpu.count() < 2 && gpu.number("fabric.state").value_or(0) == 0)) continue;
    ++told;
    const double full = facts.machine.has_nvswitch ? std::max(*present, most_up) : *up > 0 ? most_up : 0;
    if (*up >= full) continue;
    down.push_back({format("{}", gpu.index), format("{:.0f} of {:.0f} up", *up, full)});
    missing = std::max(missing, 1 - *up / full);
  }
  if (told == 0) return not_applicable("there are no two GPUs with NVLink");
  if (most_up == 0 && !facts.machine.has_nvswitch)
    return not_applicable("these PCIe cards have no NVLink bridge");
  if (most_up == 0 && facts.machine.is_virtual)
    return note("the virtual machine was given GPUs without their NVLinks");
  Outcome outcome = bad_if_any(std::move(down), "NVLinks are down", "every NVLink is up");
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.05 + 0.6 * missing) : outcome;
}

Outcome nvlinks_are_clean(const Facts& facts) {
  std::vector<Subject> noisy;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto errors = gpu.number("nvlink.errors");
    if (!errors) continue;
    ++told;
    if (*errors > 5 + 0.2 * facts.host.uptime_s / 86400)
      noisy.push_back({format("{}", gpu.index), format("{:.0f} errors", *errors)});
  }
  if (told == 0) return not_applicable("no GPU counts NVLink errors");
  return bad_if_any(std::move(noisy), "NVLinks have errors", "NVLinks are clean");
}

Outcome fabric_is_ready(const Facts& facts) {
  std::vector<Subject> waiting;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto state = gpu.number("fabric.state");
    if (!state) continue;
    ++told;
    if (*state != 3 || gpu.number("fabric.status").value_or(0) != 0)
      waiting.push_back({format("{}", gpu.index), *state == 2   ? "in progress"
                                                  : *state == 1 ? "not started"
                                                                : "failed"});
  }
  if (told == 0) return not_applicable("there is no NVSwitch fabric");
  return bad_if_any(
      std::move(waiting), "GPUs have not joined the NVLink fabric", "every GPU has joined the fabric");
}

Outcome fabric_is_one(const Facts& facts) {
  std::vector<Subject> apart;
  std::string first;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto cluster = gpu.text("fabric.cluster");
    if (!cluster) continue;
    const std::string domain = *cluster + "/" + gpu.text("fabric.clique").value_or("0");
    if (++told == 1) first = domain;
    if (domain != first) apart.push_back({format("{}", gpu.index), "another NVLink domain"});
  }
  if (told < 2) return not_applicable("there are no two GPUs in an NVSwitch fabric");
  return bad_if_any(
      std::move(apart), "GPUs belong to different NVLink domains", "all GPUs belong to one NVLink domain");
}

Outcome peers_are_near(const Facts& facts) {
  if (facts.gpu.count() < 2)
    return facts.gpu.gpus ? not_applicable("there is one GPU") : without(facts.gpu.gpus);
  std::vector<Subject> far;
  int told = 0;
  const bool all_to_all = facts.machine.has_nvswitch;
  const bool any_nvlink = std::any_of(facts.gpu.gpus->begin(), facts.gpu.gpus->end(),
      [](const Gpu& gpu) { return contains(gpu.text("peers").value_or(""), "nvlink"); });
  bool by_design = facts.machine.is_virtual && !any_nvlink;
  for (const Gpu& gpu : *facts.gpu.gpus)
    by_design = by_design || is_for_the_desk(gpu) || gpu.flag("mig.current");
  for (const Gpu& gpu : *facts.gpu.gpus) {
    const std::string peers = gpu.text("peers").value_or("");
    for (const std::string_view peer : split(peers, ',')) {
      const size_t colon = peer.find(':');
      if (colon == std::string_view::npos) continue;
      ++told;
      const std::string_view way = peer.substr(colon + 1);
      if (way == "none" || (all_to_all && way != "nvlink"))
        far.push_back({format("{}-{}", gpu.index, peer.substr(0, colon)),
            way == "none" ? "no direct copies" : std::string(way)});
    }
  }
  if (told == 0) return not_applicable("the driver does not tell how GPUs reach each other");
  if (by_design && !far.empty())
    return note("these GPUs copy through the host by design: virtual, sliced or without peer access");
  return bad_if_any(std::move(far), "pairs of GPUs copy the long way",
      all_to_all ? "every pair of GPUs has NVLink" : "every pair of GPUs copies directly");
}

Outcome gpudirect_is_possible(const Facts& facts) {
  if (!facts.has_gpu() || !facts.network.has_rdma())
    return not_applicable("there is no pair of GPU and RDMA adapter");
  return when_known(
      [&](const std::vector<std::string>&, const std::string& kernel) {
        for (const char* module : {"nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"})
          if (facts.host.has_module(module)) return good(format("{} is loaded", module));
        const bool dma_buf = facts.gpu.module_license.is("open") && compare_versions(kernel, "5.12") >= 0;
        if (dma_buf) return good("the open driver shares GPU memory by DMA-BUF");
        // Every adapter of some makers does RDMA: on one machine without rails nothing asks for it.
        if (!facts.intent.multi_node && !facts.machine.has_near_rails)
          return note("neither nvidia_peermem nor DMA-BUF; one machine without rails needs none");
        return bad("neither nvidia_peermem nor DMA-BUF: RDMA goes through host memory");
      },
      facts.host.modules, facts.host.kernel);
}

Outcome bar_maps_all_memory(const Facts& facts) {
  if (!facts.network.has_rdma() || !(facts.intent.multi_node || facts.machine.has_near_rails))
    return not_applicable("there is no RDMA adapter that is meant for the GPUs");
  std::vector<Subject> small;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto bar = gpu.number("bar1.total"), total = gpu.number("memory.total");
    if (!bar || !total || is_for_the_desk(gpu) || gpu.flag("mig.current")) continue;
    ++told;
    if (*bar < *total) small.push_back({format("{}", gpu.index), human_bytes(*bar)});
  }
  if (told == 0) return not_applicable("no GPU tells the size of its BAR1");
  return bad_if_any(std::move(small), "adapters cannot reach all GPU memory (BAR1 too small)",
      "adapters reach all GPU memory");
}

// Judged where the machine is built so: most GPUs share a switch with a rail, and a card of the same kind sits
// elsewhere. Grace, PCIe boxes and virtual machines have their adapters at the CPU by design.
Outcome adapters_are_near(const Facts& facts) {
  const auto gpus = own_gpus(facts.pci);
  std::vector<const PciDevice*> adapters;
  std::set<int64_t> kinds;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    if (const PciDevice* device = facts.pci.find(port.pci)) {
      adapters.push_back(device);
      if (facts.machine.is_rail(port)) kinds.insert(device->device);
    }
  if (adapters.empty() || gpus.empty()) return not_applicable("there is no pair of GPU and RDMA adapter");
  const auto near = [](const PciDevice& a, const PciDevice& b) { return nearness(a, b) <= Nearness::kPxb; };
  std::vector<Subject> far;
  for (const PciDevice* gpu : gpus) {
    Nearness best = Nearness::kSys;
    for (const PciDevice* adapter : adapters) best = std::min(best, nearness(*gpu, *adapter));
    if (best > Nearness::kPxb) far.push_back({gpu->address, name_of(best)});
  }
  const bool lonely = std::any_of(adapters.begin(), adapters.end(), [&](const PciDevice* adapter) {
    return kinds.contains(adapter->device) &&
           std::none_of(gpus.begin(), gpus.end(), [&](const PciDevice* gpu) { return near(*gpu, *adapter); });
  });
  if (facts.machine.is_virtual || far.size() * 2 >= gpus.size())
    return note("this machine does not put adapters and GPUs below one PCI switch");
  if (!lonely && !far.empty()) return note("there are fewer adapters than PCI switches with GPUs");
  return bad_if_any(std::move(far), "GPUs have no adapter below their PCI switch",
      "every GPU has an adapter below its PCI switch");
}

Outcome grace_memory_is_online(const Facts& facts) {
  bool grace = false;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    grace = grace || contains(gpu.name(), "GH200") || contains(gpu.name(), "GB200") ||
            contains(gpu.name(), "GB300");
  if (!grace) return not_applicable("this is no Grace system");
  const Fields parameters = facts.gpu.module_parameters.value_or({});
  const auto mode = parameters.find("CoherentGPUMemoryMode");
  if (mode != parameters.end() && contains(mode->second, "driver"))
    return note("the driver manages the GPU's memory itself, as it was told to");
  if (!facts.cpu.nodes) return without(facts.cpu.nodes);
  const auto bare = std::count_if(facts.cpu.nodes->begin(), facts.cpu.nodes->end(),
      [](const NumaNode& node) { return node.cpus.empty(); });
  return judge(bare > 0, format("{} of {} NUMA nodes are GPU memory", bare, facts.cpu.nodes->size()));
}

constexpr Check kChecks[] = {
    {"GPU-15", Layer::kGpu, Level::kFail, 0.15, "GPUs have all their PCIe lanes",
        "Half the lanes are half the bandwidth to host, disk and network.",
        "loading, offloading and host transfers at half speed or less", FixKind::kFirmware,
        "reseat the card or riser of GPU {it}; check the BIOS's bifurcation", "", "C06", gpu_links_are_wide},
    {"GPU-33", Layer::kGpu, Level::kWarn, 0.10, "Busy links run at full generation",
        "A link that trained down at work stays slow.", "half the bandwidth a generation", FixKind::kFirmware,
        "set the slot to its highest generation in the BIOS; reseat GPU {it}", "", "C06", gpu_links_are_fast},
    {"GPU-16", Layer::kGpu, Level::kWarn, 0.05, "PCIe links are clean",
        "Replays mean a bad contact or cable; every one repeats a transfer.",
        "latency spikes; the link may drop", FixKind::kFirmware, "reseat or replace the riser of GPU {it}",
        "", "J10", links_do_not_replay},
    {"GPU-19", Layer::kGpu, Level::kFail, 0.20, "Every NVLink is up",
        "Collectives run at the speed of the GPU with the fewest links.",
        "in proportion to the missing links, for all GPUs", FixKind::kAdvice,
        "reset GPU {it} and the fabric manager; replace the board if a link stays down", "", "E01",
        nvlinks_are_up},
    {"GPU-20", Layer::kGpu, Level::kWarn, 0.10, "NVLinks are clean",
        "Errors are retried at first, and end in a dropped link.", "jitter in collectives; Xid 74 later",
        FixKind::kAdvice, "watch the counter of GPU {it}; drain the node when it grows", "", "J10",
        nvlinks_are_clean},
    {"GPU-21", Layer::kGpu, Level::kFail, 0.90, "GPUs have joined the fabric",
        "On NVSwitch systems CUDA does not start until the fabric manager (or IMEX) has set the GPU up.",
        "no GPU, or no NVLink", FixKind::kCommand,
        "start the fabric manager of the board; on rack-wide domains the switch trays run it", "", "G09",
        fabric_is_ready},
    {"GPU-34", Layer::kGpu, Level::kWarn, 0.30, "All GPUs are in one NVLink domain",
        "Between domains traffic leaves NVLink for the network.", "collectives at network speed",
        FixKind::kAdvice, "place the job inside one domain", "", "C05", fabric_is_one},
    {"GPU-22", Layer::kGpu, Level::kFail, 0.25, "GPUs reach each other directly",
        "Pairs without NVLink or peer access copy through host memory.", "10x slower copies between the pair",
        FixKind::kAdvice,
        "choose GPUs of one NVLink island; check IOMMU, ACS (HST-24, HST-37) and the fabric manager", "",
        "C03,E02", peers_are_near},
    {"GPU-24", Layer::kGpu, Level::kFail, 0.25, "The network reaches GPU memory",
        "Without GPUDirect every message is copied through host memory.",
        "half the network bandwidth, and CPU time", FixKind::kCommand, "load nvidia-peermem", "", "O01",
        gpudirect_is_possible},
    {"GPU-35", Layer::kGpu, Level::kWarn, 0.05, "Adapters reach all GPU memory",
        "A small BAR1 limits how much memory can be registered for RDMA.",
        "registration failures with large buffers", FixKind::kFirmware,
        "turn on 'above 4G decoding' and resizable BAR in the BIOS", "", "O01", bar_maps_all_memory},
    {"NET-08", Layer::kNetwork, Level::kWarn, 0.12, "Each GPU has a near adapter",
        "A path through the CPU halves GPUDirect bandwidth and loads the link between the sockets.",
        "up to half the network bandwidth of that GPU", FixKind::kAdvice,
        "pair GPU {it} with another adapter (NCCL_IB_HCA) or move the card", "", "O07", adapters_are_near},
    {"GPU-28", Layer::kGpu, Level::kWarn, 0.10, "Grace sees the GPU's memory",
        "On coherent systems GPU memory is a NUMA node; offline, sharing falls back to copies.",
        "no direct access from the CPU", FixKind::kAdvice,
        "load the driver with coherent memory on; never bind CPUs to those nodes", "", "D01",
        grace_memory_is_online},
};

}  // namespace

std::span<const Check> gpu_link_checks() { return kChecks; }

}  // namespace cheetah::doctor

// GPU: PCIe, NVLink, fabric, and how near NICs are.
#include <algorithm>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostReplays = 100;  // since boot; a clean link has none

const PciDevice* pci_of(const Facts& facts, const Gpu& gpu) { return facts.pci.find(gpu.address()); }

Outcome gpu_links_are_wide(const Facts& facts) {
  std::vector<Subject> narrow;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto width = gpu.number("pcie.width"), most = gpu.number("pcie.width.max");
    if (!width || !most) continue;
    ++told;
    if (*width < *most)
      narrow.push_back({format("{}", gpu.index), format("x{:.0f} of x{:.0f}", *width, *most)});
  }
  if (told == 0)
    for (const PciDevice* device : facts.pci.gpus()) {
      if (!device->width || !device->max_width) continue;
      ++told;
      if (*device->width < *device->max_width)
        narrow.push_back({device->address, format("x{} of x{}", *device->width, *device->max_width)});
    }
  if (told == 0) return not_applicable("no GPU tells its PCIe link");
  Outcome outcome = bad_if_any(std::move(narrow), "GPUs run on fewer PCIe lanes than they have",
                               "every GPU has all its PCIe lanes");
  outcome.evidence.push_back(
      {facts.gpu.gpus ? facts.gpu.gpus.source() : "sys/bus/pci/devices", format("{} links", told)});
  return outcome;
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

Outcome nvlinks_are_up(const Facts& facts) {
  std::vector<Subject> down;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto present = gpu.number("nvlink.present"), up = gpu.number("nvlink.up");
    if (!present || !up || facts.gpu.count() < 2) continue;
    ++told;
    if (*up < *present)
      down.push_back({format("{}", gpu.index), format("{:.0f} of {:.0f} up", *up, *present)});
  }
  if (told == 0) return not_applicable("there are no two GPUs with NVLink");
  return bad_if_any(std::move(down), "NVLinks are down", "every NVLink is up");
}

Outcome nvlinks_are_clean(const Facts& facts) {
  std::vector<Subject> noisy;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto errors = gpu.number("nvlink.errors");
    if (!errors) continue;
    ++told;
    if (*errors > 0) noisy.push_back({format("{}", gpu.index), format("{:.0f} errors", *errors)});
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
  return bad_if_any(std::move(waiting), "GPUs have not joined the NVLink fabric",
                    "every GPU has joined the fabric");
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
  return bad_if_any(std::move(apart), "GPUs belong to different NVLink domains",
                    "all GPUs belong to one NVLink domain");
}

Outcome peers_are_near(const Facts& facts) {
  if (facts.gpu.count() < 2)
    return facts.gpu.gpus ? not_applicable("there is one GPU") : without(facts.gpu.gpus);
  std::vector<Subject> far;
  int told = 0;
  bool any_nvlink = false;
  for (const Gpu& gpu : *facts.gpu.gpus)
    any_nvlink = any_nvlink || contains(gpu.text("peers").value_or(""), "nvlink");
  for (const Gpu& gpu : *facts.gpu.gpus) {
    const std::string peers = gpu.text("peers").value_or("");
    for (const std::string_view peer : split(peers, ',')) {
      const size_t colon = peer.find(':');
      if (colon == std::string_view::npos) continue;
      ++told;
      const std::string_view way = peer.substr(colon + 1);
      if (way == "none" || (any_nvlink && way != "nvlink"))
        far.push_back({format("{}-{}", gpu.index, peer.substr(0, colon)),
                       way == "none" ? "no direct copies" : std::string(way)});
    }
  }
  if (told == 0) return not_applicable("the driver does not tell how GPUs reach each other");
  return bad_if_any(std::move(far), "pairs of GPUs copy the long way",
                    any_nvlink ? "every pair of GPUs has NVLink" : "every pair of GPUs copies directly");
}

Outcome gpudirect_is_possible(const Facts& facts) {
  if (!facts.has_gpu() || !facts.network.has_rdma())
    return not_applicable("there is no pair of GPU and RDMA adapter");
  return given(
      [&](const std::vector<std::string>&, const std::string& kernel) {
        if (facts.host.has_module("nvidia_peermem")) return good("nvidia_peermem is loaded");
        const bool dma_buf = facts.gpu.module_license.is("open") && compare_versions(kernel, "5.12") >= 0;
        return dma_buf ? good("the open driver shares GPU memory by DMA-BUF")
                       : bad("neither nvidia_peermem nor DMA-BUF: RDMA goes through host memory");
      },
      facts.host.modules, facts.host.kernel);
}

Outcome bar_maps_all_memory(const Facts& facts) {
  if (!facts.network.has_rdma()) return not_applicable("there is no RDMA adapter");
  std::vector<Subject> small;
  int told = 0;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    const auto bar = gpu.number("bar1.total"), total = gpu.number("memory.total");
    if (!bar || !total) continue;
    ++told;
    if (*bar < *total) small.push_back({format("{}", gpu.index), human_bytes(*bar)});
  }
  if (told == 0) return not_applicable("no GPU tells the size of its BAR1");
  return bad_if_any(std::move(small), "adapters cannot reach all GPU memory (BAR1 too small)",
                    "adapters reach all GPU memory");
}

std::vector<const PciDevice*> rdma_devices(const Facts& facts) {
  std::vector<const PciDevice*> devices;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    if (const PciDevice* device = facts.pci.find(port.pci)) devices.push_back(device);
  return devices;
}

Outcome adapters_are_near(const Facts& facts) {
  const auto adapters = rdma_devices(facts);
  if (adapters.empty() || facts.pci.gpus().empty())
    return not_applicable("there is no pair of GPU and RDMA adapter");
  std::vector<Subject> far;
  for (const PciDevice* gpu : facts.pci.gpus()) {
    Nearness best = Nearness::kSys;
    for (const PciDevice* adapter : adapters) best = std::min(best, nearness(*gpu, *adapter));
    if (best > Nearness::kPxb) far.push_back({gpu->address, name_of(best)});
  }
  if (facts.host.is_virtual.value_or(false) && !far.empty())
    return note("the virtual machine hides the PCI switches");
  return bad_if_any(std::move(far), "GPUs have no adapter below their PCI switch",
                    "every GPU has an adapter below its PCI switch");
}

Outcome grace_memory_is_online(const Facts& facts) {
  bool grace = false;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    grace = grace || contains(gpu.name(), "GH200") || contains(gpu.name(), "GB200") ||
            contains(gpu.name(), "GB300");
  if (!grace) return not_applicable("this is no Grace system");
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
     "latency spikes; the link may drop", FixKind::kFirmware, "reseat or replace the riser of GPU {it}", "",
     "J10", links_do_not_replay},
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
     "no GPU, or no NVLink", FixKind::kCommand, "systemctl restart nvidia-fabricmanager", "", "G09",
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
     "half the network bandwidth, and CPU time", FixKind::kCommand, "modprobe nvidia-peermem",
     "modprobe -r nvidia-peermem", "O01", gpudirect_is_possible},
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

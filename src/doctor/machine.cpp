// SPDX-License-Identifier: MIT
#include "doctor/machine.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "doctor/facts.h"

namespace cheetah::doctor {
namespace {

Cloud cloud_of(const HostFacts& host) {
  const std::string vendor = host.vendor.value_or(""), asset = host.asset_tag.value_or("");
  if (contains(vendor, "Amazon EC2")) return Cloud::kAws;
  if (contains(vendor, "Google")) return Cloud::kGoogle;
  if (contains(asset, "OracleCloud")) return Cloud::kOracle;
  if (contains(vendor, "Microsoft") && host.product.value_or("") == "Virtual Machine") return Cloud::kAzure;
  for (const char* name : {"Alibaba Cloud", "DigitalOcean", "OpenStack", "Tencent", "Hetzner", "Nebius"})
    if (contains(vendor, name)) return Cloud::kOther;
  return Cloud::kNone;
}

bool is_virtual(const HostFacts& host) {
  if (host.is_virtual.value_or(false)) return true;
  const std::string vendor = host.vendor.value_or(""), product = host.product.value_or("");
  // Arm has no flag for it; the firmware's names tell.
  if (host.has_x86_flags) return false;
  return contains(vendor, "QEMU") || contains(product, "KVM") || contains(product, "Virtual Machine") ||
         contains(product, "Google Compute Engine") ||
         (contains(vendor, "Amazon EC2") && !contains(product, "metal"));
}

bool is_grace(const Facts& facts) {
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    for (const char* name : {"GH200", "GB200", "GB300"})
      if (contains(gpu.name(), name)) return true;
  for (const char* name : {"GH200", "GB200", "GB300", "Grace"})
    if (contains(facts.host.product.value_or(""), name)) return true;
  return false;
}

bool has_nvswitch(const Facts& facts) {
  for (const PciDevice& device : facts.pci.devices.value_or({}))
    if (device.vendor == 0x10de && device.class_code >> 8 == 0x0680) return true;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({})) {
    if (gpu.number("fabric.state").value_or(0) > 0) return true;
    // SXM boards are wired all to all; PCIe cards have bridges at most.
    for (const char* name : {"SXM", "HBM3", "B200", "B300"})
      if (contains(gpu.name(), name) && !contains(gpu.name(), "PCIe") && !contains(gpu.name(), "NVL") &&
          !contains(gpu.name(), "SXM2"))  // a cube of links: not every pair is wired
        return true;
    if (gpu.name() == "NVIDIA H200") return true;
  }
  return false;
}

// Ports of one kind of card in one kind of slot may be compared with each other.
struct Kind {
  int64_t vendor = 0, device = 0;
  size_t ports_of_card = 0;
  std::string link_layer;  // left out where the place in the machine already tells
  auto operator<=>(const Kind&) const = default;
};

struct Group {
  std::vector<const RdmaPort*> ports;
  double best_rate = 0;
  double weight() const { return best_rate * static_cast<double>(ports.size()); }
};

Kind kind_of(const Facts& facts, const RdmaPort& port, bool with_link_layer) {
  Kind kind;
  if (const PciDevice* device = facts.pci.find(port.pci)) {
    kind.vendor = device->vendor;
    kind.device = device->device;
  }
  for (const RdmaPort& other : *facts.network.rdma)
    kind.ports_of_card += slot_of(other.pci) == slot_of(port.pci) && !port.pci.empty() ? 1 : 0;
  if (with_link_layer) kind.link_layer = port.link_layer.value_or("");
  return kind;
}

bool is_near_a_gpu(const Facts& facts, const RdmaPort& port) {
  const PciDevice* adapter = facts.pci.find(port.pci);
  if (adapter == nullptr) return false;
  for (const PciDevice* gpu : facts.pci.gpus())
    if (nearness(*gpu, *adapter) <= Nearness::kPxb) return true;
  return false;
}

// Rails are the adapters that share PCI switches with GPUs; where none does, the kind of card that brings the
// most bandwidth. Storage, management and data processing cards are another kind or sit elsewhere.
void find_rail_ports(const Facts& facts, MachineModel& machine) {
  if (!facts.network.rdma) return;
  std::vector<const RdmaPort*> near;
  for (const RdmaPort& port : *facts.network.rdma)
    if (is_near_a_gpu(facts, port)) near.push_back(&port);
  machine.has_near_rails = !near.empty();
  std::map<Kind, Group> groups;
  const auto add = [&](const RdmaPort& port) {
    Group& group = groups[kind_of(facts, port, near.empty())];
    group.ports.push_back(&port);
    group.best_rate = std::max(group.best_rate, gigabits(port));
  };
  if (near.empty())
    for (const RdmaPort& port : *facts.network.rdma) add(port);
  for (const RdmaPort* port : near) add(*port);
  const auto best = std::max_element(groups.begin(), groups.end(),
      [](const auto& a, const auto& b) { return a.second.weight() < b.second.weight(); });
  if (best == groups.end()) return;
  for (const RdmaPort* port : best->second.ports) machine.rail_ports.insert(port->device + "/" + port->port);
}

// The interfaces of the rails; without RDMA the largest set of equal fast adapters.
void find_rail_nics(const Facts& facts, MachineModel& machine) {
  if (!facts.network.nics) return;
  std::set<std::string> rails;
  for (const RdmaPort& port : facts.network.rdma.value_or({}))
    if (machine.is_rail(port)) rails.insert(port.pci);
  for (const Nic& nic : *facts.network.nics)
    if (!nic.is_virtual && !nic.pci.empty() && rails.contains(nic.pci)) machine.rail_nics.insert(nic.name);
  if (facts.network.has_rdma()) return;
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, std::vector<std::string>>> kinds;
  for (const Nic* nic : facts.network.fast_nics()) {
    const PciDevice* device = facts.pci.find(nic->pci);
    auto& [speed, names] =
        kinds[{device == nullptr ? 0 : device->vendor, device == nullptr ? 0 : device->device}];
    speed += *nic->speed_mbps;
    names.push_back(nic->name);
  }
  const auto best = std::max_element(kinds.begin(), kinds.end(),
      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  if (best != kinds.end()) machine.rail_nics.insert(best->second.second.begin(), best->second.second.end());
}

}  // namespace

std::string_view slot_of(std::string_view address) { return address.substr(0, address.find('.')); }

double gigabits(const RdmaPort& port) {
  const std::string rate = port.rate.value_or("");
  const auto words = words_of(rate);
  return words.empty() ? 0 : to_number(words[0]).value_or(0);
}

bool is_active(const RdmaPort& port) { return contains(port.state.value_or(""), "ACTIVE"); }

bool is_passed_on(const PciDevice& device) {
  return device.driver == "vfio-pci" || device.driver == "pci-stub" ||
         device.driver == "nvgrace-gpu-vfio-pci";
}

std::vector<const PciDevice*> own_gpus(const PciFacts& pci) {
  std::vector<const PciDevice*> own = pci.gpus();
  std::erase_if(own, [](const PciDevice* gpu) { return is_passed_on(*gpu); });
  return own;
}

MachineModel describe_machine(const Facts& facts) {
  MachineModel machine;
  machine.cloud = cloud_of(facts.host);
  machine.is_virtual = is_virtual(facts.host);
  machine.is_container = facts.container.runtime.known();
  machine.is_grace = is_grace(facts);
  machine.has_nvswitch = has_nvswitch(facts);
  find_rail_ports(facts, machine);
  find_rail_nics(facts, machine);
  return machine;
}

}  // namespace cheetah::doctor

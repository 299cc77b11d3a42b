// SPDX-License-Identifier: MIT
// PCIe: links of adapters, disks and switches, and what devices had to send again.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "doctor/check.h"

namespace cheetah::doctor {
namespace {

// "32.0 GT/s PCIe" -> 32
double transfers(const Value<std::string>& speed) {
  const std::string text = speed.value_or("");
  const auto words = words_of(text);
  return words.empty() ? 0 : to_number(words[0]).value_or(0);
}

// What a link could be: the less of what the device and the port above it can do. Without a port above, what the
// device can do counts when another card of its kind does it.
struct Link {
  double width = 0, speed = 0, full_width = 0, full_speed = 0;
  bool is_known() const { return width > 0 && full_width > 0; }
  bool is_reduced() const { return width < full_width || (speed > 0 && speed < full_speed); }
  double share() const { return width * std::max(speed, 1.0) / (full_width * std::max(full_speed, 1.0)); }
  // After the line code of the generations from 8 GT/s on, and a little for packet headers.
  double gigabits() const { return width * speed * (speed < 8 ? 0.8 : 0.97); }
  std::string text() const {
    return format("x{:.0f} at {:.0f} GT/s of x{:.0f} at {:.0f} GT/s", width, speed, full_width, full_speed);
  }
};

class Links {
 public:
  explicit Links(const Facts& facts) {
    if (!facts.pci.devices) return;
    for (const PciDevice& device : *facts.pci.devices) {
      by_address_[device.address] = &device;
      auto& [width, speed] = best_[{device.vendor, device.device}];
      width = std::max(width, static_cast<double>(device.width.value_or(0)));
      speed = std::max(speed, transfers(device.speed));
    }
  }

  Link of(const PciDevice& device) const {
    Link link;
    link.width = static_cast<double>(device.width.value_or(0));
    link.speed = transfers(device.speed);
    const auto above = device.path.empty() ? by_address_.end() : by_address_.find(device.path.back());
    const bool has_port = above != by_address_.end() && above->second->max_width.value_or(0) > 0;
    const auto best = best_.find({device.vendor, device.device});
    const double port_width = has_port ? static_cast<double>(*above->second->max_width) : best->second.first,
                 port_speed = has_port ? transfers(above->second->max_speed) : best->second.second;
    link.full_width = std::min(static_cast<double>(device.max_width.value_or(0)), port_width);
    link.full_speed = std::min(transfers(device.max_speed), port_speed);
    return link;
  }

 private:
  std::map<std::string, const PciDevice*> by_address_;
  std::map<std::pair<int64_t, int64_t>, std::pair<double, double>> best_;  // of each kind: width, speed
};

Outcome links_outcome(std::vector<Subject> reduced, double least_share, int told, const std::string& found,
    const std::string& otherwise) {
  if (told == 0) return not_applicable("no such device tells its PCIe link");
  Outcome outcome = bad_if_any(std::move(reduced), found, format("{} ({} links)", otherwise, told));
  outcome.evidence.push_back({"sys/bus/pci/devices", format("{} links", told)});
  return outcome.verdict == Verdict::kBad ? with_risk(std::move(outcome), 0.3 * (1 - least_share)) : outcome;
}

Outcome adapter_links_are_full(const Facts& facts) {
  if (facts.machine.is_virtual) return not_applicable("a virtual machine's PCIe links are names");
  const Links links(facts);
  std::map<std::string, std::string> names;  // by PCI address
  std::map<std::string, double> rates;       // of the ports of a card: its functions share the link
  for (const Nic& nic : facts.network.nics.value_or({})) {
    if (!nic.is_fast() || nic.is_function) continue;
    names[nic.pci] = nic.name;
    double& rate = rates[std::string(slot_of(nic.pci))];
    rate = std::max(rate, static_cast<double>(*nic.speed_mbps) / 1000);
  }
  for (const RdmaPort& port : facts.network.rdma.value_or({})) {
    if (!is_active(port)) continue;
    names[port.pci] = port.device;
    double& rate = rates[std::string(slot_of(port.pci))];
    rate = std::max(rate, gigabits(port));
  }
  std::vector<Subject> reduced;
  double least = 1;
  int told = 0;
  for (const auto& [address, name] : names) {
    const PciDevice* device = facts.pci.find(address);
    const Link link = device == nullptr ? Link{} : links.of(*device);
    if (!link.is_known()) continue;
    ++told;
    // A slot with fewer lanes than the card is no fault where they suffice for its port.
    if (!link.is_reduced() || link.gigabits() >= rates[std::string(slot_of(address))]) continue;
    least = std::min(least, link.share());
    reduced.push_back({name, format("{}, {}", address, link.text())});
  }
  return links_outcome(std::move(reduced), least, told, "adapters have a part of their PCIe link",
      "adapters have their whole PCIe link");
}

Outcome nvme_links_are_full(const Facts& facts) {
  if (facts.machine.is_virtual) return not_applicable("a virtual machine's PCIe links are names");
  if (!facts.storage.devices) return without(facts.storage.devices);
  const Links links(facts);
  std::vector<Subject> reduced;
  double least = 1;
  int told = 0;
  for (const BlockDevice& disk : *facts.storage.devices) {
    const PciDevice* device = disk.is_nvme() ? facts.pci.find(disk.pci) : nullptr;
    const Link link = device == nullptr ? Link{} : links.of(*device);
    if (!link.is_known()) continue;
    ++told;
    if (!link.is_reduced()) continue;
    least = std::min(least, link.share());
    reduced.push_back({disk.name, format("{}, {}", disk.pci, link.text())});
  }
  return links_outcome(
      std::move(reduced), least, told, "NVMe disks run on a reduced link", "NVMe disks have full links");
}

// The port of a switch that faces the CPU: other bridges lie below it, and a bridge above.
Outcome switch_links_are_full(const Facts& facts) {
  if (facts.machine.is_virtual) return not_applicable("a virtual machine's PCIe links are names");
  if (!facts.pci.devices) return without(facts.pci.devices);
  const Links links(facts);
  std::set<std::string> uplinks;
  for (const PciDevice& device : *facts.pci.devices)
    if (device.is_gpu() || device.is_network())
      for (size_t i = 1; i + 1 < device.path.size(); i += 2) uplinks.insert(device.path[i]);
  std::vector<Subject> reduced;
  double least = 1;
  int told = 0;
  for (const std::string& address : uplinks) {
    const PciDevice* device = facts.pci.find(address);
    const Link link = device == nullptr ? Link{} : links.of(*device);
    if (!link.is_known()) continue;
    ++told;
    if (!link.is_reduced()) continue;
    least = std::min(least, link.share());
    reduced.push_back({address, link.text()});
  }
  return links_outcome(std::move(reduced), least, told, "PCI switches have a part of their link to the CPU",
      "PCI switches have their whole link to the CPU");
}

Outcome devices_repeat_nothing(const Facts& facts) {
  if (!facts.pci.devices) return without(facts.pci.devices);
  std::vector<Subject> noisy;
  int told = 0;
  const double most = 1000 + 100 * facts.host.uptime_s / 86400;
  for (const PciDevice& device : *facts.pci.devices) {
    if (!device.corrected_errors && !device.fatal_errors) continue;
    ++told;
    if (device.fatal_errors.value_or(0) > 0 && !device.is_gpu())
      noisy.push_back({device.address, format("{} fatal errors", *device.fatal_errors)});
    else if (static_cast<double>(device.corrected_errors.value_or(0)) > most)
      noisy.push_back({device.address, format("{} corrected errors since boot", *device.corrected_errors)});
  }
  if (told == 0) return not_applicable("no device counts its PCIe errors");
  return bad_if_any(
      std::move(noisy), "PCIe devices repeat transfers", format("{} PCIe devices are clean", told));
}

constexpr Check kChecks[] = {
    {"NET-32", Layer::kNetwork, Level::kFail, 0.15, "Adapters have their whole PCIe link",
        "An adapter on half its lanes, or an older generation, cannot take what its port delivers.",
        "network bandwidth in proportion", FixKind::kFirmware,
        "reseat {it}; check the slot's lanes, bifurcation and generation in the BIOS", "", "C06",
        adapter_links_are_full},
    {"STO-05", Layer::kStorage, Level::kWarn, 0.05, "NVMe disks have full links",
        "Fewer lanes or an older generation cap the disk.", "in proportion to the link", FixKind::kFirmware,
        "move {it} to another slot; check bifurcation", "", "J09", nvme_links_are_full},
    {"GPU-40", Layer::kGpu, Level::kFail, 0.15, "PCI switches have their whole link to the CPU",
        "All GPUs, adapters and disks below a switch share its link to the CPU.",
        "host transfers of several GPUs in proportion", FixKind::kFirmware,
        "reseat the riser or cable of switch {it}; ask the vendor", "", "C06", switch_links_are_full},
    {"HST-50", Layer::kHost, Level::kWarn, 0.05, "PCIe devices repeat nothing",
        "Corrected errors by the thousand are a bad contact: each is a transfer sent again.",
        "latency spikes; the link may drop", FixKind::kFirmware, "reseat {it}, or its riser and cable", "",
        "J10", devices_repeat_nothing},
};

}  // namespace

std::span<const Check> link_checks() { return kChecks; }

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#include "doctor/facts/pci.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

const std::string kFolder = "sys/bus/pci/devices";
constexpr int kMaxDevices = 4096;
constexpr int64_t kMaxInterruptBytes = int64_t{16} << 20;
constexpr int64_t kConfigBytes = 4096;

bool is_address(std::string_view name) {  // 0000:17:00.0
  return name.size() >= 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

uint32_t word_at(std::string_view bytes, size_t offset) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word |= uint32_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return word;
}

// Walks the extended capabilities to Access Control Services (id 13) and looks at the request and completion
// redirect bits (2, 3) of its control register: with them on, traffic between two GPUs below one switch goes
// up to the root complex and back.
Value<bool> read_redirect(const Source& source, const std::string& path) {
  const Text config = source.read(path, kConfigBytes);
  if (!config.ok()) return Value<bool>::absent(config);
  if (config.text.size() <= 0x100)
    return Value<bool>::unreadable(path, "only root may read past the first 64 bytes");
  size_t offset = 0x100;
  for (int steps = 0; steps < 64 && offset >= 0x100 && offset + 8 <= config.text.size(); ++steps) {
    const uint32_t header = word_at(config.text, offset);
    if ((header & 0xffff) == 13) return {((word_at(config.text, offset + 4) >> 16) & 0xc) != 0, path};
    offset = header >> 20;
  }
  return {false, path};
}

std::vector<std::string> bridges_above(const std::string& link) {
  std::vector<std::string> path;
  for (const std::string_view part : split(link, '/'))
    if (is_address(part)) path.emplace_back(part);
  if (!path.empty()) path.pop_back();  // the device itself
  return path;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void read_link(const Source& source, const std::string& folder, PciDevice& device) {
  device.speed = read_line(source, folder + "/current_link_speed");
  device.max_speed = read_line(source, folder + "/max_link_speed");
  device.width = read_integer(source, folder + "/current_link_width");
  device.max_width = read_integer(source, folder + "/max_link_width");
}

void read_errors(const Source& source, const std::string& folder, PciDevice& device) {
  const auto count = [](const Value<Fields>& fields, const char* name, Value<int64_t>& into) {
    if (!fields) return;
    if (const auto total = number_in(*fields, name)) into = {static_cast<int64_t>(*total), fields.source()};
  };
  count(read_fields(source, folder + "/aer_dev_fatal", ' '), "TOTAL_ERR_FATAL", device.fatal_errors);
  const auto corrected = read_fields(source, folder + "/aer_dev_correctable", ' ');
  count(corrected, "TOTAL_ERR_COR", device.corrected_errors);
  count(corrected, "Rollover", device.replays);
}

PciDevice read_device(const Source& source, const std::string& address) {
  const std::string folder = kFolder + "/" + address;
  PciDevice device;
  device.address = address;
  device.vendor = read_integer(source, folder + "/vendor").value_or(0);
  device.device = read_integer(source, folder + "/device").value_or(0);
  device.class_code = read_integer(source, folder + "/class").value_or(0);
  device.path = bridges_above(source.link(folder));
  if (device.is_bridge()) device.redirects_peers = read_redirect(source, folder + "/config");
  if (!device.is_gpu() && !device.is_network() && !device.is_nvme() && !device.is_bridge()) return device;
  read_link(source, folder, device);
  read_errors(source, folder, device);
  if (device.is_bridge()) return device;
  device.subsystem = read_integer(source, folder + "/subsystem_device").value_or(0);
  const std::string group = source.link(folder + "/iommu_group");
  if (!group.empty())
    device.iommu_type =
        read_line(source, "sys/kernel/iommu_groups/" + base_name(group) + "/type").value_or("");
  device.node = read_integer(source, folder + "/numa_node");
  device.local_cpus = read_cpus(source, folder + "/local_cpulist");
  device.driver = base_name(source.link(folder + "/driver"));
  for (const std::string& irq : source.list(folder + "/msi_irqs"))
    if (const auto number = to_integer(irq)) device.interrupts.push_back(static_cast<int>(*number));
  return device;
}

Value<std::vector<PciDevice>> read_devices(const Source& source) {
  std::vector<PciDevice> devices;
  for (const std::string& address : source.list(kFolder)) {
    if (!is_address(address)) continue;
    devices.push_back(read_device(source, address));
    if (devices.size() >= kMaxDevices) break;
  }
  if (devices.empty()) return Value<std::vector<PciDevice>>::absent(kFolder, "no PCI device is visible");
  return {std::move(devices), kFolder};
}

bool concerns_us(std::string_view name) {
  for (const char* part :
      {"nvidia", "mlx", "nvme", "bnxt", "ena-", "ice-", "i40e", "irdma", "efa", "eth", "eno"})
    if (contains(name, part)) return true;
  return false;
}

// The line of an interrupt: number, a count a CPU, controller, trigger, name.
std::optional<Interrupt> parse_interrupt(std::string_view line, size_t num_cpus) {
  const size_t colon = line.find(':');
  const auto number = to_integer(line.substr(0, colon == std::string_view::npos ? 0 : colon));
  if (!number || *number < 0 || *number > 1'000'000) return std::nullopt;
  const auto words = words_of(line.substr(colon + 1));
  if (words.size() <= num_cpus) return std::nullopt;
  Interrupt interrupt;
  interrupt.number = static_cast<int>(*number);
  interrupt.name = printable(words.back());
  for (size_t i = 0; i < num_cpus; ++i) interrupt.count += to_number(words[i]).value_or(0);
  return interrupt;
}

Value<std::vector<Interrupt>> read_interrupts(const Source& source) {
  const Text text = source.read("proc/interrupts", kMaxInterruptBytes);
  if (!text.ok()) return Value<std::vector<Interrupt>>::absent(text);
  const auto lines = lines_of(text.text);
  const size_t num_cpus = lines.empty() ? 0 : words_of(lines[0]).size();
  std::vector<Interrupt> interrupts;
  for (size_t i = 1; i < lines.size() && interrupts.size() < 8192; ++i) {
    auto interrupt = parse_interrupt(lines[i], num_cpus);
    if (!interrupt || !concerns_us(interrupt->name)) continue;
    const std::string folder = "proc/irq/" + std::to_string(interrupt->number);
    const auto allowed = read_cpus(source, folder + "/smp_affinity_list");
    auto cpus = read_cpus(source, folder + "/effective_affinity_list");
    if (!cpus) cpus = allowed;
    interrupt->cpus = cpus.value_or({});
    // NVMe queues get managed interrupts: the kernel spreads them and refuses to move them.
    interrupt->managed = starts_with(interrupt->name, "nvme");
    interrupts.push_back(std::move(*interrupt));
  }
  return {std::move(interrupts), text.path};
}

}  // namespace

const PciDevice* PciFacts::find(std::string_view address) const {
  if (devices)
    for (const PciDevice& device : *devices)
      if (device.address == address) return &device;
  return nullptr;
}

std::vector<const PciDevice*> PciFacts::gpus() const {
  std::vector<const PciDevice*> found;
  if (devices)
    for (const PciDevice& device : *devices)
      if (device.is_gpu()) found.push_back(&device);
  return found;
}

PciFacts collect_pci(const Source& source) { return {read_devices(source), read_interrupts(source)}; }

Nearness nearness(const PciDevice& a, const PciDevice& b) {
  size_t shared = 0;
  while (shared < a.path.size() && shared < b.path.size() && a.path[shared] == b.path[shared]) ++shared;
  // A shared root port alone means that the path meets in the host bridge's own port: one switch below it.
  if (shared > 0) {
    const size_t apart = (a.path.size() - shared) + (b.path.size() - shared);
    return apart <= 2 ? Nearness::kPix : Nearness::kPxb;
  }
  if (a.node && b.node && *a.node == *b.node) {
    const bool same_host_bridge = a.address.substr(0, 4) == b.address.substr(0, 4) && !a.path.empty() &&
                                  !b.path.empty() && a.path[0].substr(0, 7) == b.path[0].substr(0, 7);
    return same_host_bridge ? Nearness::kPhb : Nearness::kNode;
  }
  return Nearness::kSys;
}

const char* name_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::kPix:
      return "PIX";
    case Nearness::kPxb:
      return "PXB";
    case Nearness::kPhb:
      return "PHB";
    case Nearness::kNode:
      return "NODE";
    case Nearness::kSys:
      break;
  }
  return "SYS";
}

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "doctor/value.h"

namespace cheetah::doctor {

struct PciDevice {
  std::string address;  // 0000:17:00.0
  int64_t vendor = 0, device = 0, class_code = 0, subsystem = 0;
  Value<int64_t> node;
  Value<std::vector<int>> local_cpus;
  Value<std::string> speed, max_speed;  // "32.0 GT/s PCIe"
  Value<int64_t> width, max_width;
  std::string driver;
  std::string iommu_type;         // of its IOMMU group: identity, DMA, DMA-FQ; "" unknown
  std::vector<std::string> path;  // bridges from the root port down, without the device itself
  std::vector<int> interrupts;
  Value<bool> redirects_peers;  // a bridge with ACS request or completion redirection on
  Value<int64_t> fatal_errors, corrected_errors, replays;

  bool is_gpu() const { return vendor == 0x10de && (class_code >> 8 == 0x0302 || class_code >> 8 == 0x0300); }
  bool is_bridge() const { return class_code >> 8 == 0x0604; }
  bool is_nvme() const { return class_code >> 8 == 0x0108; }
  bool is_network() const { return class_code >> 16 == 0x02; }
};

struct Interrupt {
  int number = 0;
  std::string name;
  std::vector<int> cpus;  // where it is delivered
  bool managed = false;   // the kernel placed it and no tool may move it
  double count = 0;
};

struct PciFacts {
  Value<std::vector<PciDevice>> devices;
  Value<std::vector<Interrupt>> interrupts;

  const PciDevice* find(std::string_view address) const;
  std::vector<const PciDevice*> gpus() const;
};

PciFacts collect_pci(const Source& source);

// How near two devices are, as nvidia-smi names it: PIX one switch, PXB several, PHB the host bridge, NODE
// the same NUMA node, SYS across nodes.
enum class Nearness { kPix, kPxb, kPhb, kNode, kSys };
Nearness nearness(const PciDevice& a, const PciDevice& b);
const char* name_of(Nearness nearness);

}  // namespace cheetah::doctor

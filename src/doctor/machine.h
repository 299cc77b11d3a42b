// SPDX-License-Identifier: MIT
#pragma once
// What the machine is made of, worked out once from PCI, sysfs, NVML and the container's view. Checks ask it
// instead of names and drivers: which ports are rails, whose network this is, which GPUs are ours.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/cpu.h"
#include "doctor/facts/gpu.h"
#include "doctor/facts/host.h"
#include "doctor/facts/network.h"
#include "doctor/facts/pci.h"
#include "doctor/facts/storage.h"

namespace cheetah::doctor {

enum class Cloud { kNone, kAws, kGoogle, kAzure, kOracle, kOther };

struct MachineModel {
  Cloud cloud = Cloud::kNone;
  bool is_virtual = false;
  bool is_container = false;
  bool is_grace = false;                          // GPU and CPU on one module: GH200, GB200, GB300
  bool has_nvswitch = false;                      // every GPU reaches every other over NVLink
  bool has_near_rails = false;                    // adapters and GPUs share PCI switches
  std::set<std::string, std::less<>> rail_ports;  // "mlx5_0/1"
  std::set<std::string, std::less<>> rail_nics;   // names of network interfaces

  bool is_rail(const RdmaPort& port) const { return rail_ports.contains(port.device + "/" + port.port); }
  bool is_rail(const Nic& nic) const { return rail_nics.contains(nic.name); }
  bool is_cloud() const { return cloud != Cloud::kNone; }
};

struct Facts;
MachineModel describe_machine(const Facts& facts);

// The slot of a PCI address: functions of one card share it.
std::string_view slot_of(std::string_view address);
// "400 Gb/sec (4X NDR)" -> 400; 0 unknown.
double gigabits(const RdmaPort& port);
bool is_active(const RdmaPort& port);
// GPUs that a virtual machine was given, or is to be given: not this kernel's to drive.
bool is_passed_on(const PciDevice& device);
// The GPUs of the bus that this kernel should drive.
std::vector<const PciDevice*> own_gpus(const PciFacts& pci);

}  // namespace cheetah::doctor

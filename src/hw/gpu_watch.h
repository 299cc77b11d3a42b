// SPDX-License-Identifier: MIT
#pragma once
// What a GPU does at a moment, as its driver tells it. Reads only.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hw/nvml.h"

namespace cheetah {

// What the driver did not tell is absent.
struct GpuReading {
  bool known = false;
  std::optional<double> sm_mhz = {}, memory_mhz = {}, celsius = {}, watts = {};
  std::optional<double> utilization = {};  // share of the time in which a kernel ran, 0 to 1
  std::optional<int64_t> memory_used_bytes = {}, memory_total_bytes = {};
  std::optional<uint64_t> throttle_bits = {};  // NVML's clock event reasons
  uint64_t uncorrected_errors = 0;             // of the memory, since the driver was loaded
};

// Why a clock is held down: a bit of throttle_bits and its short name.
struct ThrottleReason {
  uint64_t bit;
  const char* name;
};
std::span<const ThrottleReason> throttle_reasons();

// One GPU's readings. Any thread may read.
class GpuWatch {
 public:
  // By its address on the bus, "0000:1a:00.0", which every library knows it under.
  explicit GpuWatch(std::string pci_address, const std::string& library = NvmlLibrary::kDriversOwn);
  ~GpuWatch();
  GpuReading read() const;             // known is false without NVML or without such a GPU
  std::string driver_version() const;  // "" without
  const std::string& pci_address() const { return pci_address_; }

 private:
  std::string pci_address_;
  NvmlLibrary nvml_;
  void* device_ = nullptr;
};

// Reads a GPU a few times a second from construction to stop().
class GpuRecorder {
 public:
  explicit GpuRecorder(std::shared_ptr<const GpuWatch> watch);
  GpuRecorder(const GpuRecorder&) = delete;
  GpuRecorder& operator=(const GpuRecorder&) = delete;
  std::vector<GpuReading> stop();  // what was known; nothing without NVML

 private:
  std::vector<GpuReading> readings_;  // the thread's until it has ended
  std::jthread thread_;
};

}  // namespace cheetah

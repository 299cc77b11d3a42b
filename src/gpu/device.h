// SPDX-License-Identifier: MIT
#pragma once
// Which CUDA device there is and what it can do.
#include <cstdint>
#include <string>

namespace cheetah::gpu {

struct Availability {
  bool available = false;
  std::string reason;  // one sentence when not: no CUDA in this build, no driver, no device, too old a driver
  explicit operator bool() const { return available; }
};
// Never throws; asks the driver once per process.
const Availability& cuda_available();

struct DeviceInfo {
  int index = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int num_sms = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  // the most a block can ask for
  double clock_mhz = 0;                // the most, as the driver states it
  double memory_clock_mhz = 0;
  int memory_bus_bits = 0;
  int driver_version = 0;   // of CUDA that the driver speaks: 13000 is 13.0
  int runtime_version = 0;  // of CUDA that this program was built with

  bool is_hopper() const { return compute_major == 9; }
};
// Throws Error with cuda_available()'s reason, or when there is no such device.
DeviceInfo query_device(int index = 0);

struct DeviceMemoryBytes {
  int64_t free = 0;
  int64_t total = 0;
};
DeviceMemoryBytes device_memory(int index = 0);

// Makes the device current for the calling thread: what a thread does before its first call on it.
void use_device(int index);

}  // namespace cheetah::gpu

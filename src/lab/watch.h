#pragma once
// What happens around a measurement: the GPU's clocks, throttling and memory errors, and what other processes
// take of the CPU. Reads only.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cheetah::lab {

struct GpuReading {
  bool known = false;
  double sm_mhz = 0, memory_mhz = 0, celsius = 0, watts = 0;
  uint64_t throttle_bits = 0;       // NVML's clock event reasons
  uint64_t uncorrected_errors = 0;  // of the memory, since the driver was loaded
};

struct CpuReading {
  double busy_s = 0;    // of all cores, all processes
  double stolen_s = 0;  // taken by the hypervisor
  double own_s = 0;     // of this process
  double wall_s = 0;
  int cores = 1;
};

// From two readings, sentences about what may have bent the times between them; empty when all was quiet.
std::vector<std::string> disturbances(const GpuReading& before, const GpuReading& after);
std::vector<std::string> disturbances(const CpuReading& before, const CpuReading& after);

CpuReading read_cpu();

// NVML, loaded at run time.
class GpuWatch {
 public:
  explicit GpuWatch(int device_index, const std::string& library = "libnvidia-ml.so.1");
  ~GpuWatch();
  GpuReading read() const;             // known is false without NVML
  std::string driver_version() const;  // "" without

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace cheetah::lab

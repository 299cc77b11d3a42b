// SPDX-License-Identifier: MIT
#pragma once
// What happens around a measurement: the GPU's clocks, throttling and memory errors, and what other processes
// take of the CPU. Reads only.
#include <string>
#include <vector>

#include "hw/gpu_watch.h"

namespace cheetah::lab {

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

}  // namespace cheetah::lab

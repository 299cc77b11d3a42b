#pragma once
#include <cstdint>
#include <string>

namespace cheetah {

struct CpuInfo {
  std::string model;  // as the kernel names it
  int logical_cores = 0;
  int usable_cores = 0;  // physical cores this process may use
};

CpuInfo read_cpu_info();

// Memory this process can still take: the least of what the kernel calls available and what the cgroup
// allows.
int64_t available_memory_bytes();

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cheetah {

struct CpuCache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  int64_t bytes = 0;
  int shared_by = 1;  // logical cores
};

struct CpuInfo {
  std::string model;  // as the kernel names it
  int logical_cores = 0;
  int usable_cores = 0;  // physical cores this process may use
  int numa_nodes = 1;
  std::vector<CpuCache> caches;  // of the first core, nearest first
  std::string simd;              // the best instruction set the kernels were built for and this CPU has
};

// `root` holds proc/ and sys/; tests pass a folder of their own.
CpuInfo read_cpu_info(const std::string& root = "/");

// 0 where the kernel does not tell.
int64_t last_level_cache_bytes();

// Memory this process can still take: the least of what the kernel calls available and what the cgroup
// and the address-space limit allow.
int64_t available_memory_bytes();

}  // namespace cheetah

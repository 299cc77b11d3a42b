#include "hw/cpu.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/thread_pool.h"

namespace cheetah {
namespace {

int64_t read_number(const char* path, int64_t fallback) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : fallback;
}

int64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string rest; file >> key >> kib; std::getline(file, rest))
    if (key == "MemAvailable:") return kib * 1024;
  return INT64_MAX;
}

}  // namespace

CpuInfo read_cpu_info() {
  CpuInfo info;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    info.model = line.substr(line.find(':') + 2);
    break;
  }
  info.logical_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  info.usable_cores = static_cast<int>(usable_cores().size());
  return info;
}

int64_t available_memory_bytes() {
  const int64_t limit =
      read_number("/sys/fs/cgroup/memory.max", INT64_MAX);  // "max" does not parse: no limit
  const int64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
  const int64_t allowed = limit == INT64_MAX ? limit : std::max<int64_t>(0, limit - used);
  return std::min(meminfo_available(), allowed);
}

}  // namespace cheetah

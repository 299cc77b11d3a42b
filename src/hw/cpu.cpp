// SPDX-License-Identifier: MIT
#include "hw/cpu.h"

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/thread_pool.h"

namespace cheetah {
namespace {

int64_t read_number(const std::string& path, int64_t fallback) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : fallback;
}

std::string read_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

int64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string rest; file >> key >> kib; std::getline(file, rest))
    if (key == "MemAvailable:") return kib * 1024;
  return INT64_MAX;
}

std::string model_name(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// "0-3,8-11" names eight.
int count_in_list(const std::string& list) {
  int count = 0;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string range = list.substr(begin, end - begin);
    const size_t dash = range.find('-');
    const int low = std::atoi(range.c_str());
    const int high = dash == std::string::npos ? low : std::atoi(range.c_str() + dash + 1);
    count += std::max(0, high - low + 1);
    begin = end + 1;
  }
  return count;
}

// "32768K" and "32M".
int64_t cache_size(const std::string& text) {
  const int64_t number = std::atoll(text.c_str());
  if (text.ends_with('K')) return number << 10;
  return text.ends_with('M') ? number << 20 : number;
}

std::vector<CpuCache> read_caches(const std::string& root) {
  std::vector<CpuCache> caches;
  for (int index = 0;; ++index) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const auto level = static_cast<int>(read_number(folder + "level", 0));
    if (level == 0) return caches;
    caches.push_back({.level = level,
        .type = read_word(folder + "type"),
        .bytes = cache_size(read_word(folder + "size")),
        .shared_by = std::max(1, count_in_list(read_word(folder + "shared_cpu_list")))});
  }
}

int64_t address_space_left() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const int64_t used = read_number("/proc/self/statm", 0) * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

}  // namespace

CpuInfo read_cpu_info(const std::string& root) {
  CpuInfo info;
  info.model = model_name(root);
  info.logical_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  info.usable_cores = static_cast<int>(usable_cores().size());
  info.numa_nodes = std::max(1, count_in_list(read_word(root + "/sys/devices/system/node/online")));
  info.caches = read_caches(root);
  const auto targets = hwy::SupportedTargets() & HWY_TARGETS;
  info.simd = hwy::TargetName(targets & ~(targets - 1));  // lower bits are better targets
  return info;
}

int64_t last_level_cache_bytes() {
  int64_t bytes = 0;
  for (const CpuCache& cache : read_caches("")) bytes = std::max(bytes, cache.bytes);
  return bytes;
}

int64_t available_memory_bytes() {
  const int64_t limit =
      read_number("/sys/fs/cgroup/memory.max", INT64_MAX);  // "max" does not parse: no limit
  const int64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
  const int64_t allowed = limit == INT64_MAX ? limit : std::max<int64_t>(0, limit - used);
  return std::min({meminfo_available(), allowed, address_space_left()});
}

}  // namespace cheetah

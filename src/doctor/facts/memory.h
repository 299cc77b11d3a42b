// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "doctor/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct SwapArea {
  std::string name;
  int64_t bytes = 0, used = 0;
};

struct MemoryController {
  std::string name;
  Value<int64_t> uncorrected, corrected, size_mb;
};

struct MemoryFacts {
  Value<Fields> meminfo;
  Value<std::vector<SwapArea>> swaps;
  Value<int64_t> swappiness;
  Value<std::string> thp_enabled, thp_defrag;
  Value<int64_t> huge_page_bytes;
  Value<int64_t> numa_balancing, zone_reclaim, overcommit, max_map_count;
  Value<int64_t> dirty_ratio, dirty_background_ratio, dirty_bytes, dirty_background_bytes;
  Value<int64_t> ksm;
  std::vector<MemoryController> controllers;

  Value<double> bytes(const std::string& name) const;  // a line of meminfo, in bytes
};

MemoryFacts collect_memory(const Source& source);

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#pragma once
// One process: the job the person asks about (--pid), or the doctor itself for what a child would inherit.
#include <map>
#include <string>
#include <vector>

#include "doctor/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct ThreadFacts {
  int64_t id = 0;
  Value<std::vector<int>> cpus;
  Value<int64_t> policy;  // 0 other, 1 fifo, 2 round robin, 3 batch
};

struct ProcessFacts {
  std::string id;  // "self" or a number
  Value<Fields> status;
  Value<Fields> limits;  // "Max locked memory" -> soft value
  Value<std::vector<int>> cpus;
  Value<std::vector<std::string>> arguments;
  Value<Fields> environment;  // the variables that concern us, never the others
  Value<std::vector<std::string>> libraries;
  Value<std::map<int, double>> node_bytes;  // NUMA node -> bytes
  Value<Fields> smaps;
  Value<std::vector<ThreadFacts>> threads;
  Value<std::vector<int64_t>> children;
  Value<std::vector<int64_t>> open_flags;  // of its regular files
  Value<std::vector<int>> gpus;  // indices: of the driver's list of processes, or of open device files
  // All processes of the same job: below one launcher, or in the same container or batch job.
  Value<std::vector<int64_t>> relatives;

  bool is_relative(int64_t pid) const;

  Value<double> limit(const std::string& name) const;  // infinity for "unlimited"
  Value<double> status_kb(const std::string& name) const;
};

ProcessFacts collect_process(const Source& source, const std::string& id);

}  // namespace cheetah::doctor

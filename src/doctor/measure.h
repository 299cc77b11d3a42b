// SPDX-License-Identifier: MIT
#pragma once
// Small measurements of a machine, each bounded in time, space and traffic. Loopback alone; one file in a
// folder of the caller's choice, removed at the end.
#include <functional>
#include <string>

#include "doctor/facts/cpu.h"
#include "doctor/facts/measured.h"

namespace cheetah::doctor {

struct MeasureOptions {
  std::string folder = "/tmp";              // for the disk's file
  int64_t file_bytes = int64_t{256} << 20;  // at most, and at most a tenth of what is free
  bool gpu = true;
  std::string nvml_library = "libnvidia-ml.so.1";
};

// One "name=value" line a result; a measurement that cannot be made gives "name=why not".
class Results {
 public:
  void add(const std::string& name, double value);
  void skip(const std::string& name, const std::string& why);
  void append(const Results& other) { text_ += other.text_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void measure_memory(const CpuFacts& cpu,
    Results& results);  // bandwidth and latency a node, gain of huge pages
void measure_cores(const CpuFacts& cpu, Results& results);  // core to core, jitter, wake-up
void measure_disk(const MeasureOptions& options, Results& results);
void measure_loopback(Results& results);
void measure_gpus(const MeasureOptions& options, Results& results);

// All of them; `progress` hears what comes next.
std::string measure_all(const CpuFacts& cpu, const MeasureOptions& options,
    const std::function<void(const std::string&)>& progress);

// The results for a person: aligned, each with its unit.
std::string results_table(const MeasuredFacts& measured);

}  // namespace cheetah::doctor

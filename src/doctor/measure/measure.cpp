// SPDX-License-Identifier: MIT
#include "doctor/measure.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah::doctor {

void Results::add(const std::string& name, double value) { text_ += format("{}={:.6g}\n", name, value); }
void Results::skip(const std::string& name, const std::string& why) {
  text_ += format("{}={}\n", name, printable(why, 200));
}

std::string measure_all(const CpuFacts& cpu, const MeasureOptions& options,
    const std::function<void(const std::string&)>& progress) {
  Results results;
  progress("memory");
  measure_memory(cpu, results);
  progress("cores");
  measure_cores(cpu, results);
  progress("disk");
  measure_disk(options, results);
  progress("loopback network");
  measure_loopback(results);
  if (options.gpu) {
    progress("GPUs");
    measure_gpus(options, results);
  }
  return results.text();
}

}  // namespace cheetah::doctor

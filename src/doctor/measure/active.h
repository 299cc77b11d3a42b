// SPDX-License-Identifier: MIT
#pragma once
// Tests that load a machine for a minute or longer and check what it computes: memory patterns, sustained matrix
// products, links between GPUs, the disk. A GPU that another program uses is left alone.
#include <functional>
#include <string>

#include "doctor/measure.h"

namespace cheetah::doctor {

struct ActiveOptions {
  double seconds = 60;     // for memory and compute together, all GPUs at once
  MeasureOptions measure;  // folder and NVML
  bool disk = true;
};

// "name=value" lines as measure_all gives them; `progress` hears what comes next.
std::string run_active_tests(
    const ActiveOptions& options, const std::function<void(const std::string&)>& progress);

// One GPU, on the calling thread: memory patterns for half of the time, then products.
void test_gpu(int index, double seconds, const MeasureOptions& options, Results& results);
// Copies between each pair of the GPUs, with what arrived checked.
void test_peers(Results& results);

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#pragma once
// The GPU a command computes on, watched while it does.
#include <functional>
#include <span>
#include <string>

#include "base/json.h"
#include "hw/gpu_watch.h"

namespace cheetah {

// Of the first CUDA device, which commands use.
std::shared_ptr<const GpuWatch> watch_gpu();

// What /metrics says of it; none on the CPU.
std::function<std::string()> gpu_metrics(bool on_cuda);

// Median and extremes of the readings, and every reason that held the clock down; null without readings.
Json gpu_readings_json(std::span<const GpuReading> readings);

}  // namespace cheetah

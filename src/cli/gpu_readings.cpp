// SPDX-License-Identifier: MIT
#include "cli/gpu_readings.h"

#include <algorithm>

#include "base/statistics.h"
#include "gpu/pci_address.h"
#include "serve/gpu_metrics.h"

namespace cheetah {
namespace {

Json summary(std::span<const GpuReading> readings, std::optional<double> GpuReading::*number) {
  std::vector<double> values;
  for (const GpuReading& reading : readings)
    if (reading.*number) values.push_back(*(reading.*number));
  if (values.empty()) return nullptr;
  const auto [least, most] = std::ranges::minmax(values);
  return {{"median", median(values)}, {"min", least}, {"max", most}};
}

}  // namespace

std::shared_ptr<const GpuWatch> watch_gpu() { return std::make_shared<GpuWatch>(gpu::pci_address()); }

std::function<std::string()> gpu_metrics(bool on_cuda) {
  if (!on_cuda) return {};
  return [watch = watch_gpu()] { return gpu_metrics_text(watch->read(), watch->pci_address()); };
}

Json gpu_readings_json(std::span<const GpuReading> readings) {
  if (readings.empty()) return nullptr;
  uint64_t bits = 0;
  for (const GpuReading& reading : readings) bits |= reading.throttle_bits.value_or(0);
  Json throttled = Json::array();
  for (const ThrottleReason& reason : throttle_reasons())
    if ((bits & reason.bit) != 0) throttled.push_back(reason.name);
  return {{"readings", readings.size()}, {"sm_mhz", summary(readings, &GpuReading::sm_mhz)},
      {"memory_mhz", summary(readings, &GpuReading::memory_mhz)},
      {"watts", summary(readings, &GpuReading::watts)}, {"celsius", summary(readings, &GpuReading::celsius)},
      {"utilization", summary(readings, &GpuReading::utilization)}, {"throttled", throttled}};
}

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "serve/gpu_metrics.h"

#include "observe/prometheus_text.h"

namespace cheetah {

std::string gpu_metrics_text(const GpuReading& reading, std::string_view pci_address) {
  if (!reading.known) return "";
  PrometheusText out;
  const auto gauge = [&](std::string_view name, std::string_view help, std::optional<double> value) {
    if (!value) return;
    out.gauge(name, help, *value, {{"pci", pci_address}});
  };
  const auto times = [](std::optional<double> value, double unit) {
    return value ? std::optional(*value * unit) : std::nullopt;
  };
  gauge("cheetah_gpu_power_watts", "Power the GPU draws", reading.watts);
  gauge("cheetah_gpu_temperature_celsius", "Temperature of the GPU", reading.celsius);
  gauge("cheetah_gpu_sm_clock_hertz", "Clock of the multiprocessors", times(reading.sm_mhz, 1e6));
  gauge("cheetah_gpu_memory_clock_hertz", "Clock of the GPU's memory", times(reading.memory_mhz, 1e6));
  gauge("cheetah_gpu_utilization_ratio", "Share of the time in which a kernel ran, 0 to 1",
      reading.utilization);
  gauge("cheetah_gpu_memory_used_bytes", "Memory of the GPU in use, by all processes",
      reading.memory_used_bytes);
  gauge("cheetah_gpu_memory_total_bytes", "Memory of the GPU", reading.memory_total_bytes);
  if (!reading.throttle_bits) return out.text();
  out.family("cheetah_gpu_throttled", "gauge", "1 while the reason holds the GPU's clock down");
  for (const ThrottleReason& reason : throttle_reasons())
    out.sample(
        (*reading.throttle_bits & reason.bit) != 0 ? 1 : 0, {{"pci", pci_address}, {"reason", reason.name}});
  return out.text();
}

}  // namespace cheetah

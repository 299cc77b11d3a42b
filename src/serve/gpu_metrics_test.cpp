// SPDX-License-Identifier: MIT
#include "serve/gpu_metrics.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(GpuMetrics, SayWhatIsKnownInBaseUnits) {
  const GpuReading reading{.known = true,
      .sm_mhz = 1980,
      .watts = 420.5,
      .utilization = 0.97,
      .memory_used_bytes = 1 << 20,
      .throttle_bits = 0x4};
  const std::string text = gpu_metrics_text(reading, "0000:1A:00.0");
  for (const char* line : {"cheetah_gpu_power_watts{pci=\"0000:1A:00.0\"} 420.5\n",
           "cheetah_gpu_sm_clock_hertz{pci=\"0000:1A:00.0\"} 1980000000\n",
           "cheetah_gpu_utilization_ratio{pci=\"0000:1A:00.0\"} 0.97\n",
           "cheetah_gpu_memory_used_bytes{pci=\"0000:1A:00.0\"} 1048576\n",
           "cheetah_gpu_throttled{pci=\"0000:1A:00.0\",reason=\"power\"} 1\n",
           "cheetah_gpu_throttled{pci=\"0000:1A:00.0\",reason=\"heat\"} 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ(text.find("celsius"), std::string::npos) << text;
}

TEST(GpuMetrics, SayNothingOfAGpuNothingIsKnownOf) { EXPECT_EQ(gpu_metrics_text({}, "0000:1A:00.0"), ""); }

}  // namespace
}  // namespace cheetah

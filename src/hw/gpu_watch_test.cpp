// SPDX-License-Identifier: MIT
#include "hw/gpu_watch.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(GpuWatch, TellsWhatTheLibraryTells) {
  const GpuWatch watch("0000:1A:00.0", CHEETAH_FAKE_NVML);
  const GpuReading reading = watch.read();
  ASSERT_TRUE(reading.known);
  EXPECT_EQ(reading.watts, 75.5);
  EXPECT_EQ(reading.sm_mhz, 1980);
  EXPECT_EQ(reading.utilization, 0.37);
  EXPECT_EQ(reading.memory_used_bytes, 754820096);
  EXPECT_EQ(reading.memory_total_bytes, 150754820096);
  EXPECT_EQ(reading.throttle_bits, 1u);
  EXPECT_EQ(watch.driver_version(), "580.65.06");
}

TEST(GpuWatch, LeavesOutWhatTheLibraryLacks) {
  EXPECT_FALSE(GpuWatch("0000:1A:00.0", CHEETAH_FAKE_NVML).read().celsius);
}

TEST(GpuWatch, KnowsNothingWithoutTheLibraryOrTheGpu) {
  const GpuWatch unloaded("0000:1A:00.0", "/nonexistent/libnvidia-ml.so.1"),
      absent("0000:FF:00.0", CHEETAH_FAKE_NVML);
  EXPECT_FALSE(unloaded.read().known);
  EXPECT_EQ(unloaded.driver_version(), "");
  EXPECT_FALSE(absent.read().known);
}

TEST(GpuRecorder, ReadsAtLeastOnce) {
  GpuRecorder recorder(std::make_shared<GpuWatch>("0000:2A:00.0", CHEETAH_FAKE_NVML));
  const std::vector<GpuReading> readings = recorder.stop();
  ASSERT_FALSE(readings.empty());
  EXPECT_EQ(readings.front().watts, 75.5);
}

TEST(GpuRecorder, HasNothingToTellWithoutTheLibrary) {
  GpuRecorder recorder(std::make_shared<GpuWatch>("0000:1A:00.0", "/nonexistent/libnvidia-ml.so.1"));
  EXPECT_TRUE(recorder.stop().empty());
}

}  // namespace
}  // namespace cheetah

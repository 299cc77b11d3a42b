// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "doctor/facts/gpu.h"

namespace cheetah::doctor {
namespace {

TEST(Nvml, EveryAnswerOfTheLibraryBecomesALine) {
  const Text text = read_nvml(CHEETAH_FAKE_NVML);
  ASSERT_TRUE(text.ok()) << text.reason;
  const auto gpus = parse_gpus(text.text, "nvml");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name(), "NVIDIA H200");
  EXPECT_EQ(gpus[0].address(), "0000:1a:00.0");
  EXPECT_EQ(*gpus[0].number("cc"), 9.0);
  EXPECT_EQ(*gpus[1].number("persistence"), 0);
  EXPECT_EQ(*gpus[1].number("ecc.uncorrected.volatile"), 3);
  EXPECT_EQ(*gpus[0].number("nvlink.up"), 17);
  EXPECT_EQ(*gpus[0].number("nvlink.present"), 18);
  EXPECT_EQ(*gpus[0].number("power.draw"), 75.5);
  EXPECT_EQ(*gpus[0].text("peers"), "1:nvlink");
  ASSERT_EQ(gpus[0].processes().size(), 1u);
  EXPECT_EQ(gpus[0].processes()[0].pid, 4242);
  EXPECT_NE(text.text.find("driver=580.65.06\ncuda=13.0\n"), std::string::npos);
}

TEST(Nvml, AFunctionTheLibraryLacksLeavesItsLineOut) {
  const auto gpus = parse_gpus(read_nvml(CHEETAH_FAKE_NVML).text, "nvml");
  EXPECT_FALSE(gpus[0].number("temperature"));
  EXPECT_FALSE(gpus[0].number("fabric.state"));
}

TEST(Nvml, AMachineWithoutTheLibraryHasNoDriver) {
  const Text text = read_nvml("libnvidia-ml-that-is-not-here.so.1");
  EXPECT_EQ(text.absence, Absence::kMissing);
  EXPECT_NE(text.reason.find("no NVIDIA driver"), std::string::npos);
}

TEST(NvidiaSmi, ItsTableBecomesTheSameLines) {
  const std::string text = gpu_text_from_csv(
      "driver_version, name, pci.bus_id, persistence_mode, memory.total [MiB], ecc.mode.current, "
      "temperature.gpu\n"
      "580.65.06, NVIDIA H200, 00000000:1A:00.0, Enabled, 143771 MiB, [N/A], 41\n");
  const auto gpus = parse_gpus(text, "csv");
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].address(), "0000:1a:00.0");
  EXPECT_EQ(*gpus[0].number("persistence"), 1);
  EXPECT_EQ(*gpus[0].number("memory.total"), 143771.0 * 1048576);
  EXPECT_EQ(*gpus[0].number("temperature"), 41);
  EXPECT_FALSE(gpus[0].number("ecc.current"));
  EXPECT_NE(text.find("driver=580.65.06"), std::string::npos);
}

}  // namespace
}  // namespace cheetah::doctor

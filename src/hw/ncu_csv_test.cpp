// SPDX-License-Identifier: MIT
#include "hw/ncu_csv.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(NcuCsv, TheRawPageIsReadInBaseUnits) {
  const auto kernels = read_ncu_csv(
      "==PROF== Connected to process 1\nhello from the \"program\n"
      "\"ID\",\"Kernel Name\",\"Block "
      "Size\",\"CC\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"x.pct\"\n"
      "\"\",\"\",\"\",\"\",\"us\",\"Mbyte\",\"%\"\n"
      "\"10\",\"late\",\"(256, 1, 1)\",\"9.0\",\"12.5\",\"1,000.5\",\"n/a\"\n"
      "\"2\",\"early\",\"(1, 1, 1)\",\"9.0\",\"1\",\"2\",\"3\"\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "late");
  EXPECT_EQ(kernels[0].block_size, "(256, 1, 1)");
  EXPECT_EQ(kernels[0].compute_capability, "9.0");
  EXPECT_DOUBLE_EQ(*kernels[0].find({"gpu__time_duration.sum"}), 12500);
  EXPECT_DOUBLE_EQ(*kernels[0].find({"absent", "dram__bytes_read.sum"}), 1000.5e6);
  EXPECT_FALSE(kernels[0].find({"x.pct"}));
}

TEST(NcuCsv, TheDetailsPageKeepsBothMeaningsOfALabel) {
  const auto kernels = read_ncu_csv(
      "\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule "
      "Description\"\n"
      "\"0\",\"k, \"\"x\"\"\",\"GPU Speed Of Light Throughput\",\"Memory Throughput\",\"%\",\"41.5\",\"\"\n"
      "\"0\",\"k, \"\"x\"\"\",\"GPU Speed Of Light Throughput\",\"\",\"\",\"\",\"a rule\nof two lines\"\n"
      "\"0\",\"k, \"\"x\"\"\",\"Memory Workload Analysis\",\"Memory "
      "Throughput\",\"Tbyte/second\",\"1.5\",\"\"\n"
      "\"0\",\"k, \"\"x\"\"\",\"GPU Speed Of Light Throughput\",\"DRAM "
      "Frequency\",\"cycle/nsecond\",\"1.5\",\"\"\n"
      "\"1\",\"k, \"\"x\"\"\",\"GPU Speed Of Light Throughput\",\"Duration\",\"msecond\",\"2\",\"\"\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "k, \"x\"");
  EXPECT_DOUBLE_EQ(*kernels[0].find({"Memory Throughput"}), 41.5);
  EXPECT_DOUBLE_EQ(*kernels[0].find({"Memory Throughput [byte/second]"}), 1.5e12);
  EXPECT_DOUBLE_EQ(*kernels[0].find({"DRAM Frequency"}), 1.5e9);
  EXPECT_DOUBLE_EQ(*kernels[1].find({"Duration"}), 2e6);
}

TEST(NcuCsv, TextWithoutATableGivesNoKernels) {
  EXPECT_TRUE(read_ncu_csv("").empty());
  EXPECT_TRUE(read_ncu_csv("==ERROR== ERR_NVGPUCTRPERM\n\"a\",\"b\"\n\"").empty());
}

}  // namespace
}  // namespace cheetah

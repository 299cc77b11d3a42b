// SPDX-License-Identifier: MIT
#include "hw/cpu.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hw/ceilings.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

TEST(CpuInfo, ReadsModelCachesAndNodesFromTheKernelsFiles) {
  const fs::path root = fs::path(testing::TempDir()) / "cheetah_cpu_test";
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Sample CPU 9000\n");
  write("sys/devices/system/node/online", "0-1\n");
  write("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
  write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
  write("sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
  write("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0,64\n");
  write("sys/devices/system/cpu/cpu0/cache/index1/level", "3\n");
  write("sys/devices/system/cpu/cpu0/cache/index1/type", "Unified\n");
  write("sys/devices/system/cpu/cpu0/cache/index1/size", "32M\n");
  write("sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list", "0-7,64-71\n");
  const CpuInfo info = read_cpu_info(root.string());
  fs::remove_all(root);

  EXPECT_EQ(info.model, "Sample CPU 9000");
  EXPECT_EQ(info.numa_nodes, 2);
  ASSERT_EQ(info.caches.size(), 2u);
  EXPECT_EQ(info.caches[0].bytes, 32 << 10);
  EXPECT_EQ(info.caches[0].shared_by, 2);
  EXPECT_EQ(info.caches[1].bytes, 32 << 20);
  EXPECT_EQ(info.caches[1].shared_by, 16);
}

TEST(CpuInfo, OfThisMachineIsPlausible) {
  const CpuInfo info = read_cpu_info();
  EXPECT_FALSE(info.model.empty());
  EXPECT_FALSE(info.simd.empty());
  EXPECT_GE(info.logical_cores, info.usable_cores);
  EXPECT_GE(info.usable_cores, 1);
  EXPECT_GT(available_memory_bytes(), 0);
}

TEST(Ceilings, AreMeasuredAsPositiveRates) {
  ThreadPool pool({.num_threads = 2});
  EXPECT_GT(measure_read_bandwidth(pool), 0);
  EXPECT_GT(measure_fma_peak(pool), 0);
}

}  // namespace
}  // namespace cheetah

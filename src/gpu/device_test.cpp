// SPDX-License-Identifier: MIT
#include "gpu/device.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah::gpu {
namespace {

TEST(Device, SaysWhyThereIsNone) {
  const Availability& cuda = cuda_available();
  if (cuda) GTEST_SKIP() << "this machine has a device";
  EXPECT_FALSE(cuda.reason.empty());
  try {
    query_device();
    FAIL() << "asked a device that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), cuda.reason);
  }
}

TEST(Device, TellsWhatItIs) {
  if (!cuda_available()) GTEST_SKIP() << cuda_available().reason;
  const DeviceInfo info = query_device();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.num_sms, 0);
  EXPECT_GE(info.compute_major, 8);
  EXPECT_GT(info.clock_mhz, 0);
  EXPECT_GE(info.shared_bytes_per_block, 48 << 10);
  EXPECT_LE(device_memory().free, device_memory().total);
  EXPECT_THROW(query_device(1000), Error);
}

}  // namespace
}  // namespace cheetah::gpu

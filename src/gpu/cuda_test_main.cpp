// SPDX-License-Identifier: MIT
// The tests that need a GPU; without one they say so and pass.
#include <gtest/gtest.h>

#include <cstdio>

#include "gpu/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const auto& cuda = cheetah::gpu::cuda_available(); !cuda) {
    std::printf("skipped: %s\n", cuda.reason.c_str());
    return 0;
  }
  return RUN_ALL_TESTS();
}

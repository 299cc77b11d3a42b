// SPDX-License-Identifier: MIT
#pragma once
// For tests: runs a check once for every instruction set this machine can execute.
#include <hwy/targets.h>

#include <cstdint>

#include <gtest/gtest.h>

namespace cheetah {

template <class Check>
void for_every_target(const Check& check) {
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t left = supported & HWY_TARGETS; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace cheetah

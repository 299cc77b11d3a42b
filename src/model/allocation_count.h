// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace cheetah {

// For tests: how often this process has called operator new so far.
int64_t allocation_count();

}  // namespace cheetah

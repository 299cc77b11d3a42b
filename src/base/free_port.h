#pragma once
#include <cstdint>

namespace cheetah {

// A TCP port of 127.0.0.1 for a process that is about to be started. Outside the range from which the kernel
// gives out ports by itself, so that no connection gets it by chance until then. Throws Error when all are
// taken.
uint16_t free_port();

}  // namespace cheetah

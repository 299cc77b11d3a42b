// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace cheetah {

// A free TCP port of 127.0.0.1 for a process about to start. Outside the kernel's ephemeral range, so that no
// outgoing connection takes it in the meantime. Throws Error when all are
// taken.
uint16_t free_port();

}  // namespace cheetah

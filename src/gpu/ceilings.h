// SPDX-License-Identifier: MIT
#pragma once
// What this device can do at most, measured: the denominators of every "% of the ceiling".
#include "gpu/memory.h"

namespace cheetah::gpu {

// Bytes a second read from device memory, well past the caches.
double measure_read_bandwidth(DeviceMemory& memory, Stream& stream);

// F32 multiply-adds in registers, counted as two operations each, a second. Tensor cores pass it.
double measure_fma_peak(DeviceMemory& memory, Stream& stream);

}  // namespace cheetah::gpu

// SPDX-License-Identifier: MIT
#pragma once
// What this machine can do at most, measured: the denominators of every "% of the ceiling".
#include "base/thread_pool.h"

namespace cheetah {

// Bytes a second that all of the pool's threads together read from memory, well past the caches. About 0.3 s.
double measure_read_bandwidth(ThreadPool& pool);

// F32 multiply-adds in registers, counted as two operations each, a second, on all of the pool's threads.
// Integer and BF16 dot products can pass it. About 0.2 s.
double measure_fma_peak(ThreadPool& pool);

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
// What this machine can do at most, measured: the denominators of every "% of the ceiling".
#include "base/thread_pool.h"

namespace cheetah {

// Bytes a second that all of the pool's threads together read from memory, well past the caches. About 0.3 s.
double measure_read_bandwidth(ThreadPool& pool);

// F32 multiply-adds in registers, counted as two operations each, per second, on all of the pool's threads. About
// 0.2 s.
double measure_fma_peak(ThreadPool& pool);

// The same of dot products, whose units do more per cycle: of pairs of BF16 numbers, and of fours of 8-bit integers.
// 0: this CPU has no such unit, or the kernels do not use it.
double measure_bf16_dot_peak(ThreadPool& pool);
double measure_int8_dot_peak(ThreadPool& pool);

}  // namespace cheetah

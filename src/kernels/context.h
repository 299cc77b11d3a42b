// SPDX-License-Identifier: MIT
#pragma once
#include "base/thread_pool.h"

namespace cheetah {

// kExact: weights widened to F32, F32 arithmetic; what `verify` holds to the reference's tolerance.
// kNative: the fastest arithmetic for the stored type (integer dot products on quantized activations, BF16
// dot products), within the bounds each kernel's header states.
enum class Precision { kExact, kNative };

// Exact work of one call, the same for tests, benches, the lab, the profiler and the planner.
struct Cost {
  double flops = 0;
  double bytes = 0;  // the least that must move: each input read once, each output written once
};

// What every CPU kernel runs on. Not owned.
struct CpuContext {
  ThreadPool& pool;
  Precision precision = Precision::kExact;
};

}  // namespace cheetah

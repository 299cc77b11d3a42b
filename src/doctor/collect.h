// SPDX-License-Identifier: MIT
#pragma once
// Collects all facts once: every layer on its own thread, each with a time limit.
#include <chrono>
#include <memory>

#include "doctor/facts.h"

namespace cheetah::doctor {

struct CollectOptions {
  std::chrono::milliseconds layer_limit{2000};
  // Between the two readings of the counters; 0 reads once. A captured tree holds its second reading in t1/.
  std::chrono::milliseconds counter_interval{0};
};

struct Collected {
  Facts facts;
  MemorySource snapshot;  // all that was read, to look at again elsewhere
};

// A layer that outlasts its limit is left out, with a line in facts.problems; its thread keeps `source`
// alive.
Collected collect(
    std::shared_ptr<const Source> source, const Intent& intent, const CollectOptions& options = {});

}  // namespace cheetah::doctor

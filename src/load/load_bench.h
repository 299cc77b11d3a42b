// SPDX-License-Identifier: MIT
#pragma once
// A whole measurement: asks the server what it runs, learns its token lengths, warms it up, applies the load.
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "load/arrivals.h"
#include "load/load_client.h"
#include "load/report.h"
#include "load/sweep.h"
#include "load/workload.h"

namespace cheetah {

struct LoadBenchOptions {
  ServerOptions server{};
  WorkloadPlan workload{};
  BodyOptions body{};     // an empty model: the first the server names
  ArrivalPlan arrival{};  // the rate is set from the next two
  std::optional<double> rate{};
  std::optional<SweepPlan> sweep{};
  int64_t concurrency = 0;   // alone: a closed loop; with a rate: most requests at once
  int64_t num_requests = 0;  // of each step; 0: as the duration allows, a file's own number, or 100
  double duration_s = std::numeric_limits<double>::infinity();  // of each step's arrivals
  int64_t warmup = 1;  // requests sent one by one before, and not counted
  Slo slo{};
};

struct BenchProgress {
  size_t step = 0, num_steps = 1;
  std::optional<double> rate{};
  int64_t total = 0;  // requests of this step; 0: unknown
  LoadProgress load{};
};
using BenchObserver = std::function<bool(const BenchProgress&)>;  // false: stop with what there is

// Throws UsageError for options that contradict each other.
void check(const LoadBenchOptions& options);

// Throws Error when the server cannot be reached or refuses the first requests. The provenance is left empty.
LoadReport run_load_bench(const LoadBenchOptions& options, const BenchObserver& observe);

}  // namespace cheetah

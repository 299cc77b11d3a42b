// SPDX-License-Identifier: MIT
#pragma once
// The scores by which a worker is chosen, one function per policy.
#include <cstdint>
#include <vector>

#include "cluster/policy/route.h"

namespace cheetah::cluster {

// Costs: lower is better. Scores: higher is better.
double load_cost(double occupancy, double active, const LoadCostWeights& weights);
struct LatencyCostInputs {
  double kv_occupancy = 0, active = 0, cache_match = 0, bandwidth = 0;
  bool recent_prefix = false;
};
double latency_cost(const LatencyCostInputs& inputs, const LatencyCostWeights& weights);
struct CacheScoreInputs {
  double matched_fraction = 0, waiting_share = 0, running_share = 0;
};
double cache_score(const CacheScoreInputs& inputs, const CacheScoreWeights& weights);

struct WorkerChoice {
  const WorkerView* worker = nullptr;  // nullptr: none can
  const WorkerView* second = nullptr;
  WorkerReason reason = WorkerReason::kNoWorker;
  std::vector<WorkerScore> scores = {};
};
WorkerChoice choose_worker(const ClusterView& view, const RouteRequest& request, const RoutingConfig& config,
    const RouteMemory& memory, uint64_t turn);

}  // namespace cheetah::cluster

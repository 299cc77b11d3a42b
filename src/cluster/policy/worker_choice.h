#pragma once
// The scores by which a worker is chosen, one function a policy.
#include <cstdint>
#include <vector>

#include "cluster/policy/route.h"

namespace cheetah::cluster {

// P2, P3: lower is better. P5: higher is better.
double latency_two(double occupancy, double active, const LatencyTwoWeights& weights);
struct LatencyFiveInputs {
  double kv_occupancy = 0, active = 0, cache_match = 0, bandwidth = 0;
  bool recent_prefix = false;
};
double latency_five(const LatencyFiveInputs& inputs, const LatencyFiveWeights& weights);
struct SplitInputs {
  double matched_fraction = 0, waiting_share = 0, running_share = 0;
};
double split_score(const SplitInputs& inputs, const SplitWeights& weights);

struct WorkerChoice {
  const WorkerView* worker = nullptr;  // nullptr: none can
  const WorkerView* second = nullptr;
  WorkerReason reason = WorkerReason::kNoWorker;
  std::vector<WorkerScore> scores = {};
};
WorkerChoice choose_worker(const ClusterView& view, const RouteRequest& request, const RoutingConfig& config,
                           const RouteMemory& memory, uint64_t turn);

}  // namespace cheetah::cluster

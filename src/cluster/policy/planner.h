// SPDX-License-Identifier: MIT
#pragma once
// Looks at the whole cluster about once per second: should a worker change its role, and how many of each
// should there be? One planner a cluster (node/planner_seat.h sees to it); a flip carries the epoch it is meant
// for, so one of an older planner is refused.
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cluster/core/routing.h"
#include "cluster/policy/admission.h"
#include "cluster/policy/autoscale.h"
#include "cluster/policy/policy_config.h"
#include "cluster/policy/roles.h"

namespace cheetah::cluster {

struct PlannedFlip {
  WorkerId worker{};
  Role to{};
  uint64_t epoch = 0;  // of the message that asks for it
};

// What an operator has decided, and whether anything may be done about the rest.
struct PlanOrders {
  bool acts = true;                                  // false: another router plans; this one only measures
  std::set<WorkerId> fixed = {};                     // their roles are an operator's
  std::optional<int64_t> prefill = {}, decode = {};  // replicas
};

struct PlanQuestion {
  const KnownWorkers& workers;
  int64_t queue_depth = 0, queue_tokens = 0;  // of the prefill queue
  const PlanOrders& orders;
};

struct Plan {
  std::optional<PlannedFlip> flip = {};
  FlipReason flip_reason{};
  double imbalance = 1;
  ScaleDecision prefill = {}, decode = {};
  double predicted_prefill_per_s = 0, predicted_decode_per_s = 0;  // tokens, by the goals' horizon
};

class Planner {
 public:
  // `computed_tokens`: of the prompt, those that no cache holds.
  void arrived(int64_t prompt_tokens, int64_t computed_tokens, int64_t output_tokens) {
    input_tokens_ += static_cast<double>(prompt_tokens);
    output_tokens_ += static_cast<double>(output_tokens);
    computed_tokens_ += static_cast<double>(computed_tokens);
    ++requests_;
  }
  // nullopt: too soon after the last one.
  std::optional<Plan> plan(
      const PlanQuestion& question, const Estimates& estimates, const PolicyConfig& config, Time now);

 private:
  struct Seen {
    Role role{};
    uint64_t epoch = 0;
    Time since{};
  };
  // Of the load by the time a new replica would serve, and of the goals.
  struct SloPool {
    LoadForecast load;
    HeldWish wish;
    bool begun = false;
  };
  void measure(double seconds, const KnownWorkers& workers);
  void scale_by_goals(const PlanQuestion& question, const Estimates& estimates, const PolicyConfig& config,
      Time now, Plan& plan);
  void look_at(const KnownWorkers& workers, Time now);
  TrafficMix mix_of(const KnownWorkers& workers, int64_t queue_tokens, const Estimates& estimates,
      const CostModel& cost) const;

  double input_tokens_ = 0, output_tokens_ = 0, computed_tokens_ = 0, requests_ = 0;  // since the last plan
  Ema input_rate_, output_rate_;
  std::map<WorkerId, Seen> seen_;
  FlipState flips_;
  PoolScaleState prefill_scale_, decode_scale_;
  SloPool prefill_slo_, decode_slo_;
  WorkerRates rates_;  // as last measured: kept while all workers are gone
  Ema computed_each_;  // tokens of a prompt that are computed
  std::optional<Time> last_;
};

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#pragma once
// Looks at the whole cluster about once per second: should a worker change its role, and how many of each
// should there be? One planner a cluster; a second one does no harm, since a flip carries the epoch it is
// meant for and a worker refuses what comes within its dwell, but two may move one worker more than needed.
#include <map>
#include <optional>
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

struct PlanQuestion {
  const KnownWorkers& workers;
  int64_t queue_depth = 0, queue_tokens = 0;  // of the prefill queue
};

struct Plan {
  std::optional<PlannedFlip> flip = {};
  FlipReason flip_reason{};
  double imbalance = 1;
  ScaleDecision prefill = {}, decode = {};
};

class Planner {
 public:
  void arrived(int64_t prompt_tokens, int64_t output_tokens) {
    input_tokens_ += static_cast<double>(prompt_tokens);
    output_tokens_ += static_cast<double>(output_tokens);
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
  void measure(double seconds);
  void look_at(const KnownWorkers& workers, Time now);
  TrafficMix mix_of(const KnownWorkers& workers, int64_t queue_tokens, const Estimates& estimates,
      const CostModel& cost) const;

  double input_tokens_ = 0, output_tokens_ = 0;  // since the last plan
  Ema input_rate_, output_rate_;
  std::map<WorkerId, Seen> seen_;
  FlipState flips_;
  PoolScaleState prefill_scale_, decode_scale_;
  std::optional<Time> last_;
};

}  // namespace cheetah::cluster

#pragma once
// Looks at the traffic and the workers once in a while: which worker should change its role, and how many of
// each kind there should be. Where several routers serve one cluster, one of them holds the planner's seat
// (registry/claim.h) and the others only watch.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cluster/core/routing.h"
#include "cluster/policy/autoscale.h"
#include "cluster/policy/predict.h"
#include "cluster/policy/roles.h"

namespace cheetah::cluster {

struct PlannerConfig {
  FlipConfig roles;
  AutoscaleConfig scaling;
  Duration period = std::chrono::seconds(1);
  double smoothing = 0.2;  // of the rates

  bool operator==(const PlannerConfig&) const = default;
};

class Planner {
 public:
  explicit Planner(const PlannerConfig& config) : config_(config) {}

  void configure(const PlannerConfig& config) { config_ = config; }
  void came(int64_t prompt_tokens) { input_tokens_ += prompt_tokens; }
  void went(int64_t tokens) { output_tokens_ += tokens; }

  struct Plan {
    FlipDecision flip{};
    std::optional<std::pair<WorkerId, FlipRole>> order{};  // with flip.worker
    ScaleDecision prefill{}, decode{};                     // replicas wanted
    TrafficMix mix{};
  };
  bool due(Time now) const { return now >= next_; }
  Time next() const { return next_; }
  // `acts`: holds the seat; otherwise it only counts.
  void look(const KnownWorkers& workers, int64_t queue_depth, bool acts, Time now);
  const Plan& plan() const { return plan_; }

 private:
  struct Since {
    Role role{};
    Time at{};
  };
  TrafficMix mix_of(const KnownWorkers& workers, int64_t queue_depth, double seconds);
  PoolSample sample_of(const KnownWorkers& workers, Role role, int64_t queue_depth) const;

  PlannerConfig config_;
  int64_t input_tokens_ = 0, output_tokens_ = 0;
  Ema input_rate_, output_rate_;
  std::optional<Time> last_;
  Time next_{};
  std::map<WorkerId, Since> roles_;
  FlipState flips_;
  PoolScaleState prefill_state_, decode_state_;
  Plan plan_;
};

}  // namespace cheetah::cluster

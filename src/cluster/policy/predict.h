// SPDX-License-Identifier: MIT
#pragma once
// How long a request will take, from what the workers report: moving averages of the time a token, both
// pools, and the decode load as it will be when the prompt has been computed rather than as it is now.
#include <cstdint>
#include <optional>

#include "cluster/policy/routing_config.h"
#include "cluster/policy/view.h"

namespace cheetah::cluster {

class Ema {
 public:
  void add(double sample, double alpha) {
    value_ = seen_ ? value_ + alpha * (sample - value_) : sample, seen_ = true;
  }
  double value_or(double fallback) const { return seen_ ? value_ : fallback; }
  bool seen() const { return seen_; }

 private:
  double value_ = 0;
  bool seen_ = false;
};

// A moving value that most samples lie below: what is higher pulls it nine times as hard as what is lower.
// For promises, which a mean would break half of the time.
class HighEma {
 public:
  void add(double sample, double alpha) {
    if (!seen_) value_ = sample;
    seen_ = true;
    value_ += (sample > value_ ? alpha : alpha / 9) * (sample - value_);
  }
  double value_or(double fallback) const { return seen_ ? value_ : fallback; }

 private:
  double value_ = 0;
  bool seen_ = false;
};

// Step time against batch size: a line through exponentially weighted samples, never falling.
class StepTimes {
 public:
  void add(double batch, double step_us, double alpha);
  // Of a batch, given that one of `known_batch` took `known_us` (0: nothing known of that worker).
  double at(double batch, double known_batch, double known_us, double fallback_us) const;
  double us_per_sequence() const;  // slope of the line
  bool seen() const { return weight_ > 0; }

 private:
  double weight_ = 0, batch_ = 0, step_ = 0, batch_batch_ = 0, batch_step_ = 0;
};

struct Estimates {
  StepTimes steps;
  Ema output_tokens;  // a choice really generates
};

struct Prediction {
  bool possible = false;  // some worker can take it
  WorkerId decode{};
  double ttft_ms = 0, tpot_ms = 0;
  double model_ttft_ms = 0;  // ttft_ms before it was corrected by what was measured
  double wait_ms = 0;        // of ttft_ms, for others; the rest it would take on an idle worker
  double decode_share = 0;   // of that worker's places when the prompt is computed, this request included
  double cluster_decode_share = 0;  // of all decode workers' places, at that time
};

double prefill_wait_ms(const WorkerView& worker, const CostModel& cost);
double prefill_ms(const WorkerView& worker, int64_t tokens, const CostModel& cost);
double step_ms(const WorkerView& worker, const CostModel& cost);
// Until it has places and pages for the request.
double place_wait_ms(const WorkerView& worker, const RouteRequest& request, const CostModel& cost);
// To the first token when the worker itself computes the prompt.
double local_wait_ms(const WorkerView& worker, const RouteRequest& request, const CostModel& cost);
double local_ttft_ms(const WorkerView& worker, const RouteRequest& request, const CostModel& cost);
struct RemotePrefill {
  WorkerId worker{};
  double ttft_ms = 0, wait_ms = 0;
};
// The best prefill worker for a prompt to be decoded on `decode`; nullopt: there is none that could send it
// pages.
std::optional<RemotePrefill> best_remote(const ClusterView& view, const WorkerView& decode,
    const RouteRequest& request, const RoutingConfig& config);
// A prefix that another worker's cache holds, and when the first token would come if its pages were fetched.
struct PrefixFetch {
  WorkerId from{};
  int64_t tokens = 0;  // whole pages of the one that gets them
  double ttft_ms = 0;
};
// The best one that beats `otherwise_ms`, the time to the first token without it.
std::optional<PrefixFetch> best_fetch(const ClusterView& view, const WorkerView& decode,
    const RouteRequest& request, const RoutingConfig& config, double otherwise_ms);
// Places in use after `after_ms`: those that finish until then have left, those that wait have come.
double choices_then(const WorkerView& worker, double after_ms, const CostModel& cost);

// The best that any worker is expected to do.
Prediction predict(const ClusterView& view, const RouteRequest& request, const RoutingConfig& config,
    const Estimates& estimates);

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#pragma once
// How many replicas of each pool meet the goals for the first token and for each token, under the load that is
// expected by the time a new replica would be ready. Needs are computed from what arrives and from how fast one
// worker is, never from how many workers there are: a crash or a model that loads slowly does not lower a wish.
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "cluster/types.h"

namespace cheetah::cluster {

struct SloScaling {
  bool enabled = false;
  double ttft_ms = 500, tpot_ms = 50;
  double headroom = 0.25;       // share of a worker's rate that is left free
  int64_t horizon_ms = 60'000;  // until a new replica serves: the load is predicted so far ahead
  int64_t hold_ms = 300'000;    // a wish goes down to the most that was needed for so long
  int64_t drain_ms = 20'000;    // work that waits is to be done within this time

  bool operator==(const SloScaling&) const = default;
};

// What comes to the whole cluster, in tokens per second.
class LoadForecast {
 public:
  void add(double per_s, double seconds);
  // The most that is expected until then: the level, and on top what it grows by meanwhile.
  double at(double seconds_ahead) const;
  double level() const { return level_; }

 private:
  double level_ = 0, slow_ = 0, slower_ = 0;
  bool seen_ = false;
};

// Of one worker, as measured.
struct WorkerRates {
  double prefill_us_per_token = 0;                    // 0: not known yet
  double step_base_us = 0, step_us_per_sequence = 0;  // of one decode step
  int64_t max_sequences = 1;
  double prompt_tokens = 0;  // of a usual request
  double overhead_ms = 0;    // of its first token: transfer, first step
};

struct PoolDemand {
  double tokens_per_s = 0;    // that will arrive
  double waiting_tokens = 0;  // that wait
};

// Tokens per second of a worker whose steps are as long as the goal allows.
double decode_rate(const WorkerRates& rates, double tpot_ms);
int64_t decode_replicas(const PoolDemand& demand, const WorkerRates& rates, const SloScaling& goals);
// Such that a prompt waits, computes and decodes its first token in time: the wait is that of a queue in front
// of so many workers.
int64_t prefill_replicas(const PoolDemand& demand, const WorkerRates& rates, const SloScaling& goals);

// The wish over time: up at once, down only to what has sufficed for a while.
class HeldWish {
 public:
  int64_t hold(int64_t needed, Time now, Duration hold);

 private:
  std::deque<std::pair<Time, int64_t>> needs_;  // falling: each later one is smaller
};

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cheetah::cluster {

// How the worker that decodes is chosen.
enum class WorkerPolicy : uint8_t {
  kRoundRobin,
  kLeastLoaded,
  kPrefixAware,  // rendezvous hash of the first blocks, within a bound of the mean load
  kKvAware,      // least predicted time to the first token, by what each cache holds
  kLoadCost,     // lowest weighted sum of KV occupancy and active requests
  kLatencyCost,  // lowest weighted sum of those, cache match, bandwidth and recent prefix
  kCacheScore,   // highest weighted sum of cache match, queue and decode load
};

// Whether the prompt is computed by a prefill worker.
enum class OffloadPolicy : uint8_t {
  kNever,
  kAlways,
  kThreshold,  // its length, the queue and the decode worker against fixed limits
  kScore,      // the weights of the rules that fire
  kCost,       // predicted time remote against local
};

enum class OffloadMetric : uint8_t { kPrefillLength, kPrefillQueueDepth, kDecodeLoad, kMatchedFraction };
enum class OffloadAction : uint8_t { kPreferRemote, kPreferLocal };

struct OffloadRule {  // fires when the metric is above the threshold
  OffloadMetric metric = OffloadMetric::kPrefillLength;
  double threshold = 0;
  OffloadAction action = OffloadAction::kPreferRemote;
  double weight = 0;

  bool operator==(const OffloadRule&) const = default;
};

struct ThresholdOffload {
  int64_t prefill_length = 256;
  int64_t moderate_length = 64;  // enough where the decode worker is busy
  int64_t max_queue = 10;        // jobs; at this depth the queue takes no more
  int64_t busy_choices = 8;
  bool operator==(const ThresholdOffload&) const = default;
};

struct LoadCostWeights {  // occupancy is a share: 70 is 0.7 per percent
  double occupancy = 70;
  double active = 0.3;
  bool operator==(const LoadCostWeights&) const = default;
};

struct LatencyCostWeights {  // of shares 0..1
  double kv_occupancy = 3.0;
  double active = 1.0;
  double cache_match = 10.0;
  double bandwidth = 0.5;
  double recent_prefix = 1.0;
  bool operator==(const LatencyCostWeights&) const = default;
};

struct CacheScoreWeights {  // score = cache * matched - queue * waiting share - decode * running share
  double prefix_cache = 10.0;
  double queue_length = 1.5;
  double decode_load = 0.5;
  double min_cache_hit = 0.75;  // matched fractions below count as none
  bool reuse_prefix = true;
  bool operator==(const CacheScoreWeights&) const = default;
};

struct CostModel {
  double prefill_us_per_token = 50;  // where a worker has not measured its own yet
  double decode_step_us = 20'000;
  double transfer_bytes_per_s = 2e9;
  double transfer_overhead_ms = 2;  // messages, reservation, import
  double hidden_transfer = 0.8;     // share of a transfer behind the prefill's later chunks
  double interference = 0.5;        // of a local prefill's time, counted for a fully busy decode worker
  double balance_ms = 50;           // what a fully busy decode worker counts as when workers are compared
  double margin_ms = 1;             // remote must be better by this
  bool operator==(const CostModel&) const = default;
};

// Whether a prefix that another worker's cache holds is fetched instead of computed.
struct FetchConfig {
  bool enabled = true;
  int64_t min_tokens = 256;  // that the other cache holds beyond one's own
  double margin_ms = 2;      // fetching must be better by this
  bool operator==(const FetchConfig&) const = default;
};

// Whether disaggregation pays is measured (worth.h).
struct WorthConfig {
  bool enabled = true;
  double explore = 0.02;    // share of requests that take the way believed to be worse
  double margin = 0.05;     // the other way must be better by this share before we change over
  int64_t min_samples = 8;  // of each way before anything is concluded
  double alpha = 0.1;       // weight of a new sample in the moving averages
  bool operator==(const WorthConfig&) const = default;
};

struct RoutingConfig {
  WorkerPolicy worker_policy = WorkerPolicy::kKvAware;
  OffloadPolicy offload_policy = OffloadPolicy::kCost;
  int64_t stale_after_ms = 2'000;    // older loads count as a full worker
  int64_t silent_after_ms = 10'000;  // older ones: no requests at all
  double load_bound = 1.25;          // prefix aware: times the mean load
  bool hot_spot_prevention = true;
  double hot_spot_factor = 2.0;      // a worker above this times the mean load gets no cache bonus
  int64_t hot_spot_min_choices = 4;  // and at least this many active
  int64_t recent_prefixes = 4096;    // remembered
  int32_t urgent_priority = 100;     // from here on: skips the depth check of the prefill queue
  bool race = false;                 // urgent requests go to two workers; the slower one is cancelled
  ThresholdOffload threshold = {};
  std::vector<OffloadRule> rules = {
      {OffloadMetric::kPrefillLength, 256, OffloadAction::kPreferRemote, 0.7},
      {OffloadMetric::kPrefillQueueDepth, 10, OffloadAction::kPreferLocal, 0.3},
  };
  double remote_min_score = 0.5;
  LoadCostWeights load_cost = {};
  LatencyCostWeights latency_cost = {};
  CacheScoreWeights cache_score = {};
  CostModel cost = {};
  FetchConfig fetch = {};
  WorthConfig worth = {};

  bool operator==(const RoutingConfig&) const = default;
};

}  // namespace cheetah::cluster

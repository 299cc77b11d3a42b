// SPDX-License-Identifier: MIT
#pragma once
// Is disaggregation worth it for this traffic? Both ways are measured for prompts of each length; the better
// one is taken, the other one now and then, so that a change is noticed.
#include <array>
#include <cstdint>
#include <string>

#include "cluster/policy/routing_config.h"

namespace cheetah::cluster {

enum class Way : uint8_t { kAggregated, kDisaggregated };

// Prompt lengths to compute, in powers of four from 64 on.
constexpr int kWorthBuckets = 8;
int worth_bucket(int64_t effective_tokens);
int64_t bucket_low(int bucket);

struct WayMeasured {
  int64_t samples = 0;
  double ttft_ms = 0, tpot_ms = 0;  // moving averages
  double cost = 0;                  // the two by their targets, averaged
};

struct WorthBucket {
  std::array<WayMeasured, 2> ways;  // by Way
  bool disaggregation_loses = false;
  int64_t asked = 0;
};

struct WorthSample {
  int64_t effective_tokens = 0;
  Way way = Way::kAggregated;
  double ttft_ms = 0, tpot_ms = 0;  // tpot 0: one token only
  double ttft_slo_ms = 500, tpot_slo_ms = 50;
};

struct WorthAnswer {
  bool disaggregate = true;  // as far as measurements say; the routing policy may still keep it local
  bool exploring = false;
};

class WorthTable {
 public:
  void observe(const WorthSample& sample, const WorthConfig& config);
  // Counts: every 1/explore-th question of a bucket gets the worse way.
  WorthAnswer ask(int64_t effective_tokens, const WorthConfig& config);
  const WorthBucket& bucket(int index) const { return buckets_.at(static_cast<size_t>(index)); }
  std::string why(int index) const;  // a sentence with both numbers

 private:
  std::array<WorthBucket, kWorthBuckets> buckets_;
};

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#include "cluster/policy/worth.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace cheetah::cluster {
namespace {

constexpr int64_t kFirstBucket = 64;

WayMeasured& way_of(WorthBucket& bucket, Way way) { return bucket.ways[static_cast<size_t>(way)]; }
const WayMeasured& way_of(const WorthBucket& bucket, Way way) {
  return bucket.ways[static_cast<size_t>(way)];
}

void average(double& mean, double sample, int64_t samples, double alpha) {
  // A plain mean until there are enough samples for the moving one: the first sample must not weigh for long.
  const double weight = std::max(alpha, 1.0 / static_cast<double>(samples));
  mean += weight * (sample - mean);
}

// The changeover needs a margin in either direction, so that two equal ways do not alternate.
void conclude(WorthBucket& bucket, const WorthConfig& config) {
  const WayMeasured& agg = way_of(bucket, Way::kAggregated);
  const WayMeasured& dis = way_of(bucket, Way::kDisaggregated);
  if (agg.samples < config.min_samples || dis.samples < config.min_samples) return;
  if (!bucket.disaggregation_loses)
    bucket.disaggregation_loses = agg.cost < dis.cost * (1 - config.margin);
  else
    bucket.disaggregation_loses = !(dis.cost < agg.cost * (1 - config.margin));
}

}  // namespace

int worth_bucket(int64_t effective_tokens) {
  int bucket = 0;
  for (int64_t high = kFirstBucket; bucket + 1 < kWorthBuckets && effective_tokens >= high; high *= 4)
    ++bucket;
  return bucket;
}

int64_t bucket_low(int bucket) { return bucket == 0 ? 0 : kFirstBucket << (2 * (bucket - 1)); }

void WorthTable::observe(const WorthSample& sample, const WorthConfig& config) {
  WorthBucket& bucket = buckets_.at(static_cast<size_t>(worth_bucket(sample.effective_tokens)));
  WayMeasured& way = way_of(bucket, sample.way);
  ++way.samples;
  double cost = sample.ttft_ms / std::max(sample.ttft_slo_ms, 1.0);
  if (sample.tpot_ms > 0) {
    average(way.tpot_ms, sample.tpot_ms, way.samples, config.alpha);
    cost = (cost + sample.tpot_ms / std::max(sample.tpot_slo_ms, 0.1)) / 2;
  }
  average(way.ttft_ms, sample.ttft_ms, way.samples, config.alpha);
  average(way.cost, cost, way.samples, config.alpha);
  conclude(bucket, config);
}

WorthAnswer WorthTable::ask(int64_t effective_tokens, const WorthConfig& config) {
  if (!config.enabled) return {};
  WorthBucket& bucket = buckets_.at(static_cast<size_t>(worth_bucket(effective_tokens)));
  WorthAnswer answer{.disaggregate = !bucket.disaggregation_loses};
  const int64_t turn = bucket.asked++;
  if (config.explore <= 0) return answer;
  const auto period = std::max<int64_t>(2, std::llround(1 / config.explore));
  answer.exploring = turn % period == period - 1;
  if (answer.exploring) answer.disaggregate = !answer.disaggregate;
  return answer;
}

std::string WorthTable::why(int index) const {
  const WorthBucket& b = bucket(index);
  const WayMeasured &agg = way_of(b, Way::kAggregated), &dis = way_of(b, Way::kDisaggregated);
  const std::string prompts = index + 1 < kWorthBuckets
                                  ? format("{} to {} tokens", bucket_low(index), bucket_low(index + 1) - 1)
                                  : format("{} tokens and more", bucket_low(index));
  return format(
      "prompts of {}: aggregated {:.1f} ms to the first token and {:.2f} ms a token ({} measured), "
      "disaggregated {:.1f} and {:.2f} ({} measured): {}",
      prompts, agg.ttft_ms, agg.tpot_ms, agg.samples, dis.ttft_ms, dis.tpot_ms, dis.samples,
      b.disaggregation_loses ? "disaggregation loses" : "disaggregation is not known to lose");
}

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#include "cluster/policy/quota.h"

#include <algorithm>
#include <utility>

namespace cheetah::cluster {

const Quota* quota_of(const std::string& tenant, const QosConfig& config) {
  const Quota* everyone = nullptr;
  for (const Quota& quota : config.quotas) {
    if (quota.tenant == tenant) return &quota;
    if (quota.tenant == "*") everyone = &quota;
  }
  return everyone;
}

Quotas::Bucket& Quotas::bucket_of(const std::string& tenant, double burst, Time now, int64_t limit) {
  const auto found = buckets_.find(tenant);
  if (found != buckets_.end()) {
    order_.splice(order_.end(), order_, found->second.used);
    return found->second;
  }
  while (!order_.empty() && num_tenants() >= limit) {
    buckets_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(tenant);
  return buckets_[tenant] = {.tokens = burst, .at = now, .used = std::prev(order_.end())};
}

void Quotas::refill(Bucket& bucket, const Quota& quota, Time now) {
  const double elapsed_s = std::chrono::duration<double>(std::max(Duration::zero(), now - bucket.at)).count();
  bucket.tokens = std::min(std::max(quota.burst_tokens, 1.0), bucket.tokens + elapsed_s * quota.tokens_per_s);
  bucket.at = std::max(bucket.at, now);
}

std::optional<Duration> Quotas::take(
    const std::string& tenant, int64_t tokens, Time now, const QosConfig& config) {
  const Quota* quota = quota_of(tenant, config);
  if (!quota || quota->tokens_per_s <= 0) return std::nullopt;
  const double burst = std::max(quota->burst_tokens, 1.0);
  Bucket& bucket = bucket_of(tenant, burst, now, std::max<int64_t>(1, config.max_tenants));
  refill(bucket, *quota, now);
  const double needed = std::min(static_cast<double>(tokens), burst);
  if (bucket.tokens + 1e-6 < needed) {
    const double wait_s = (needed - bucket.tokens) / quota->tokens_per_s;
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(wait_s, 86'400.0)));
  }
  bucket.tokens -= static_cast<double>(tokens);
  bucket.untold += static_cast<double>(tokens);
  return std::nullopt;
}

void Quotas::give_back(const std::string& tenant, int64_t tokens, const QosConfig& config) {
  const Quota* quota = quota_of(tenant, config);
  const auto found = buckets_.find(tenant);
  if (!quota || found == buckets_.end()) return;
  found->second.untold -= static_cast<double>(tokens);
  found->second.tokens =
      std::min(std::max(quota->burst_tokens, 1.0), found->second.tokens + static_cast<double>(tokens));
}

std::vector<QuotaNews::Entry> Quotas::untold() {
  std::vector<QuotaNews::Entry> news;
  for (auto& [tenant, bucket] : buckets_)
    if (bucket.untold != 0) news.push_back({tenant, std::exchange(bucket.untold, 0), bucket.tokens});
  return news;
}

std::vector<QuotaNews::Entry> Quotas::all() const {
  std::vector<QuotaNews::Entry> news;
  for (const auto& [tenant, bucket] : buckets_) news.push_back({.tenant = tenant, .left = bucket.tokens});
  return news;
}

// One that is not known here has what the other says it has left: after a start every bucket would be full. Two that
// both know it, and could not talk for a while, believe the lower.
void Quotas::hear(const QuotaNews::Entry& news, Time now, const QosConfig& config) {
  const Quota* quota = quota_of(news.tenant, config);
  if (!quota || quota->tokens_per_s <= 0) return;
  const double burst = std::max(quota->burst_tokens, 1.0);
  const bool known = buckets_.contains(news.tenant);
  Bucket& bucket = bucket_of(news.tenant, burst, now, std::max<int64_t>(1, config.max_tenants));
  refill(bucket, *quota, now);
  if (known && news.taken != 0)
    bucket.tokens = std::min(burst, bucket.tokens - news.taken);
  else
    bucket.tokens = std::min(bucket.tokens, news.left);
}

}  // namespace cheetah::cluster

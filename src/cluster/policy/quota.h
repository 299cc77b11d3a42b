// SPDX-License-Identifier: MIT
#pragma once
// Token buckets of tenants. Bounded: the one unused for longest is forgotten, which can only favour it.
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/policy/qos_config.h"
#include "cluster/types.h"
#include "cluster/wire/message.h"

namespace cheetah::cluster {

class Quotas {
 public:
  // nullopt: within the quota, and taken; otherwise after how long it would be (a request larger than the
  // whole burst passes when the bucket is full, and leaves it in debt).
  std::optional<Duration> take(const std::string& tenant, int64_t tokens, Time now, const QosConfig& config);
  // Gives back what was taken and not generated.
  void give_back(const std::string& tenant, int64_t tokens, const QosConfig& config);
  // Of other routers: what has happened here since they were told, and all of it for one that has just come.
  std::vector<QuotaNews::Entry> untold();
  std::vector<QuotaNews::Entry> all() const;
  void hear(const QuotaNews::Entry& news, Time now, const QosConfig& config);
  int64_t num_tenants() const { return static_cast<int64_t>(buckets_.size()); }

 private:
  struct Bucket {
    double tokens = 0;
    double untold = 0;  // taken, and given back
    Time at{};
    std::list<std::string>::iterator used;
  };
  static void refill(Bucket& bucket, const Quota& quota, Time now);
  Bucket& bucket_of(const std::string& tenant, double burst, Time now, int64_t limit);

  std::unordered_map<std::string, Bucket> buckets_;
  std::list<std::string> order_;  // least recently used first
};

const Quota* quota_of(const std::string& tenant, const QosConfig& config);

}  // namespace cheetah::cluster

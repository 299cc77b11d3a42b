// SPDX-License-Identifier: MIT
#include "cluster/core/serving.h"

#include <algorithm>

namespace cheetah::cluster {

void EndedRequests::add(RequestKey key, Time now) {
  const auto [entry, added] = newest_.try_emplace(key.uid, key.attempt, now + remember_);
  entry->second.first = std::max(entry->second.first, key.attempt);
  entry->second.second = now + remember_;
  if (added) order_.emplace_back(now, key.uid);
  if (order_.size() < 256 || order_[order_.size() / 2].first + remember_ > now) return;
  std::vector<std::pair<Time, RequestUid>> kept;
  for (const auto& [since, uid] : order_) {
    const auto old = newest_.find(uid);
    if (old->second.second > now)
      kept.emplace_back(since, uid);
    else
      newest_.erase(old);
  }
  order_ = std::move(kept);
}

bool EndedRequests::stale(RequestKey key) const {
  const auto known = newest_.find(key.uid);
  return known != newest_.end() && key.attempt <= known->second.first;
}

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#pragma once
// When to look at what again: one time for each key.
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cluster/types.h"

namespace cheetah::cluster {

template <class Key>
class Timers {
 public:
  void set(const Key& key, Time at) {
    clear(key);
    times_.emplace(key, at);
    order_.emplace(at, key);
  }
  void clear(const Key& key) {
    const auto found = times_.find(key);
    if (found == times_.end()) return;
    order_.erase({found->second, key});
    times_.erase(found);
  }
  Time next() const { return order_.empty() ? Time::max() : order_.begin()->first; }
  // The first whose time has come; it is cleared.
  std::optional<Key> take_due(Time now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    const Key key = order_.begin()->second;
    clear(key);
    return key;
  }
  size_t size() const { return times_.size(); }

 private:
  std::map<Key, Time> times_;
  std::set<std::pair<Time, Key>> order_;
};

}  // namespace cheetah::cluster

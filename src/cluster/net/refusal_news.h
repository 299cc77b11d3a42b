// SPDX-License-Identifier: MIT
#pragma once
// Which refusals are worth telling: a peer that may not join tries again every second.
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "cluster/types.h"

namespace cheetah::cluster {

class RefusalNews {
 public:
  bool is_news(const std::string& address, const std::string& why, Time now) {
    if (told_.size() >= kMaxKept)
      std::erase_if(told_, [&](const auto& entry) { return !fresh(entry.second, now); });
    const auto known = told_.find({address, why});
    if (known != told_.end() && fresh(known->second, now)) return false;
    if (known == told_.end() && told_.size() >= kMaxKept) return false;  // many at once: an attack or a test
    told_[{address, why}] = now;
    return true;
  }

 private:
  static constexpr size_t kMaxKept = 64;
  static constexpr std::chrono::minutes kAgainAfter{1};
  static bool fresh(Time told, Time now) { return now - told < kAgainAfter; }
  std::map<std::pair<std::string, std::string>, Time> told_;
};

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#pragma once
// The Idempotency-Key header: a request that is sent again is not computed, and not charged, again.
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/published.h"

namespace cheetah {

// Remembers the keys of requests that run or were answered. Any thread.
class IdempotencyKeys {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kRemembered = std::chrono::minutes(10);
  static constexpr size_t kMaxKeys = 10'000;  // the oldest is forgotten first

  enum class Verdict { kNew, kRuns, kAnswered, kOtherRequest };
  // kNew: the caller runs the request and then calls end(). `request` is all that makes it what it is.
  Verdict begin(const std::string& key, std::string_view request, Time now);
  // A request that was not answered may be sent again.
  void end(const std::string& key, bool answered);

 private:
  struct Entry {
    uint64_t fingerprint = 0;
    uint64_t number = 0;
    bool runs = true;
  };
  struct Age {
    std::string key;
    uint64_t number;
    Time begun;
  };
  struct Table {
    std::unordered_map<std::string, Entry> entries;
    std::deque<Age> ages;  // oldest first
    uint64_t next = 0;
  };
  static void forget_old(Table& table, Time now);

  Published<Table> table_;
};

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
// What the server counts by itself, beside the engine's numbers. Any thread adds, any reads.
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/open_count.h"

namespace cheetah {

enum class Rejection { kRate, kConcurrency, kQueueFull, kLoading, kDraining, kAuth, kBadRequest };
inline constexpr std::array<std::string_view, 7> kRejectionNames = {
    "rate_limit", "concurrency_limit", "queue_full", "loading", "draining", "auth", "bad_request"};

struct ServerCounters {
  static constexpr size_t kMaxRoutes = 64;
  static constexpr size_t kStatusClasses = 4;  // 2xx, 3xx, 4xx, 5xx
  using Count = std::atomic<uint64_t>;

  std::array<std::array<Count, kStatusClasses>, kMaxRoutes> responses{};  // the last row: no route
  std::array<Count, kRejectionNames.size()> rejections{};
  Count disconnects = 0;     // of clients whose request was still running
  Count paused_streams = 0;  // times that a stream's reader fell behind and the engine waited for it
  Count bytes_in = 0, bytes_out = 0;
  std::atomic<int64_t> connections = 0;
  OpenCount parsing;                        // bodies in the hands of a parser
  OpenCount in_flight;                      // requests the engine has not finished
  std::atomic<int64_t> pending_tokens = 0;  // of those: prompts and the most they may generate

  void reject(Rejection why) { ++rejections[static_cast<size_t>(why)]; }
};

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
// The numbers of the server: for Prometheus as text, for people and the page as JSON.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "engine/generation_backend.h"
#include "serve/server_counters.h"

namespace cheetah {

struct ServerNumbers {
  EngineStats engine;
  EngineConfig config;
  std::string model;
  std::string version;
  bool ready = false;
  std::optional<std::pair<int64_t, int64_t>> loading{};  // while a model is read: bytes of all bytes
  std::string cluster;                                   // GenerationBackend::cluster_state()
  double uptime_s = 0;
  double start_unix_s = 0;
  int64_t rss_bytes = 0;
};

int64_t resident_bytes();  // of this process

// Text exposition format 0.0.4. Every series is there from the first second, with 0.
std::string metrics_text(const ServerNumbers& numbers, const ServerCounters& counters);
Json stats_json(const ServerNumbers& numbers, const ServerCounters& counters);
Json loading_json(int64_t read_bytes, int64_t total_bytes);
Json decision_json(const Decision& decision);  // of GET /v1/decisions?request=ID

}  // namespace cheetah

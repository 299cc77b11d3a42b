// SPDX-License-Identifier: MIT
#pragma once
// What the server is built on once a model is loaded, and what it shares with every request.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/generation_backend.h"
#include "net/admin_call.h"
#include "observe/event_log.h"
#include "serve/api/endpoint.h"
#include "serve/queue_limit.h"
#include "serve/server_config.h"
#include "serve/server_counters.h"

namespace cheetah {

// Outlives the server's network threads.
struct Backend {
  GenerationBackend& engine;
  ApiServices services;
  std::function<std::string()> more_metrics;  // text exposition of whatever else runs here; may be empty
  std::vector<ApiServices> more_models = {};  // that the engine, a cluster then, answers for too
  AdminHandler admin = nullptr;               // of a cluster

  std::vector<const ApiServices*> models() const {
    std::vector<const ApiServices*> all = {&services};
    for (const ApiServices& one : more_models) all.push_back(&one);
    return all;
  }
};

enum class ServerState { kLoading, kReady, kDraining };

// What requests on any network thread use together.
struct ServerShared {
  ServerShared(const ServerConfig& settings, EventLog& lines) : config(settings), log(lines) {}

  const ServerConfig& config;
  EventLog& log;
  ServerCounters counters;
  std::atomic<ServerState> state = ServerState::kLoading;
  std::atomic<const Backend*> backend = nullptr;  // set once, before kReady
  std::atomic<uint64_t> next_request = 1;
  std::function<void(std::function<void()>)> parse_elsewhere;  // runs work on a parser thread

  ServerLoad load() const {
    const Backend* now = backend;
    ServerLoad load{.in_flight = counters.in_flight, .pending_tokens = counters.pending_tokens};
    if (now == nullptr) return load;
    load.most = now->engine.config().max_sequences + now->engine.config().max_queue;
    return load;
  }
};

}  // namespace cheetah

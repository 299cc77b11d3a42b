// SPDX-License-Identifier: MIT
#pragma once
// What the server is built on once a model is loaded, and what it shares with every request.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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
  std::vector<ApiServices> more_models = {};  // that the engine, a cluster then, answers for too
  AdminHandler admin = nullptr;               // of a cluster

  std::vector<const ApiServices*> models() const {
    std::vector<const ApiServices*> all = {&services};
    for (const ApiServices& one : more_models) all.push_back(&one);
    return all;
  }
};

enum class ServerState { kLoading, kReady, kDraining };

class ModelPool;      // serve/model_pool.h
class ResponseStore;  // serve/response_store.h
// Bytes of the weights, while the model is read. 0 of 0: not begun, or nothing to read.
struct ReadProgress {
  std::atomic<int64_t> read_bytes = 0, total_bytes = 0;
};

// What requests on any network thread use together.
struct ServerShared {
  ServerShared(const ServerConfig& settings, EventLog& lines) : config(settings), log(lines) {}

  const ServerConfig& config;
  EventLog& log;
  ServerCounters counters;
  std::atomic<ServerState> state = ServerState::kLoading;
  ReadProgress loading;
  std::atomic<const Backend*> backend = nullptr;  // set once, before kReady; nullptr with a pool
  std::atomic<ModelPool*> pool = nullptr;         // likewise, of a server that loads models on demand
  std::function<std::string()>
      more_metrics;                    // exposition of whatever else runs here; set once, before kReady
  ResponseArchive* archive = nullptr;  // responses are kept there; set once, before any call
  ResponseStore* responses = nullptr;  // the same, to look them up
  std::atomic<uint64_t> next_request = 1;
  std::function<void(std::function<void()>)> parse_elsewhere;  // runs work on a parser thread

  // What answers now, the one used last first: a pool's loaded models, or the one backend there is.
  std::vector<std::shared_ptr<const Backend>> backends() const;
  std::shared_ptr<const Backend> first_backend() const {
    auto all = backends();
    return all.empty() ? nullptr : std::move(all.front());
  }

  ServerLoad load(const Backend* now) const {
    ServerLoad load{.in_flight = counters.in_flight, .pending_tokens = counters.pending_tokens};
    if (now == nullptr) return load;
    load.most = now->engine.config().max_sequences + now->engine.config().max_queue;
    return load;
  }
};

}  // namespace cheetah

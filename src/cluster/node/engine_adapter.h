// SPDX-License-Identifier: MIT
#pragma once
// The engine's side of a worker: requests go in under their keys, events come back as inputs of the core.
#include <cstdint>
#include <functional>
#include <map>

#include "cluster/core/worker_ports.h"
#include "cluster/node/background_thread.h"
#include "cluster/node/node_loop.h"
#include "engine/engine.h"

namespace cheetah {
class GrammarCache;  // engine/grammar/grammar_cache.h
}

namespace cheetah::cluster {

// Under which the engine knows a request; unique as keys are.
RequestId engine_id(RequestKey key);

using FeedWorker = std::function<void(WorkerInput)>;

// Belongs to the node's thread.
class EngineAdapter {
 public:
  struct Setting {
    Engine& engine;
    GrammarCache& grammars;
    NodeLoop& loop;
    BackgroundThread& background;
    FeedWorker feed;
  };
  explicit EngineAdapter(Setting setting) : setting_(std::move(setting)) {}

  void execute(EngineSubmit& submit);
  void execute(const EngineCancel& cancel);
  void execute(const EnginePause& pause);
  void warm_up();
  WorkerLoad load() const;

 private:
  struct Running {
    bool compiling = false;  // its grammar: the engine does not have it yet
    bool cancelled = false;  // meanwhile
    bool paused = false;
  };
  void compile(EngineSubmit& submit);
  void on_compiled(RequestKey key, GenerationRequest& request, const std::string& error);
  void submit_now(RequestKey key, GenerationRequest request);
  void end(RequestKey key, FinishReason finish, const std::string& why);

  Setting setting_;
  std::map<RequestKey, Running> running_;
};

}  // namespace cheetah::cluster

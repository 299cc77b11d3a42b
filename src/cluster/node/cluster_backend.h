// SPDX-License-Identifier: MIT
#pragma once
// A cluster where a server expects an engine.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mailbox.h"
#include "cluster/node/client_adapter.h"
#include "cluster/node/node_loop.h"
#include "engine/generation_backend.h"
#include "engine/tags/request_origin.h"

namespace cheetah::cluster {

// A model that clients may ask for.
struct ServedModel {
  std::string name;                    // as they call it
  std::string id;                      // WorkerDescriptor::model
  std::shared_ptr<const Model> model;  // shared with the server
  EngineConfig limits;                 // of what they may ask
};

// Every call posts to the node's thread, which owns the clients.
class ClusterBackend final : public GenerationBackend {
 public:
  struct Setting {
    NodeLoop& loop;
    ClientAdapter& clients;
    std::vector<ServedModel> models;                            // at least one: of a request that names none
    std::function<std::string(const RequestOrigin&)> class_of;  // of service; on the node's thread
    std::function<void(RouterInput)> feed;                      // the router; on the node's thread
    std::function<bool()> has_workers;                          // ready to decode; any thread
    std::function<std::string(int64_t num)> explain;            // any thread
    std::function<std::string()> state;                         // as JSON; any thread
    std::function<GrammarSource(const GenerationRequest&)> grammar_of;  // any thread
  };
  explicit ClusterBackend(Setting setting) : setting_(std::move(setting)) {}

  void submit(GenerationRequest request, EventSink sink) override;
  void cancel(RequestId id) override;
  void pause(RequestId id) override { set_paused(id, true); }
  void resume(RequestId id) override { set_paused(id, false); }
  void drain(std::chrono::milliseconds limit) override;

  bool can_go_on() const override { return true; }
  std::string out_of_service() const override { return setting_.has_workers() ? "" : "no workers"; }
  EngineStats stats() const override { return setting_.clients.stats(); }
  std::string explain_last(int64_t num_decisions) const override { return setting_.explain(num_decisions); }
  std::string cluster_state() const override { return setting_.state(); }
  const EngineConfig& config() const override { return setting_.models.front().limits; }
  const Model& model() const override { return *setting_.models.front().model; }

 private:
  const ServedModel& model_of(const GenerationRequest& request) const;
  void set_paused(RequestId id, bool paused);
  void cancel_all();

  Setting setting_;
  std::atomic<int64_t> in_flight_ = 0;
  std::atomic<bool> refuses_ = false;
  Mailbox<char> emptied_;  // while it drains: the last request has ended
};

}  // namespace cheetah::cluster

// SPDX-License-Identifier: MIT
#pragma once
// The engine as other threads see it. One thread owns all of its state; these calls only post messages to it.
#include <functional>
#include <memory>

#include "engine/generation_backend.h"
#include "engine/kv/kv_transfer.h"
#include "engine/runner_factory.h"
#include "engine/step_failure.h"
#include "observe/log.h"

namespace cheetah {

// What its owner may bring and hear.
struct EngineHooks {
  LogSink* log = nullptr;  // outlives the engine; nullptr: silence
  // The engine computes nothing any more: out_of_service() says why, and its requests get an error next. On the
  // thread that noticed; must return soon.
  std::function<void(const EngineFault&)> on_fault;
  RunnerFactory make_runner;  // empty: the config's device
};

class Engine final : public GenerationBackend {
 public:
  // The model is shared: the server names and inspects it.
  Engine(std::shared_ptr<const Model> model, const EngineConfig& config, const EngineHooks& hooks = {});
  ~Engine() override;

  void submit(GenerationRequest request, EventSink sink) override;
  void cancel(RequestId id) override;
  void pause(RequestId id) override;
  void resume(RequestId id) override;
  void drain(std::chrono::milliseconds limit) override;

  // Runs a tiny request through every part, so that the first real one finds warm caches.
  void warm_up();

  std::string out_of_service() const override;
  EngineStats stats() const override;
  std::string explain_last(int64_t num_decisions) const override;  // the ring log
  std::vector<Decision> decisions_of(RequestId request) const override;
  const EngineConfig& config() const override;
  const Model& model() const override;

  // ---- Pages of other engines. Callbacks come on the engine thread between two steps. ----

  const KvFormat& kv_format() const;
  // As submit(); `progress` hears of the prompt's pages up to end_token as they are computed, and the pages
  // stay until the export is closed. With max_tokens 0 the request computes its prompt and ends.
  std::unique_ptr<KvExport> submit_export(
      GenerationRequest request, EventSink sink, int64_t end_token, KvProgressSink progress);
  // Into the prefix cache, where pages are free that nothing runs on. They stay until the request they are
  // for was admitted or has ended, or unpin() is called, or nothing else can make room.
  void import_pages(KvImport pages, std::function<void(KvImported)> done);
  void unpin(RequestId id);
  // How much of a text a request with it would find in the prefix cache.
  void look_up(std::string cache_salt, std::vector<int32_t> text, std::function<void(int64_t)> done);
  // Hears of every page that enters or leaves the prefix cache, first of those that are there.
  void watch_cache(std::function<void(std::vector<PrefixChange>&&)> listener);

 private:
  class Thread;
  class Export;
  std::unique_ptr<Thread> thread_;
};

}  // namespace cheetah

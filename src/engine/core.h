// SPDX-License-Identifier: MIT
#pragma once
// The engine without its thread: everything a step does, in the order it does it. One thread; time is an
// argument, so that a recorded run replays.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/batch_runner.h"
#include "engine/cache_watch.h"
#include "engine/memory_plan.h"
#include "engine/refusal.h"
#include "engine/runner_factory.h"

namespace cheetah {

// Steps run one after the other, or, where the runner takes two at once, one step ahead of what the host
// knows: the next is submitted with the last one's tokens still on the device. Both give the same tokens.
class EngineCore {
 public:
  // Time and log outlive it. Steps read when they begin and end; calls bring the time they are made at.
  EngineCore(std::shared_ptr<const Model> model, const MemoryPlan& plan, const TimeSource& time, LogSink& log,
      const RunnerFactory& make_runner = make_engine_runner);
  ~EngineCore();

  // None of these throws for what a request brings; their events wait for deliver().
  void submit(GenerationRequest request, EventSink sink, EngineTime now);
  void cancel(RequestId id, EngineTime now);
  void pause(RequestId id, bool paused, EngineTime now);
  void finish_all(FinishReason reason, EngineTime now, const RequestError& error = {});
  void refuse_new() { refuses_ = true; }
  void note_refused(RequestId id, EngineTime now);  // by a caller, before it came here

  // One step. Not `computed`: there was nothing to do before `wake`. What a step throws ends the requests that
  // caused it, not the engine; a fault of the device ends all of them.
  struct StepResult {
    bool computed = false;
    std::optional<EngineTime> wake;
  };
  StepResult step(EngineTime now);

  // Calls the sinks with what happened since the last call.
  void deliver(EngineTime now);

  // Pages for other engines: those of a request's prompt up to `end_token`, as they are computed, held until
  // closed. The request may come later.
  using ExportNumber = Exports::Number;
  using ExportPages = Exports::Pages;
  using ExportSink = Exports::Sink;
  ExportNumber open_export(RequestId id, int64_t end_token, ExportSink sink);
  void close_export(ExportNumber number) { exports_.close(number); }
  // … and from them. Pages that no running sequence needs make room; there may be none.
  KvImported import_pages(const KvImport& pages);
  void unpin(RequestId id) { imports_.unpin(id); }
  int64_t cached_tokens(std::string_view cache_salt, std::span<const int32_t> text) const;
  using ChangeSink = CacheWatch::Sink;
  void watch_cache(ChangeSink sink) { watch_.watch(std::move(sink)); }
  KvFormat kv_format();
  const PageBytes& page_bytes() const { return pages_.bytes(); }
  PageBytes& page_bytes() { return pages_.bytes(); }

  // Why it computes nothing any more; nothing: it does.
  const std::optional<EngineFault>& fault() const { return fault_; }
  // A call into the runner does not return: another thread has taken the engine from the one that waits in it.
  // Ends every request and touches the runner no more.
  void give_up(const std::string& why, EngineTime now);
  void set_guard(RunnerGuard* guard) { flights_.set_guard(guard); }

  bool idle() const { return requests_.empty() && flights_.empty(); }
  int64_t num_waiting() const { return std::ssize(requests_.waiting()); }
  const EngineConfig& config() const { return config_; }
  const Model& model() const { return *model_; }
  const RequestTable& requests() const { return requests_; }
  EngineStats stats() const;
  void copy_stats(EngineStats& stats) const;  // without allocating, where `stats` was filled before
  const DecisionLog& decisions() const { return record_.decisions(); }
  void reset_counters();  // and empties the prefix cache
  void check_invariants() const;

 private:
  std::optional<RequestError> refusal(const GenerationRequest& request) const;
  void start(RequestState& request, EngineTime now);
  bool plan(EngineTime now);
  void apply_plan(EngineTime now);
  bool admit(Sequence& sequence, EngineTime now);
  StepResult nothing_computed(EngineTime now);
  void fail_step(const std::exception& error, EngineTime now);
  void end_with(EngineFault fault, EngineTime now);

  std::shared_ptr<const Model> model_;  // shared with the server, which names and inspects it
  EngineConfig config_;
  ThreadPool threads_;
  std::unique_ptr<Runner> runner_;
  KvPool kv_;
  SequencePages pages_;
  EngineRecord record_;
  CacheWatch watch_;
  Exports exports_;
  Imports imports_;
  RequestTable requests_;
  Flights flights_;
  Outbox outbox_;
  Finisher finisher_;
  Speculator speculator_;
  StepPlanner planner_;
  BatchRunner steps_;
  bool refuses_ = false;
  std::optional<EngineFault> fault_;
};

}  // namespace cheetah

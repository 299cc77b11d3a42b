// SPDX-License-Identifier: MIT
#pragma once
// What the engine counts, times and decides, as stats() and explain_last() report it.
#include "engine/decision_log.h"
#include "engine/engine_config.h"
#include "engine/engine_stats.h"
#include "engine/sequence.h"

namespace cheetah {

// One thread: the engine's. Config and pool outlive it.
class EngineRecord {
 public:
  EngineRecord(const EngineConfig& config, const PagePool& pool, EngineTime start);

  void reset();  // counters start again; the averages of the steps' times stay

  void note(DecisionKind kind, const Sequence& sequence, EngineTime now, Decision decision = {});
  void note_refused(RequestId id, EngineTime now);
  void observe_arrival(const RequestState& request);
  void observe_scheduled(RequestState& request, EngineTime now);
  void observe_token(Sequence& sequence, EngineTime now);
  void observe_finished(const RequestState& request, FinishReason reason);
  struct StepCounts {
    int64_t sequences = 0;
    int64_t drafted = 0, accepted = 0;  // of the tokens
  };
  void observe_step(const StepShape& shape, const StepCounts& counts, double step_s);

  EngineTime start() const { return start_; }
  EngineStats& stats() { return stats_; }
  const EngineStats& stats() const { return stats_; }
  const DecisionLog& decisions() const { return log_; }

 private:
  const EngineConfig& config_;
  const PagePool& pool_;
  EngineTime start_;
  EngineStats stats_;
  DecisionLog log_;
};

}  // namespace cheetah

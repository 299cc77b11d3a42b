// SPDX-License-Identifier: MIT
#pragma once
// Submits batches to the runner and takes what they bring.
#include "engine/finisher.h"
#include "engine/speculator.h"
#include "engine/step_failure.h"
#include "engine/step_planner.h"
#include "observe/log.h"

namespace cheetah {

// One thread. Where the runner takes two steps at once, one stays in flight while the host prepares the next.
class BatchRunner {
 public:
  struct Parts {
    const ModelTraits& traits;
    Flights& flights;
    SequencePages& pages;
    Exports& exports;
    RequestTable& requests;
    StepPlanner& planner;
    Finisher& finisher;
    Speculator& speculator;
    EngineRecord& record;
    const TimeSource& time;
    LogSink& log;
  };
  explicit BatchRunner(const Parts& parts) : with_(parts) {}

  void clear() { batch_.clear(); }
  bool empty() const { return batch_.empty(); }
  // The sequence's next `count` tokens; nothing where no pages are free for them.
  void add(Sequence& sequence, int64_t count);
  // Launches what was added. Lands the oldest step where the runner takes no further one.
  void compute();
  void land();
  void land_all();

  // Launches that failed since the last step that was done.
  int64_t num_failed() const { return num_failed_; }
  const StepFailure& last_failure() const { return last_failure_; }
  // What is in flight, for a step that does not end.
  StepFailure describe_flights(std::string why) const;

 private:
  void launch();
  void compute_one_by_one(const std::string& why);
  void set_off(Flight& flight, const StepWork& work, int64_t& sample, EngineTime now);
  void fork(RequestState& request, EngineTime now);
  void note_prefills(const Flight& flight, EngineTime now);
  void commit(const Flight& flight, const StepResult& result, EngineTime now);
  void take_verified(const StepWork& work, std::span<SampledToken> sampled, EngineTime now);
  void commit_work(const StepWork& work, const StepResult& result, EngineTime now);
  void report(const std::exception& error, StepFailure failure);
  template <class Action>
  void guarded(Sequence& sequence, EngineTime now, const Action& action);

  const Parts with_;
  StepBatch batch_;
  EngineTime last_landing_{};
  int64_t num_failed_ = 0;
  StepFailure last_failure_;
};

}  // namespace cheetah

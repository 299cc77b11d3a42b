// SPDX-License-Identifier: MIT
#pragma once
// Describes what runs and waits in plain values, has the scheduler plan a step from them, and tells which
// sequences the plan means.
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/exports.h"
#include "engine/request_table.h"
#include "engine/scheduler/scheduler.h"
#include "engine/sequence_pages.h"
#include "engine/speculator.h"

namespace cheetah {

// One thread. The plan and the sequences it means are those of the last plan().
class StepPlanner {
 public:
  struct Setting {
    const ModelTraits& traits;
    const EngineConfig& config;
    const RequestTable& requests;
    const SequencePages& pages;
    const Exports& exports;
    Speculator& speculator;
  };
  explicit StepPlanner(const Setting& setting);

  void plan(EngineTime now);
  const StepPlan& last() const { return plan_; }
  Sequence& running(int64_t index) const { return *was_running_[static_cast<size_t>(index)]; }
  Sequence& waiting(int64_t index) const { return *was_waiting_[static_cast<size_t>(index)]; }

  // The plan is being followed.
  void follow() { stood_back_ = plan_.stood_back > 0; }
  // The first waiting sequence and why it waits, where that was not told before.
  struct Hold {
    const Sequence& sequence;
    HoldReason reason;
  };
  std::optional<Hold> new_hold();

  // What the next step does is known before the tokens of the one in flight are: of all that runs, and of what
  // the plan starts.
  bool looks_ahead() const;
  bool plan_runs_ahead() const;

  void observe(const StepShape& shape, double step_s) { learner_.observe(shape, step_s); }

 private:
  void draft(EngineTime now);
  bool can_run_ahead(const Sequence& sequence) const;
  bool ends_in_flight(const Sequence& sequence) const;
  bool waits_for_first_choice(const Sequence& sequence) const;
  int64_t longest_chunk(const RequestState& request, int64_t pending) const;
  RunningSequence view_running(const Sequence& sequence, bool tight) const;
  WaitingSequence view_waiting(const Sequence& sequence, bool look_up, EngineTime now) const;
  void build_views(EngineTime now);

  const Setting with_;
  const SchedulerConfig scheduling_;
  StepTimeLearner learner_;
  bool stood_back_ = false;            // some sequence, in the last plan that was followed
  std::optional<uint64_t> last_held_;  // its rank's number
  HoldReason last_hold_{};
  // Reused from step to step.
  std::vector<RunningSequence> running_views_;
  std::vector<WaitingSequence> waiting_views_;
  std::vector<Sequence*> was_running_, was_waiting_;  // as the plan numbers them
  std::vector<Sequence*> decoding_;
  StepPlan plan_;
};

}  // namespace cheetah

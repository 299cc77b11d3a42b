// SPDX-License-Identifier: MIT
#pragma once
// What the next step does, as a pure function of plain values: no clock, no pages, no model.
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduler/step_time.h"

namespace cheetah {

enum class BatchPolicy {
  kContinuous,  // sequences join and leave at every step
  kDynamic,     // a batch starts when it is full or its oldest has waited a little, and runs to its end
  kStatic,      // a batch starts with whatever waits, and runs to its end
};
enum class Preemption { kRecompute, kSwap };

// The order of service. It is fixed on arrival: waiting ageing_s longer is worth one priority level, so the
// level is that of priority + arrival / ageing_s, and a request never waits for one that came more than
// (1 + difference of priorities) * ageing_s later. Among equals the least work goes first.
struct Rank {
  int64_t level = 0;
  int64_t work = 0;  // tokens to compute and to generate at most
  uint64_t number = 0;

  auto operator<=>(const Rank&) const = default;
};
Rank make_rank(int priority, double arrival_s, double ageing_s, int64_t work, uint64_t number);

struct RunningSequence {
  Rank rank;
  int priority = 0;
  int64_t computed = 0;       // tokens in the cache
  int64_t pending = 1;        // tokens to compute before the next one can be sampled
  bool decoding = false;      // pending is the one sampled last
  int64_t drafted = 0;        // tokens after it to verify, where there is room
  int64_t full_pages = 0;     // it has in each group of layers without a window
  int64_t window_pages = 0;   // it has, or had, in each group with one
  int64_t freed_pages = 0;    // that preempting it gives back
  int64_t copied_pages = 0;   // it writes next and shares
  int64_t num_sequences = 1;  // it counts as: more while its other choices wait for its prompt
  bool paused = false;        // takes no part, counts as none, and its pages are the first to go
  int64_t max_chunk = 0;      // 0: any
  bool whole = false;         // pending must be computed in one step
};

struct WaitingSequence {
  Rank rank;
  int priority = 0;
  int64_t tokens = 0;     // to be in the cache before a token can be sampled
  int64_t cached = 0;     // of those, what need not be computed
  int64_t new_pages = 0;  // it takes from the free ones, beside those of windowed groups for its first chunk
  int64_t num_sequences = 1;  // it will become
  double waited_s = 0;
  bool blocked = false;  // another sequence is computing its beginning
  int64_t max_chunk = 0;
  bool whole = false;
};

struct SchedulerConfig {
  BatchPolicy policy = BatchPolicy::kContinuous;
  Preemption preemption = Preemption::kRecompute;
  int64_t max_sequences = 64;
  int64_t max_batch_tokens = 2048;
  int64_t page_tokens = 16;
  int64_t full_groups = 1, window_groups = 0;  // of layers, each with pages of its own
  double step_target_s = 0.05;
  double batch_delay_s = 0.01;  // kDynamic
  double swap_page_s = 20e-6;   // to copy one page out and in again
};

struct SchedulerState {
  std::span<const RunningSequence> running;
  std::span<const WaitingSequence> waiting;
  int64_t free_pages = 0;  // that can be had, evicting what only the prefix cache holds
  StepTimeModel time;
  bool stood_back = false;  // in the step before, a sequence did (StepPlan::stood_back)
};

enum class PreemptReason { kPagesShort, kHigherPriority };
enum class HoldReason {
  kNone,
  kSequencesFull,
  kTokensSpent,
  kPagesShort,
  kInFlight,
  kBatchRuns,
  kBatchForms
};

struct StepPlan {
  struct Chunk {
    int64_t index = 0;   // of running or waiting
    int64_t tokens = 0;  // to compute now
  };
  struct Preempted {
    int64_t index = 0;
    Preemption how = Preemption::kRecompute;
    PreemptReason reason = PreemptReason::kPagesShort;
  };
  std::vector<Chunk> decodes, prefills;  // of running
  std::vector<Chunk> admissions;         // of waiting; an admitted sequence may have to wait for its turn: 0
  std::vector<Preempted> preemptions;    // of running
  // Left out of this step, so that it is short: a more urgent request gets its first token by it. Never in two
  // steps one after the other.
  int64_t stood_back = 0;
  HoldReason held_back = HoldReason::kNone;  // why the first sequence still waiting does
  std::optional<double> wake_in_s;           // nothing to do now, but something then
  StepShape shape;
  double predicted_s = 0;

  std::vector<int64_t> running_order, waiting_order;  // by rank
  std::vector<bool> gone;                             // of running: preempted by this plan

  void clear();
  bool computes_nothing() const;
};

// Storage of `plan` is reused. The same values give the same plan.
void plan_step(const SchedulerState& state, const SchedulerConfig& config, StepPlan& plan);

}  // namespace cheetah

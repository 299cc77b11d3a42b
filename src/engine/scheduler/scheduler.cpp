// SPDX-License-Identifier: MIT
#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cheetah {
namespace {

// Before the first steps are measured: small enough for any machine, large enough to learn from.
constexpr int64_t kUnlearnedChunk = 64;
// Prompts go on however slow the decodes are: by as many tokens as a tile of the matrix products holds.
constexpr int64_t kLeastChunk = 8;
// Steps vary: aiming a little low keeps the slow ones near the target, and lower where they vary more, so
// that few take a fifth longer than they should.
constexpr double kAim = 0.9, kLowestAim = 0.5, kTolerated = 1.15;
// With no one decoding, only newcomers and cancellations wait for the step's end.
constexpr double kAloneTargetFactor = 4;

class Planner {
 public:
  Planner(const SchedulerState& state, const SchedulerConfig& config, StepPlan& plan)
      : state_(state),
        config_(config),
        plan_(plan),
        free_pages_(state.free_pages),
        tokens_left_(config.max_batch_tokens) {
    plan_.gone.assign(state.running.size(), false);
  }

  void run() {
    sort(state_.running, plan_.running_order);
    sort(state_.waiting, plan_.waiting_order);
    for (const RunningSequence& sequence : state_.running) num_running_ += sequence.num_sequences;
    for (const int64_t index : plan_.running_order) plan_decode(index);
    const double factor = plan_.decodes.empty() ? kAloneTargetFactor : 1;
    target_s_ = std::clamp(kTolerated / state_.time.late, kLowestAim, kAim) * factor * config_.step_target_s;
    for (const int64_t index : plan_.running_order)
      if (!plan_prefill(index)) break;
    note_first_tokens();
    plan_admissions();
    let_urgent_through();
    plan_.predicted_s = state_.time.predict(plan_.shape);
  }

 private:
  bool continuous() const { return config_.policy == BatchPolicy::kContinuous; }
  const RunningSequence& running(int64_t index) const { return state_.running[static_cast<size_t>(index)]; }
  bool gone(int64_t index) const { return plan_.gone[static_cast<size_t>(index)]; }

  template <class Sequence>
  static void sort(std::span<const Sequence> sequences, std::vector<int64_t>& order) {
    order.resize(sequences.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    std::ranges::sort(order, {}, [&](int64_t i) { return sequences[static_cast<size_t>(i)].rank; });
  }

  int64_t pages_for(const RunningSequence& sequence, int64_t tokens) const {
    const int64_t wanted = pages_up_to(sequence.computed + tokens);
    return config_.full_groups * std::max<int64_t>(0, wanted - sequence.full_pages) +
           config_.window_groups * std::max<int64_t>(0, wanted - sequence.window_pages) +
           sequence.copied_pages;
  }
  int64_t pages_for(const WaitingSequence& sequence, int64_t tokens) const {
    const int64_t more = pages_up_to(sequence.cached + tokens) - pages_up_to(sequence.cached);
    return sequence.new_pages + config_.window_groups * more;
  }
  int64_t pages_up_to(int64_t tokens) const {
    return (tokens + config_.page_tokens - 1) / config_.page_tokens;
  }

  // As many of `tokens` as `free` pages suffice for, by whole pages, but no less than a few.
  template <class Sequence>
  int64_t fitting(const Sequence& sequence, int64_t tokens, int64_t free) const {
    if (config_.window_groups == 0 || sequence.whole) return tokens;
    const int64_t over = pages_for(sequence, tokens) - free;
    if (over <= 0) return tokens;
    const int64_t groups = config_.window_groups;
    return std::max(
        std::min(tokens, kLeastChunk), tokens - (over + groups - 1) / groups * config_.page_tokens);
  }

  void plan_decode(int64_t index) {
    const RunningSequence& sequence = running(index);
    if (gone(index) || sequence.paused || !sequence.decoding || sequence.whole || tokens_left_ == 0) return;
    const int64_t tokens = 1 + fitting_draft(sequence);
    const int64_t pages = pages_for(sequence, tokens);
    if (!make_room(pages, sequence.rank)) return;
    free_pages_ -= pages;
    take(plan_.decodes, index, tokens, sequence.computed);
  }

  // Drafts take what is left over: nothing is preempted for them.
  int64_t fitting_draft(const RunningSequence& sequence) const {
    const int64_t drafted = std::min(sequence.drafted, tokens_left_ - 1);
    return free_pages_ - pages_for(sequence, 1 + drafted) >= reserve() ? drafted : 0;
  }

  // False: no prompt further back gets its turn in this step.
  bool plan_prefill(int64_t index) {
    const RunningSequence& sequence = running(index);
    if (gone(index) || sequence.paused || (sequence.decoding && !sequence.whole)) return true;
    int64_t tokens = chunk(sequence.pending, sequence.computed, sequence.max_chunk, sequence.whole);
    if (tokens == 0) return false;
    tokens = fitting(sequence, tokens, free_pages_);
    const int64_t pages = pages_for(sequence, tokens);
    if (!make_room(pages, sequence.rank)) return false;
    free_pages_ -= pages;
    take(plan_.prefills, index, tokens, sequence.computed);
    return true;
  }

  // How many of `pending` tokens this step can still take; at least a few for the first prompt.
  int64_t chunk(int64_t pending, int64_t context, int64_t limit, bool whole) const {
    const bool first = plan_.prefills.empty() && !computes_admissions();
    if (whole) return first ? pending : 0;
    int64_t room = limit > 0 ? std::min(limit, tokens_left_) : tokens_left_;
    if (continuous()) {
      const int64_t timely =
          state_.time.learned
              ? state_.time.tokens_within(target_s_ - state_.time.predict(plan_.shape), context)
              : kUnlearnedChunk - std::min(kUnlearnedChunk, prompt_tokens_);
      room = std::min(room, std::max(timely, first ? kLeastChunk : 0));
    }
    if (pending <= room) return pending;
    return room >= kLeastChunk ? room - room % kLeastChunk : (first ? room : 0);
  }

  bool computes_admissions() const {
    return std::ranges::any_of(plan_.admissions, [](const StepPlan::Chunk& c) { return c.tokens > 0; });
  }

  void take(std::vector<StepPlan::Chunk>& list, int64_t index, int64_t tokens, int64_t context) {
    list.push_back({.index = index, .tokens = tokens});
    tokens_left_ -= std::min(tokens_left_, tokens);
    if (&list != &plan_.decodes) prompt_tokens_ += tokens;
    plan_.shape.add(tokens, context);
  }

  // Preempts sequences that rank behind `rank` until `pages` are free. Since the order is fixed, a sequence that is
  // first always gets on.
  bool make_room(int64_t pages, const Rank& rank) {
    while (free_pages_ < pages) {
      const auto victim = choose_victim(rank, std::nullopt, true);
      if (!victim) return false;
      preempt(*victim, PreemptReason::kPagesShort);
    }
    return true;
  }

  // The cheapest page to win back, from the lowest priority first. `below_priority`: only from lower ones,
  // but then also from those that have their turn in this plan.
  // Who is paused loses nothing by it and goes before all others, where it is pages that are wanted.
  std::optional<int64_t> choose_victim(
      const Rank& rank, std::optional<int> below_priority, bool pages_wanted) const {
    std::optional<int64_t> best;
    for (const int64_t index : plan_.running_order) {
      const RunningSequence& sequence = running(index);
      if (gone(index)) continue;
      if (sequence.paused) {
        if (!pages_wanted || sequence.freed_pages == 0) continue;
        if (!best || better_victim(sequence, running(*best))) best = index;
        continue;
      }
      if (sequence.rank <= rank) continue;
      if (below_priority ? sequence.priority <= *below_priority : is_planned(index)) continue;
      if (!best || better_victim(sequence, running(*best))) best = index;
    }
    return best;
  }
  bool better_victim(const RunningSequence& a, const RunningSequence& b) const {
    if (a.paused != b.paused) return a.paused;
    if (a.priority != b.priority) return a.priority > b.priority;
    const double cost_a = loss_per_page(a), cost_b = loss_per_page(b);
    if (cost_a != cost_b) return cost_a < cost_b;
    return a.rank > b.rank;
  }
  double loss_per_page(const RunningSequence& sequence) const {
    // Pages shared with another choice come back only when both go: the last resort.
    if (sequence.freed_pages == 0) return std::numeric_limits<double>::infinity();
    if (config_.preemption == Preemption::kSwap) return config_.swap_page_s;
    StepShape again;  // what the prefix cache keeps need not be computed again
    const int64_t groups = config_.full_groups + config_.window_groups;
    const int64_t lost =
        std::min(sequence.computed, (sequence.freed_pages + groups - 1) / groups * config_.page_tokens);
    again.add(lost, sequence.computed - lost);
    return state_.time.predict(again) / static_cast<double>(sequence.freed_pages);
  }
  bool is_planned(int64_t index) const {
    const auto has = [&](const std::vector<StepPlan::Chunk>& list) {
      return std::ranges::find(list, index, &StepPlan::Chunk::index) != list.end();
    };
    return has(plan_.decodes) || has(plan_.prefills);
  }
  void unplan(std::vector<StepPlan::Chunk>& list, int64_t index) {
    const auto at = std::ranges::find(list, index, &StepPlan::Chunk::index);
    if (at == list.end()) return;
    StepShape shape;
    shape.add(at->tokens, running(index).computed);
    plan_.shape.tokens -= shape.tokens;
    plan_.shape.pairs -= shape.pairs;
    tokens_left_ += at->tokens;
    free_pages_ += pages_for(running(index), at->tokens);
    list.erase(at);
  }
  void preempt(int64_t index, PreemptReason reason) {
    unplan(plan_.decodes, index);
    unplan(plan_.prefills, index);
    const bool swap = config_.preemption == Preemption::kSwap && running(index).computed > 0;
    plan_.preemptions.push_back(
        {.index = index, .how = swap ? Preemption::kSwap : Preemption::kRecompute, .reason = reason});
    plan_.gone[static_cast<size_t>(index)] = true;
    free_pages_ += running(index).freed_pages;
    num_running_ -= running(index).num_sequences;
  }

  // Whose first token comes with this step.
  void note_first_token(int priority) {
    if (continuous() && !state_.stood_back) urgent_ = std::min(urgent_.value_or(priority), priority);
  }
  void note_first_tokens() {
    for (const StepPlan::Chunk& chunk : plan_.prefills) {
      const RunningSequence& sequence = running(chunk.index);
      if (!sequence.decoding && chunk.tokens == sequence.pending) note_first_token(sequence.priority);
    }
  }
  void let_urgent_through() {
    for (auto* list : {&plan_.decodes, &plan_.prefills})
      for (size_t i = list->size(); urgent_ && i-- > 0;) {
        const int64_t index = (*list)[i].index;
        if (running(index).priority <= *urgent_) continue;
        unplan(*list, index);
        ++plan_.stood_back;
      }
  }

  void plan_admissions() {
    if (!batch_is_open()) return;
    for (const int64_t index : plan_.waiting_order) {
      const WaitingSequence& sequence = state_.waiting[static_cast<size_t>(index)];
      const bool stands_back = urgent_ && sequence.priority > *urgent_;
      const HoldReason reason = stands_back ? HoldReason::kTokensSpent : admit(index, sequence);
      if (reason == HoldReason::kNone) continue;
      if (plan_.held_back == HoldReason::kNone) plan_.held_back = reason;
      if (reason != HoldReason::kInFlight) return;  // no one overtakes a sequence that lacks room
    }
  }

  bool batch_is_open() {
    if (continuous() || state_.waiting.empty()) return true;
    if (!state_.running.empty()) {
      plan_.held_back = HoldReason::kBatchRuns;
      return false;
    }
    if (config_.policy == BatchPolicy::kStatic || std::ssize(state_.waiting) >= config_.max_sequences)
      return true;
    double longest = 0;
    for (const WaitingSequence& sequence : state_.waiting) longest = std::max(longest, sequence.waited_s);
    if (longest >= config_.batch_delay_s) return true;
    plan_.wake_in_s = config_.batch_delay_s - longest;
    plan_.held_back = HoldReason::kBatchForms;
    return false;
  }

  HoldReason admit(int64_t index, const WaitingSequence& sequence) {
    if (sequence.blocked) return HoldReason::kInFlight;
    const int64_t pending = sequence.tokens - sequence.cached;
    int64_t tokens = chunk(pending, sequence.cached, sequence.max_chunk, sequence.whole);
    if (tokens == 0 && continuous()) return HoldReason::kTokensSpent;
    while (num_running_ + sequence.num_sequences > config_.max_sequences)
      if (!give_way(sequence, false)) return HoldReason::kSequencesFull;
    tokens = fitting(sequence, tokens, free_pages_ - reserve());
    while (free_pages_ - pages_for(sequence, tokens) < reserve())
      if (!give_way(sequence, true)) return HoldReason::kPagesShort;
    free_pages_ -= pages_for(sequence, tokens);
    num_running_ += sequence.num_sequences;
    take(plan_.admissions, index, tokens, sequence.cached);
    if (tokens == pending) note_first_token(sequence.priority);
    return HoldReason::kNone;
  }

  // Pages left to those already running, so that a newcomer does not push them out at once.
  int64_t reserve() const { return num_running_ * (config_.full_groups + config_.window_groups); }

  bool give_way(const WaitingSequence& sequence, bool pages_wanted) {
    const auto victim = choose_victim(sequence.rank, sequence.priority, pages_wanted);
    if (victim)
      preempt(*victim, running(*victim).paused ? PreemptReason::kPagesShort : PreemptReason::kHigherPriority);
    return victim.has_value();
  }

  const SchedulerState& state_;
  const SchedulerConfig& config_;
  StepPlan& plan_;
  int64_t free_pages_;
  int64_t tokens_left_;
  int64_t prompt_tokens_ = 0;
  int64_t num_running_ = 0;
  double target_s_ = 0;
  std::optional<int> urgent_;  // the most urgent priority of those whose first token comes with this step
};

}  // namespace

Rank make_rank(int priority, double arrival_s, double ageing_s, int64_t work, uint64_t number) {
  return {.level = static_cast<int64_t>(std::floor(priority + arrival_s / ageing_s)),
      .work = work,
      .number = number};
}

void StepPlan::clear() {
  decodes.clear();
  prefills.clear();
  admissions.clear();
  preemptions.clear();
  stood_back = 0;
  held_back = HoldReason::kNone;
  wake_in_s.reset();
  shape = {};
  predicted_s = 0;
}

bool StepPlan::computes_nothing() const {
  return decodes.empty() && prefills.empty() && admissions.empty() && preemptions.empty();
}

void plan_step(const SchedulerState& state, const SchedulerConfig& config, StepPlan& plan) {
  plan.clear();
  Planner(state, config, plan).run();
}

}  // namespace cheetah

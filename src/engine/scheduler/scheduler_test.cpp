// SPDX-License-Identifier: MIT
#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "engine/kv/page_pool.h"

namespace cheetah {
namespace {

RunningSequence decoding(uint64_t number, int64_t computed, int64_t page_tokens = 16) {
  const int64_t pages = (computed + page_tokens - 1) / page_tokens;
  return {.rank = {.level = 0, .work = 0, .number = number},
      .computed = computed,
      .decoding = true,
      .full_pages = pages,
      .freed_pages = pages};
}

StepPlan plan_of(const std::vector<RunningSequence>& running, const std::vector<WaitingSequence>& waiting,
    int64_t free_pages, const SchedulerConfig& config = {}, const StepTimeModel& time = {}) {
  StepPlan plan;
  plan_step({.running = running, .waiting = waiting, .free_pages = free_pages, .time = time}, config, plan);
  return plan;
}

TEST(Scheduler, DecodesFirstAndFillsTheStepWithPrompts) {
  const std::vector<RunningSequence> running = {decoding(1, 20), decoding(2, 30)};
  const std::vector<WaitingSequence> waiting = {{.rank = {.number = 3}, .tokens = 1000, .new_pages = 63}};
  const StepTimeModel time{.fixed_s = 0.01, .per_token_s = 1e-3, .learned = true};
  const StepPlan plan = plan_of(running, waiting, 100, {.step_target_s = 0.05}, time);
  EXPECT_EQ(plan.decodes.size(), 2u);
  ASSERT_EQ(plan.admissions.size(), 1u);
  EXPECT_EQ(plan.admissions[0].tokens, 32) << "of the 45 ms aimed at 33 are left, in whole eights";
  EXPECT_LE(plan.predicted_s, 0.05);
}

TEST(Scheduler, APromptGoesOnEvenWhenDecodesTakeTheWholeTarget) {
  const std::vector<RunningSequence> running = {decoding(1, 20)};
  const std::vector<WaitingSequence> waiting = {{.rank = {.number = 3}, .tokens = 1000, .new_pages = 63}};
  const StepTimeModel time{.fixed_s = 0.06, .per_token_s = 1e-3, .learned = true};
  EXPECT_EQ(plan_of(running, waiting, 100, {.step_target_s = 0.05}, time).admissions.at(0).tokens, 8);
}

TEST(Scheduler, PreemptsTheCheapestOfThoseThatRankBehind) {
  std::vector<RunningSequence> running = {decoding(1, 16), decoding(2, 480), decoding(3, 64)};
  running[1].freed_pages = 1;  // the prefix cache keeps the rest, so little is lost
  const StepTimeModel time{.per_token_s = 1e-3, .per_pair_s = 1e-6, .learned = true};
  const StepPlan plan = plan_of(running, {}, 0, {}, time);
  ASSERT_EQ(plan.preemptions.size(), 1u);
  EXPECT_EQ(plan.preemptions[0].index, 2) << "a page of a short context is cheaper to compute again";
  EXPECT_EQ(plan.decodes.at(0).index, 0);
}

TEST(Scheduler, ALowerPriorityGivesWayToAHigherOne) {
  std::vector<RunningSequence> running = {decoding(1, 16)};
  running[0].rank.level = 5;
  running[0].priority = 5;
  const std::vector<WaitingSequence> waiting = {
      {.rank = {.number = 2}, .priority = 0, .tokens = 10, .new_pages = 1}};
  const StepPlan plan = plan_of(running, waiting, 10, {.max_sequences = 1});
  ASSERT_EQ(plan.preemptions.size(), 1u);
  EXPECT_EQ(plan.preemptions[0].reason, PreemptReason::kHigherPriority);
  EXPECT_TRUE(plan.decodes.empty());
  EXPECT_EQ(plan.admissions.size(), 1u);
  running[0].priority = 0;
  EXPECT_EQ(plan_of(running, waiting, 10, {.max_sequences = 1}).held_back, HoldReason::kSequencesFull)
      << "an equal one does not";
}

TEST(Scheduler, TheLessUrgentStandBackOneStepForAFirstToken) {
  std::vector<RunningSequence> running = {decoding(1, 16), decoding(2, 16), decoding(3, 16)};
  for (RunningSequence& sequence : running) sequence.priority = sequence.rank.number == 2 ? -9 : 0;
  std::vector<WaitingSequence> waiting = {
      {.rank = {.level = -9, .number = 4}, .priority = -9, .tokens = 64, .cached = 48, .new_pages = 2},
      {.rank = {.number = 5}, .tokens = 16, .new_pages = 2}};
  const StepPlan plan = plan_of(running, waiting, 20);
  ASSERT_EQ(plan.decodes.size(), 1u) << "only the one that is as urgent";
  EXPECT_EQ(plan.decodes[0].index, 1);
  ASSERT_EQ(plan.admissions.size(), 1u) << "nobody less urgent begins either";
  EXPECT_EQ(plan.stood_back, 2);

  StepPlan next;
  plan_step(
      {.running = running, .waiting = waiting, .free_pages = 20, .time = {}, .stood_back = true}, {}, next);
  EXPECT_EQ(next.decodes.size(), 3u) << "never twice in a row";
  EXPECT_EQ(next.admissions.size(), 2u);
  EXPECT_EQ(next.stood_back, 0);

  waiting[0].cached = 0;
  waiting[0].tokens = 4096;
  waiting[0].new_pages = 10;
  EXPECT_EQ(plan_of(running, waiting, 20).stood_back, 0) << "nor for a prompt that is not done by this step";
}

TEST(Scheduler, WaitsForWhatIsInFlightButLetsOthersPass) {
  const std::vector<WaitingSequence> waiting = {
      {.rank = {.number = 1}, .tokens = 64, .new_pages = 5, .blocked = true},
      {.rank = {.number = 2}, .tokens = 16, .new_pages = 2}};
  const StepPlan plan = plan_of({}, waiting, 10);
  ASSERT_EQ(plan.admissions.size(), 1u);
  EXPECT_EQ(plan.admissions[0].index, 1);
  EXPECT_EQ(plan.held_back, HoldReason::kInFlight);
}

TEST(Scheduler, NoOneOvertakesASequenceThatLacksRoom) {
  const std::vector<WaitingSequence> waiting = {{.rank = {.number = 1}, .tokens = 640, .new_pages = 41},
      {.rank = {.number = 2}, .tokens = 16, .new_pages = 2}};
  const StepPlan plan = plan_of({}, waiting, 10);
  EXPECT_TRUE(plan.admissions.empty());
  EXPECT_EQ(plan.held_back, HoldReason::kPagesShort);
}

TEST(Scheduler, WaitingIsWorthPriority) {
  const auto rank = [](int priority, double arrival) { return make_rank(priority, arrival, 5, 10, 1); };
  EXPECT_LT(rank(0, 0.0), rank(1, 0.0));
  EXPECT_LT(rank(1, 0.0), rank(0, 10.0)) << "after two levels of waiting the lower priority goes first";
  EXPECT_LT(make_rank(0, 1, 5, 10, 2), make_rank(0, 0, 5, 1000, 1)) << "among equals the shorter first";
}

TEST(Scheduler, BatchesRunToTheirEndUnderTheOldPolicies) {
  const std::vector<WaitingSequence> waiting = {{.rank = {.number = 1}, .tokens = 8, .new_pages = 1}};
  const std::vector<RunningSequence> running = {decoding(9, 16)};
  for (const BatchPolicy policy : {BatchPolicy::kStatic, BatchPolicy::kDynamic}) {
    EXPECT_TRUE(plan_of(running, waiting, 100, {.policy = policy}).admissions.empty());
    EXPECT_EQ(plan_of(running, waiting, 100, {.policy = policy}).held_back, HoldReason::kBatchRuns);
  }
  EXPECT_EQ(plan_of({}, waiting, 100, {.policy = BatchPolicy::kStatic}).admissions.size(), 1u);
  const StepPlan forming = plan_of({}, waiting, 100, {.policy = BatchPolicy::kDynamic});
  EXPECT_TRUE(forming.computes_nothing());
  EXPECT_DOUBLE_EQ(forming.wake_in_s.value(), 0.01);
}

// A machine of pages and token counts that does what the plans say.
class Simulation {
 public:
  struct Sequence {
    Rank rank;
    int priority = 0;
    int64_t tokens = 0, computed = 0, end = 0;
    bool decoding = false;
    std::vector<PageIndex> pages = {};
  };

  Simulation(const SchedulerConfig& config, int64_t pages)
      : config_(config), pool_(pages, config.page_tokens) {}

  void add(int64_t prompt, int64_t output, int priority) {
    const double arrival = 0.1 * static_cast<double>(steps_);
    waiting_.push_back({.rank = make_rank(priority, arrival, 1.0, prompt + output, ++number_),
        .priority = priority,
        .tokens = prompt,
        .end = prompt + output});
  }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int64_t steps() const { return steps_; }
  int64_t free_pages() const { return pool_.num_free(); }

  void step() {
    ++steps_;
    build_views();
    StepPlan plan, again;
    const SchedulerState state{
        .running = running_views_, .waiting = waiting_views_, .free_pages = pool_.num_free(), .time = time_};
    plan_step(state, config_, plan);
    plan_step(state, config_, again);
    RC_ASSERT(same(plan, again));
    check_budgets(plan);
    apply(plan);
    pool_.check_invariants();
  }

 private:
  static bool same(const StepPlan& a, const StepPlan& b) {
    const auto equal = [](const auto& x, const auto& y) {
      return std::ranges::equal(
          x, y, [](const auto& p, const auto& q) { return p.index == q.index && p.tokens == q.tokens; });
    };
    return equal(a.decodes, b.decodes) && equal(a.prefills, b.prefills) &&
           equal(a.admissions, b.admissions) && a.preemptions.size() == b.preemptions.size();
  }

  void build_views() {
    running_views_.clear();
    waiting_views_.clear();
    for (const Sequence& s : running_)
      running_views_.push_back({.rank = s.rank,
          .priority = s.priority,
          .computed = s.computed,
          .pending = s.tokens - s.computed,
          .decoding = s.decoding,
          .full_pages = std::ssize(s.pages),
          .freed_pages = std::ssize(s.pages)});
    for (const Sequence& s : waiting_)
      waiting_views_.push_back({.rank = s.rank,
          .priority = s.priority,
          .tokens = s.tokens,
          .new_pages = pool_.pages_for(std::min(s.tokens + 1, s.end)),
          .waited_s = 1});
  }

  void check_budgets(const StepPlan& plan) const {
    RC_ASSERT(plan.shape.tokens <= config_.max_batch_tokens);
    const int64_t sequences =
        std::ssize(running_) - std::ssize(plan.preemptions) + std::ssize(plan.admissions);
    RC_ASSERT(sequences <= std::max(config_.max_sequences, std::ssize(running_)));
    std::set<int64_t> seen;
    for (const auto& p : plan.preemptions) RC_ASSERT(seen.insert(p.index).second);
    for (const auto& c : plan.decodes) RC_ASSERT(seen.insert(c.index).second);
    for (const auto& c : plan.prefills) RC_ASSERT(seen.insert(c.index).second);
    RC_ASSERT(!plan.computes_nothing() || plan.wake_in_s.has_value());
  }

  void compute(Sequence& s, int64_t tokens) {
    RC_ASSERT(tokens <= s.tokens - s.computed);
    s.computed += tokens;
    while (std::ssize(s.pages) < pool_.pages_for(s.computed)) {
      const auto page = pool_.allocate();
      RC_ASSERT(page.has_value());  // the plan promised it
      s.pages.push_back(*page);
    }
    if (s.computed < s.tokens) return;
    s.decoding = true;
    ++s.tokens;  // the sampled one
  }

  void release(Sequence& s) {
    for (const PageIndex page : s.pages) pool_.release(page);
    s.pages.clear();
    s.computed = 0;
    s.decoding = false;
  }

  void apply(const StepPlan& plan) {
    std::vector<Sequence> kept_running, kept_waiting;
    std::set<int64_t> preempted, admitted;
    for (const auto& p : plan.preemptions) {
      preempted.insert(p.index);
      release(running_[static_cast<size_t>(p.index)]);
    }
    for (const auto& c : plan.admissions) {
      Sequence& s = waiting_[static_cast<size_t>(c.index)];
      admitted.insert(c.index);
      while (std::ssize(s.pages) < waiting_views_[static_cast<size_t>(c.index)].new_pages)
        s.pages.push_back(pool_.allocate().value());
    }
    for (const auto& list : {plan.decodes, plan.prefills})
      for (const auto& c : list) compute(running_[static_cast<size_t>(c.index)], c.tokens);
    for (const auto& c : plan.admissions) compute(waiting_[static_cast<size_t>(c.index)], c.tokens);
    for (size_t i = 0; i < running_.size(); ++i)
      (preempted.contains(static_cast<int64_t>(i)) ? kept_waiting : kept_running).push_back(running_[i]);
    for (size_t i = 0; i < waiting_.size(); ++i)
      (admitted.contains(static_cast<int64_t>(i)) ? kept_running : kept_waiting).push_back(waiting_[i]);
    std::erase_if(kept_running, [&](Sequence& s) {
      const bool done = s.tokens >= s.end;
      if (done) release(s);
      return done;
    });
    running_ = std::move(kept_running);
    waiting_ = std::move(kept_waiting);
  }

  SchedulerConfig config_;
  PagePool pool_;
  StepTimeModel time_{.fixed_s = 0.01, .per_token_s = 1e-3, .per_pair_s = 1e-6, .learned = true};
  std::vector<Sequence> running_, waiting_;
  std::vector<RunningSequence> running_views_;
  std::vector<WaitingSequence> waiting_views_;
  uint64_t number_ = 0;
  int64_t steps_ = 0;
};

RC_GTEST_PROP(Scheduler, EveryRequestFinishesWithinItsBudgetsAndLeavesNoPage, ()) {
  const SchedulerConfig config{
      .policy = *rc::gen::element(BatchPolicy::kContinuous, BatchPolicy::kDynamic, BatchPolicy::kStatic),
      .preemption = *rc::gen::element(Preemption::kRecompute, Preemption::kSwap),
      .max_sequences = *rc::gen::inRange(1, 6),
      .max_batch_tokens = *rc::gen::inRange(8, 100),
      .page_tokens = 4};
  constexpr int64_t kPages = 16, kLongest = 60;  // one sequence always fits, two may not
  Simulation simulation(config, kPages);
  int64_t total = 0;
  const int requests = *rc::gen::inRange(1, 25);
  for (int i = 0; i < requests; ++i) {
    const auto prompt = *rc::gen::inRange<int64_t>(1, kLongest - 1);
    const auto output = *rc::gen::inRange<int64_t>(1, kLongest - prompt + 1);
    simulation.add(prompt, output, *rc::gen::inRange(-2, 3));
    total += prompt + output;
    for (int s = *rc::gen::inRange(0, 4); s > 0 && !simulation.idle(); --s) simulation.step();
  }
  // Every sequence could at worst be computed again for each token of every other.
  const int64_t bound = simulation.steps() + 40 * total;
  while (!simulation.idle()) {
    RC_ASSERT(simulation.steps() < bound);
    simulation.step();
  }
  RC_ASSERT(simulation.free_pages() == kPages);
}

}  // namespace
}  // namespace cheetah

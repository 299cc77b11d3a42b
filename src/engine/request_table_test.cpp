// SPDX-License-Identifier: MIT
#include "engine/request_table.h"

#include <gtest/gtest.h>

#include "engine/outbox.h"
#include "engine/pages_fixture.h"
#include "engine/step_batch.h"

namespace cheetah {
namespace {

TEST(RequestTable, WaitingSequencesStandByRank) {
  PagesFixture f;
  GenerationRequest urgent;
  urgent.priority = -5;
  RequestState& first = f.add(20);
  RequestState& second = f.add(20, 2, urgent);
  EXPECT_EQ(f.table.waiting().front(), second.choices.front().get());
  Sequence& sequence = f.admit(first);
  EXPECT_EQ(f.table.running().size(), 1u);
  EXPECT_EQ(sequence.status, SequenceStatus::kRunning);
  f.pages.give_up(sequence, Preemption::kRecompute);
  f.table.requeue(sequence);
  EXPECT_EQ(f.table.waiting().size(), 2u);
  EXPECT_EQ(f.table.waiting().back(), &sequence);
}

TEST(RequestTable, ARequestLeavesWithItsLastChoice) {
  PagesFixture f;
  RequestState& request = f.add(10);
  request.request.n = request.request.best_of = 2;
  f.table.start_choices(request);
  int taken = 0;
  const auto take = [&](std::unique_ptr<RequestState>) { ++taken; };
  for (const auto& choice : request.choices) {
    EXPECT_EQ(taken, 0);
    choice->status = SequenceStatus::kDone;
    ++request.num_finished;
    f.table.note_done();
    f.table.take_finished(take);
  }
  EXPECT_EQ(taken, 1);
  EXPECT_TRUE(f.table.empty());
  EXPECT_TRUE(f.table.waiting().empty());
}

TEST(Outbox, ASinkThatThrowsIsNotCalledAgain) {
  RequestState lost, kept;
  int calls = 0, others = 0;
  lost.sink = [&](GenerationEvent&&) {
    ++calls;
    throw std::runtime_error("gone");
  };
  kept.sink = [&](GenerationEvent&&) { ++others; };
  Outbox outbox;
  outbox.send(lost, {});
  outbox.send(kept, {});
  outbox.send(lost, {});
  outbox.deliver([&](RequestState& request) {
    EXPECT_EQ(&request, &lost);
    outbox.send(kept, {});  // what follows is delivered in the same call
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(others, 2);
}

TEST(StepBatch, ATokenStillInFlightIsFedOnTheDevice) {
  PagesFixture f;
  Sequence& sequence = f.admit(f.add(20));
  sequence.submitted = 20;
  sequence.awaited = 1;
  sequence.sample = 4;
  StepBatch batch;
  batch.add(sequence, 1);
  EXPECT_EQ(batch.complete(f.plan.layout, f.model->traits(), TickingTime()), 0);
  ASSERT_EQ(batch.extras().fed.size(), 1u);
  EXPECT_EQ(batch.extras().fed[0].sample, 4);
  EXPECT_EQ(batch.forward().tokens.size(), 1u);
  EXPECT_TRUE(batch.works()[0].completes);
  EXPECT_EQ(batch.num_samples(), 1u);
  batch.clear();
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.num_samples(), 0u);
  sequence.set_computed(0);
  f.pages.abandon(sequence);
}

TEST(StepBatch, APromptsChoicesAreSampledFromItsOneRow) {
  PagesFixture f;
  RequestState& request = f.add(20);
  request.request.n = request.request.best_of = 3;
  request.request.seed = 5;
  Sequence& sequence = f.admit(request);
  StepBatch batch;
  batch.add(sequence, 12);
  batch.clear();
  batch.add(sequence, 20);
  batch.complete(f.plan.layout, f.model->traits(), TickingTime());
  const auto samples = batch.extras().samples;
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(batch.forward().logit_rows.size(), 1u);
  EXPECT_NE(samples[0].uniform, samples[1].uniform) << "each draws from its own stream";
  EXPECT_EQ(samples[0].logits, samples[2].logits);
  f.pages.abandon(sequence);
}

}  // namespace
}  // namespace cheetah

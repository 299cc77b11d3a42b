// SPDX-License-Identifier: MIT
#include "engine/flights.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/pages_fixture.h"

namespace cheetah {
namespace {

// Takes two steps at once and computes nothing.
class IdleRunner final : public Runner {
 public:
  void forward(const ForwardBatch&, KvPool&, std::span<float>) override {}
  KvPool make_kv_pool(const KvShape&) override { throw Error("not made here"); }
  int64_t max_steps_in_flight() const override { return 2; }
  StepTicket submit(const ForwardBatch& batch, const StepExtras&, KvPool&) override {
    if (refuses) throw Error("no");
    tokens.push_back(std::ssize(batch.tokens));
    return StepTicket{static_cast<uint64_t>(++num_submitted)};
  }
  StepResult wait(StepTicket ticket) override {
    EXPECT_EQ(static_cast<uint64_t>(ticket), static_cast<uint64_t>(++num_waited)) << "in order, each once";
    if (loses) throw Error("lost");
    return {};
  }
  bool refuses = false, loses = false;
  int64_t num_submitted = 0, num_waited = 0;
  std::vector<int64_t> tokens;
};

class FlightsTest : public testing::Test {
 protected:
  Flight& submit(int64_t count) {
    batch.clear();
    batch.add(*sequence, count);
    return flights.submit(batch, EngineTime{});
  }
  PagesFixture f;
  IdleRunner runner;
  Flights flights{runner, f.kv, f.pages.pool()};
  StepBatch batch;
  RequestState& request = f.add(20);
  Sequence* sequence = &f.admit(request);
};

TEST_F(FlightsTest, StepsAreWaitedForInTheOrderOfSubmission) {
  EXPECT_TRUE(flights.takes_several());
  submit(3);
  EXPECT_FALSE(flights.full());
  submit(5);
  EXPECT_TRUE(flights.full());
  EXPECT_EQ(runner.tokens, (std::vector<int64_t>{3, 5}));
  auto landed = flights.wait();
  EXPECT_EQ(landed.flight.shape.tokens, 3);
  flights.close(landed.flight);
  submit(2);
  flights.close(flights.wait().flight);
  flights.close(flights.wait().flight);
  EXPECT_TRUE(flights.empty());
  f.pages.abandon(*sequence);
}

TEST_F(FlightsTest, ARefusedBatchIsNotInFlightAndKeepsItsWorks) {
  runner.refuses = true;
  EXPECT_THROW(submit(3), Error);
  EXPECT_TRUE(flights.empty());
  EXPECT_EQ(batch.works().size(), 1u);
  f.pages.abandon(*sequence);
}

TEST_F(FlightsTest, WhatAStepMayStillWriteLivesUntilItIsClosed) {
  EXPECT_EQ(flights.parking(), nullptr);
  submit(20);
  sequence->submitted = 20;
  f.pages.finish(*sequence, flights.parking());
  std::vector<std::unique_ptr<RequestState>> finished;
  finished.push_back(std::make_unique<RequestState>());
  flights.keep(finished);
  EXPECT_TRUE(finished.empty());
  EXPECT_EQ(flights.num_held_pages(), 3);
  EXPECT_LT(f.num_free(), 16);
  flights.drop();
  EXPECT_EQ(f.num_free(), 16);
  EXPECT_EQ(runner.num_waited, 1);
}

TEST_F(FlightsTest, StepsThatFailAreDroppedWithTheirPages) {
  submit(4);
  submit(4);
  runner.loses = true;
  flights.drop();
  EXPECT_TRUE(flights.empty());
  EXPECT_EQ(runner.num_waited, 2);
  f.pages.abandon(*sequence);
}

// The guard hears of every call, also of those that throw.
struct CountingGuard final : RunnerGuard {
  void entered() override { ++inside; }
  void left() override {
    --inside;
    ++calls;
  }
  int inside = 0, calls = 0;
};

TEST_F(FlightsTest, TheGuardSurroundsEachCallIntoTheRunner) {
  CountingGuard guard;
  flights.set_guard(&guard);
  submit(4);
  runner.loses = true;
  EXPECT_THROW(flights.wait(), Error);
  EXPECT_EQ(guard.calls, 2);
  EXPECT_EQ(guard.inside, 0);
  flights.forget();
  f.pages.abandon(*sequence);
}

}  // namespace
}  // namespace cheetah

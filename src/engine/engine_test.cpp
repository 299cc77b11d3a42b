// SPDX-License-Identifier: MIT
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <future>

#include "engine/core_fixture.h"

namespace cheetah {
namespace {

EngineConfig threaded_config() {
  EngineConfig config = small_config(64, *small_model());
  config.max_context = 200;
  return config;
}

GenerationRequest request_of(uint64_t id, int64_t length, int64_t max_tokens) {
  GenerationRequest request;
  request.id = RequestId{id};
  request.prompt = random_prompt(length, id);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

// Collects one request's events from the engine thread.
class Waiter {
 public:
  EventSink sink() {
    return [this](GenerationEvent&& event) {
      const bool done = event.done;
      received_.add(std::move(event));
      if (done) promise_.set_value();
    };
  }
  const Received& wait() {
    EXPECT_EQ(done_.wait_for(std::chrono::minutes(2)), std::future_status::ready);
    return received_;
  }

 private:
  Received received_;
  std::promise<void> promise_;
  std::future<void> done_ = promise_.get_future();
};

TEST(Engine, ServesRequestsFromOtherThreads) {
  Engine engine(small_model(), threaded_config());
  engine.warm_up();
  EXPECT_EQ(engine.stats().steps, 0u) << "warming up leaves no trace in the counters";
  std::vector<Waiter> waiters(12);
  for (size_t i = 0; i < waiters.size(); ++i) engine.submit(request_of(i + 1, 30, 8), waiters[i].sink());
  OneByOne alone(threaded_config());
  for (size_t i = 0; i < waiters.size(); ++i)
    EXPECT_EQ(waiters[i].wait().choices.at(0).tokens, alone.generate(request_of(i + 1, 30, 8)).tokens);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.finished_length, 12u);
  EXPECT_EQ(stats.generated_tokens, 96u);
  EXPECT_EQ(stats.ttft_s.count, 12u);
  EXPECT_NE(engine.explain_last(5).find("finished (length)"), std::string::npos);
  EXPECT_GT(engine.config().max_context, 0);
}

TEST(Engine, CancelsAndGoesOn) {
  Engine engine(small_model(), threaded_config());
  Waiter cancelled, other;
  engine.submit(request_of(1, 10, 1000000), cancelled.sink());
  engine.cancel(RequestId{1});
  EXPECT_EQ(cancelled.wait().choices.at(0).finish, FinishReason::kCancelled);
  engine.submit(request_of(2, 10, 3), other.sink());
  EXPECT_EQ(other.wait().choices.at(0).tokens.size(), 3u);
}

TEST(Engine, DrainsAndThenRefuses) {
  Engine engine(small_model(), threaded_config());
  Waiter running, late;
  engine.submit(request_of(1, 10, 50), running.sink());
  engine.drain(std::chrono::minutes(1));
  EXPECT_EQ(running.wait().choices.at(0).finish, FinishReason::kLength);
  engine.submit(request_of(2, 10, 3), late.sink());
  EXPECT_NE(late.wait().error.find("shutting down"), std::string::npos);
  EXPECT_EQ(late.wait().error_kind, ErrorKind::kDraining);
}

// Holds the engine thread in a sink, as a long step would.
class Blocker {
 public:
  EventSink sink() {
    return [this](GenerationEvent&& event) {
      if (!std::exchange(entered_, true)) {
        blocked_.set_value();
        released_.get_future().wait_for(std::chrono::minutes(1));
      }
      if (event.done) done_.set_value();
    };
  }
  void wait_until_blocked() { blocked_.get_future().wait(); }
  void release() { released_.set_value(); }
  void wait_until_done() { done_.get_future().wait(); }

 private:
  bool entered_ = false;
  std::promise<void> blocked_, released_, done_;
};

TEST(Engine, AnswersWhileItsThreadIsBusy) {
  EngineConfig config = threaded_config();
  config.max_queue = 2;
  Engine engine(small_model(), config);
  EXPECT_EQ(engine.stats().pages_free, engine.stats().pages_total) << "there before the first step";
  EXPECT_GT(engine.stats().pages_total, 0);
  Blocker blocker;
  engine.submit(request_of(1, 20, 5), blocker.sink());
  blocker.wait_until_blocked();
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running, 1);
  EXPECT_EQ(stats.generated_tokens, 1u);
  EXPECT_EQ(stats.prefill_tokens_left, 0);
  EXPECT_EQ(stats.decode_tokens_left, 4);
  EXPECT_GT(stats.prefill_us_per_token, 0);
  EXPECT_GT(stats.kv_occupancy, 0);
  EXPECT_NEAR(stats.fragmentation, 1 - 20 / 24.0, 1e-9) << "20 tokens in 3 pages of 8";
  EXPECT_NE(engine.explain_last(5).find("was admitted"), std::string::npos);
  Waiter second, third, fourth, empty;
  engine.submit(request_of(5, 0, 3), empty.sink());
  EXPECT_EQ(empty.wait().error_kind, ErrorKind::kBadRequest);
  engine.submit(request_of(2, 5, 3), second.sink());
  engine.submit(request_of(3, 5, 3), third.sink());
  engine.submit(request_of(4, 5, 3), fourth.sink());
  EXPECT_EQ(fourth.wait().error_kind, ErrorKind::kQueueFull);
  blocker.release();
  blocker.wait_until_done();
  EXPECT_EQ(second.wait().choices.at(0).tokens.size(), 3u);
  EXPECT_EQ(third.wait().choices.at(0).tokens.size(), 3u);
  EXPECT_EQ(engine.stats().finished_error, 2u);
}

TEST(Engine, ASinkThatThrowsLosesItsRequestAlone) {
  Engine engine(small_model(), threaded_config());
  Waiter other;
  int calls = 0;
  engine.submit(request_of(1, 10, 100), [&](GenerationEvent&&) {
    ++calls;
    throw std::runtime_error("gone");
  });
  engine.submit(request_of(2, 10, 30), other.sink());
  EXPECT_EQ(other.wait().choices.at(0).tokens.size(), 30u);
  engine.drain(std::chrono::minutes(1));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(engine.stats().finished_cancelled, 1u);
}

TEST(Engine, DestroyingItCancelsWhatRuns) {
  Waiter waiter;
  {
    Engine engine(small_model(), threaded_config());
    engine.submit(request_of(1, 10, 150), waiter.sink());
  }
  EXPECT_TRUE(waiter.wait().done);
}

}  // namespace
}  // namespace cheetah

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
    promise_.get_future().wait();
    return received_;
  }

 private:
  Received received_;
  std::promise<void> promise_;
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

// SPDX-License-Identifier: MIT
// Time reaches the engine as an argument alone: a run that was recorded with its clock replays exactly, times,
// counters and decisions included.
#include <gtest/gtest.h>

#include "engine/core_fixture.h"

namespace cheetah {
namespace {

// The steady clock, and every reading of it.
struct RecordedTime final : TimeSource {
  mutable std::vector<SteadyTime> readings;
  SteadyTime now() const override {
    readings.push_back(SteadyClock::now());
    return readings.back();
  }
};
struct ReplayedTime final : TimeSource {
  explicit ReplayedTime(std::vector<SteadyTime> recorded) : readings(std::move(recorded)) {}
  std::vector<SteadyTime> readings;
  mutable size_t next = 0;
  SteadyTime now() const override { return next < readings.size() ? readings[next++] : SteadyTime{}; }
};

GenerationRequest request_number(int i) {
  GenerationRequest request;
  request.id = RequestId{static_cast<uint64_t>(i) + 1};
  request.prompt = random_prompt(5 + 7 * (i % 9), static_cast<uint64_t>(i % 4));
  request.max_tokens = 3 + i % 11;
  request.ignore_eos = true;
  request.priority = i % 3;
  request.seed = static_cast<uint64_t>(i);
  if (i % 2) request.sampling = {.temperature = 1.2f, .top_p = 0.9f};
  if (i % 5 == 0) request.n = 2;
  return request;
}

std::string line_of(const GenerationEvent& event) {
  const auto ns = [](EngineTime time) { return std::to_string(time.time_since_epoch().count()) + " "; };
  std::string line = std::to_string(static_cast<uint64_t>(event.request)) + "/" +
                     std::to_string(event.choice) + " '" + event.text + "' ";
  for (const GeneratedToken& token : event.tokens) line += std::to_string(token.id) + " ";
  if (event.finish)
    line += ns(event.times.arrived) + ns(event.times.scheduled) + ns(event.times.first_token) +
            ns(event.times.finished);
  return line;
}

struct Outcome {
  std::vector<std::string> events;
  std::string decisions;
  double step_seconds = 0, drain_tokens_per_s = 0, ttft_s = 0;
};

// The same calls in the same order; only the clock differs.
Outcome run(const TimeSource& time) {
  EngineConfig config = small_config(20, *small_model());
  config.max_context = 120;
  config.step_target_ms = 0.5;  // so that the plan depends on measured times
  SilentLog log;
  EngineCore core(
      small_model(), plan_memory(small_model()->traits(), 0, config, int64_t{8} << 30), time, log);
  Outcome outcome;
  const auto sink = [&](GenerationEvent&& event) { outcome.events.push_back(line_of(event)); };
  for (int i = 0; i < 40; ++i) {
    core.submit(request_number(i), sink, time.now());
    core.step(time.now());
    core.deliver(time.now());
    if (i % 13 == 0) core.cancel(RequestId{static_cast<uint64_t>(i)}, time.now());
  }
  while (!core.idle()) {
    core.step(time.now());
    core.deliver(time.now());
  }
  const EngineStats stats = core.stats();
  outcome.decisions = text_of(core.decisions().last(4096));
  outcome.step_seconds = stats.step_seconds;
  outcome.drain_tokens_per_s = stats.drain_tokens_per_s;
  outcome.ttft_s = stats.ttft_s.sum;
  return outcome;
}

TEST(Replay, ARecordedRunGivesTheSameOutputsToTheNanosecond) {
  RecordedTime recorded;
  const Outcome first = run(recorded);
  ReplayedTime replayed(recorded.readings);
  const Outcome second = run(replayed);
  EXPECT_EQ(first.events, second.events);
  EXPECT_EQ(first.decisions, second.decisions);
  EXPECT_EQ(first.step_seconds, second.step_seconds);
  EXPECT_EQ(first.drain_tokens_per_s, second.drain_tokens_per_s);
  EXPECT_EQ(first.ttft_s, second.ttft_s);
  EXPECT_EQ(replayed.next, recorded.readings.size()) << "no reading is made past the clock";
}

}  // namespace
}  // namespace cheetah

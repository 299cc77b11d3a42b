// SPDX-License-Identifier: MIT
// A device that fails: who is told, what goes on, and what is left for the person who looks into it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temp_dir.h"
#include "engine/ahead_driver.h"
#include "engine/engine.h"
#include "engine/faulty_runner.h"

namespace cheetah {
namespace {

GenerationRequest request_of(uint64_t seed, int64_t max_tokens = 8) {
  GenerationRequest request;
  request.prompt = random_prompt(20, seed);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

int64_t count(const std::vector<std::string>& lines, std::string_view begin) {
  return std::ranges::count_if(lines, [&](const std::string& line) { return line.starts_with(begin); });
}

class FaultTest : public testing::Test {
 protected:
  std::shared_ptr<DeviceFaults> faults = std::make_shared<DeviceFaults>();
  EngineConfig config = small_config(64, *small_model());
};

TEST_F(FaultTest, TheLogSaysOnceWhatMadeAStepFailAndForWhom) {
  AheadDriver driver(config);
  driver.submit(request_of(1));
  driver.submit(request_of(2));
  driver.step();
  driver.step();
  driver.runner->fails_at = 1;
  driver.run();
  const std::vector<std::string> lines = driver.log.lines();
  ASSERT_EQ(count(lines, "step_failed"), 1);
  EXPECT_NE(lines[0].find("why=the step cannot be"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("requests=1, 2"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("sequences=2"), std::string::npos) << lines[0];
  EXPECT_EQ(driver.core.stats().failed_steps, 1u);
  EXPECT_EQ(driver.received[RequestId{1}].choices.at(0).tokens.size(), 8u) << "computed alone";
}

TEST_F(FaultTest, AStepThatFailsOnItsWayBackIsInTheLogToo) {
  AheadDriver driver(config);
  driver.submit(request_of(1));
  driver.step();
  driver.runner->loses_device = true;
  driver.run();
  const std::vector<std::string> lines = driver.log.lines();
  ASSERT_GE(count(lines, "step_failed"), 1);
  EXPECT_NE(lines[0].find("why=the device is gone"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("requests=1"), std::string::npos) << lines[0];
}

TEST_F(FaultTest, OutputThatIsNotFiniteEndsThatRequestAlone) {
  CoreDriver plain(config), driver(config, faulty_runners(faults));
  faults->poison = 1;
  GenerationRequest bad = request_of(3), good = request_of(4);
  bad.prompt.back() = 1;
  good.prompt.back() = 2;
  const RequestId bad_id = driver.submit(bad), good_id = driver.submit(good);
  driver.run();
  EXPECT_EQ(driver.received[bad_id].error_kind, ErrorKind::kInternal);
  EXPECT_NE(driver.received[bad_id].error.find("not finite"), std::string::npos);
  EXPECT_TRUE(driver.received[bad_id].choices.at(0).tokens.empty()) << "never a token";
  const auto expected = plain.generate(good).choices.at(0).tokens;
  ASSERT_EQ(std::ranges::count(expected, 1), 0);
  EXPECT_EQ(driver.received[good_id].choices.at(0).tokens, expected);
  EXPECT_EQ(driver.core.stats().nonfinite_outputs, 1u);
  EXPECT_FALSE(driver.core.fault());
}

TEST_F(FaultTest, PagesOfABadOutputAreNotReused) {
  CoreDriver driver(config, faulty_runners(faults));
  faults->poison = 1;
  GenerationRequest request = request_of(3);
  request.prompt.back() = 1;
  driver.generate(request);
  faults->poison = -1;
  driver.generate(request_of(5));
  EXPECT_EQ(driver.generate(request).cached_tokens, 0);
}

TEST_F(FaultTest, AnEmbeddingThatIsNotFiniteIsAnError) {
  CoreDriver driver(config, faulty_runners(faults));
  faults->poison = 1;
  GenerationRequest request = request_of(3);
  request.prompt.back() = 1;
  request.pooling = Pooling::kMean;
  const Received got = driver.generate(request);
  EXPECT_EQ(got.error_kind, ErrorKind::kInternal);
  EXPECT_TRUE(got.embedding.empty());
}

TEST_F(FaultTest, ADeviceThatIsLostEndsAllAndTakesNothingMore) {
  CoreDriver driver(config, faulty_runners(faults));
  const RequestId first = driver.submit(request_of(1, 30)), second = driver.submit(request_of(2, 30));
  driver.step();
  driver.step();
  faults->lost = true;
  driver.run();
  ASSERT_TRUE(driver.core.fault());
  EXPECT_EQ(driver.core.fault()->kind, FaultKind::kDeviceFailed);
  EXPECT_NE(driver.core.fault()->why.find("illegal address"), std::string::npos);
  for (const RequestId id : {first, second}) EXPECT_EQ(driver.received[id].error_kind, ErrorKind::kInternal);
  EXPECT_NE(driver.generate(request_of(3)).error.find("has failed"), std::string::npos);
  EXPECT_EQ(count(driver.log.lines(), "step_failed"), 1) << "not tried one by one";
}

TEST_F(FaultTest, AServerThatFailsEveryRequestGivesUp) {
  CoreDriver driver(config, faulty_runners(faults));
  driver.generate(request_of(1));
  faults->throws = true;
  for (uint64_t i = 0; i < 7; ++i) driver.generate(request_of(2 + i));
  EXPECT_FALSE(driver.core.fault());
  faults->throws = false;
  driver.generate(request_of(20));
  faults->throws = true;
  for (uint64_t i = 0; i < 8; ++i) driver.generate(request_of(30 + i));
  ASSERT_TRUE(driver.core.fault()) << "eight in a row, with nothing done in between";
  EXPECT_EQ(driver.core.fault()->kind, FaultKind::kStepsFail);
}

TEST_F(FaultTest, TheBundleTellsWhatRanWithoutItsText) {
  CoreDriver driver(config, faulty_runners(faults));
  GenerationRequest request = request_of(1, 30);
  request.stop = {"a secret word"};
  const RequestId id = driver.submit(request);
  driver.step();
  faults->lost = true;
  driver.run();
  ASSERT_TRUE(driver.core.fault());
  const std::string text = driver.core.fault()->bundle;
  EXPECT_EQ(text.find("secret"), std::string::npos);
  const auto bundle = nlohmann::json::parse(text);
  EXPECT_EQ(bundle["fault"], "device_failed");
  EXPECT_EQ(bundle["step"]["why"], "an illegal address was accessed");
  EXPECT_EQ(bundle["step"]["launches"], "decode_chain(4) grid 132x1x1");
  EXPECT_EQ(bundle["step"]["sequences"][0]["request"], static_cast<uint64_t>(id));
  EXPECT_EQ(bundle["requests"][0]["prompt_tokens"], 20);
  EXPECT_FALSE(bundle["decisions"].empty());
  EXPECT_EQ(bundle["config"]["max_sequences"], config.max_sequences);
}

// One request's end, from whichever thread it comes.
class End {
 public:
  EventSink sink() {
    return [this](GenerationEvent&& event) {
      if (event.done) end_.set_value(std::move(event));
    };
  }
  GenerationEvent wait() {
    auto end = end_.get_future();
    if (end.wait_for(std::chrono::minutes(1)) != std::future_status::ready) return {};
    return end.get();
  }

 private:
  std::promise<GenerationEvent> end_;
};

class EngineFaultTest : public FaultTest {
 protected:
  EngineHooks hooks() {
    return {.log = &log,
        .on_fault = [this](const EngineFault& fault) { told.set_value(fault.kind); },
        .make_runner = faulty_runners(faults)};
  }
  GenerationRequest numbered(uint64_t id, int64_t max_tokens) {
    GenerationRequest request = request_of(id, max_tokens);
    request.id = RequestId{id};
    return request;
  }

  KeptLog log;
  std::promise<FaultKind> told;
  TempDir folder;
};

TEST_F(EngineFaultTest, ALostDeviceTurnsHealthBadAndLeavesABundle) {
  config.crash_dir = folder.path() + "/crashes";
  Engine engine(small_model(), config, hooks());
  EXPECT_EQ(engine.out_of_service(), "");
  faults->lost = true;
  End end, late;
  engine.submit(numbered(1, 10), end.sink());
  const GenerationEvent last = end.wait();
  EXPECT_EQ(last.error_kind, ErrorKind::kInternal);
  EXPECT_NE(engine.out_of_service().find("illegal address"), std::string::npos) << "before the client hears";
  EXPECT_EQ(told.get_future().get(), FaultKind::kDeviceFailed);
  engine.submit(numbered(2, 10), late.sink());
  EXPECT_NE(late.wait().error.find("has failed"), std::string::npos);
  ASSERT_EQ(count(log.lines(), "engine_failed"), 1);
  const auto files = std::filesystem::directory_iterator(config.crash_dir);
  std::ifstream file(files->path());
  EXPECT_EQ(nlohmann::json::parse(file)["fault"], "device_failed");
  engine.drain(std::chrono::seconds(10));
}

TEST_F(EngineFaultTest, AStepThatDoesNotEndIsGivenUpAndItsRequestsAreTold) {
  config.step_timeout_s = 0.2;
  Engine engine(small_model(), config, hooks());
  faults->hangs = true;
  End running, waiting, late;
  engine.submit(numbered(1, 10), running.sink());
  faults->wait_until_it_hangs();
  engine.submit(numbered(2, 10), waiting.sink());
  EXPECT_EQ(running.wait().error_kind, ErrorKind::kInternal);
  EXPECT_NE(waiting.wait().error.find("has failed"), std::string::npos);
  EXPECT_EQ(told.get_future().get(), FaultKind::kStepHangs);
  EXPECT_NE(engine.out_of_service().find("has not ended"), std::string::npos);
  engine.submit(numbered(3, 10), late.sink());
  EXPECT_FALSE(late.wait().error.empty());
  const auto lines = log.lines();
  ASSERT_EQ(count(lines, "engine_failed"), 1);
  EXPECT_NE(lines.back().find("requests=1"), std::string::npos) << lines.back();
  engine.drain(std::chrono::seconds(10));
  faults->hangs = false;
  faults->release();  // the thread comes back, finds the engine taken and ends
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

TEST_F(EngineFaultTest, AWatchedEngineGeneratesTheSameTokens) {
  config.step_timeout_s = 60;
  Engine engine(small_model(), config);
  std::vector<int32_t> tokens;
  std::promise<void> done;
  engine.submit(numbered(1, 20), [&](GenerationEvent&& event) {
    for (const GeneratedToken& token : event.tokens) tokens.push_back(token.id);
    if (event.done) done.set_value();
  });
  done.get_future().wait();
  EXPECT_EQ(tokens, OneByOne(config).generate(request_of(1, 20)).tokens);
}

}  // namespace
}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "model/generation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {
namespace {

std::string feed(StopText& stop, std::initializer_list<const char*> pieces) {
  std::string shown;
  for (const char* piece : pieces) shown += stop.push(piece);
  return shown;
}

TEST(StopText, CutsAtTheFirstStopEvenAcrossPieces) {
  StopText stop({"END", "never"});
  EXPECT_EQ(feed(stop, {"one E", "N", "Dtwo"}), "one ");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopText, HoldsBackOnlyWhatMayBecomeAStop) {
  StopText stop({"abc"});
  EXPECT_EQ(stop.push("xab"), "x");
  EXPECT_EQ(stop.push("d"), "abd");
  EXPECT_EQ(stop.push("ab"), "");
  EXPECT_EQ(stop.finish(), "ab");
}

TEST(StopText, WithNoStopsPassesEverything) {
  StopText stop({""});
  EXPECT_EQ(feed(stop, {"a", "", "b"}), "ab");
  EXPECT_FALSE(stop.stopped());
}

class Generation : public testing::Test {
 protected:
  Generation()
      : model_(Model::load(CHEETAH_SOURCE_DIR "/models/cub-1m")),
        runner_(*model_, {pool_, Precision::kExact}),
        pages_(model_->traits(), DType::kF32, 8),
        sequence_(*model_, runner_, pages_) {}

  GenerationResult run(const std::string& text, GenerationParams params, TextSink sink = {}) {
    const auto prompt = model_->tokenizer()->encode(text, {});
    return generate(
        *model_, sequence_, prompt, params, sink ? sink : [](std::string_view) { return true; });
  }

  ThreadPool pool_{{.num_threads = 2}};
  std::unique_ptr<Model> model_;
  CpuRunner runner_;
  KvPool pages_;
  CachedSequence sequence_;
};

TEST_F(Generation, GivesTheSameTokensFromAWarmCacheAsFromAnEmptyOne) {
  const GenerationResult cold = run("Once upon a time", {.max_tokens = 20});
  const GenerationResult warm = run("Once upon a time", {.max_tokens = 20});
  EXPECT_EQ(cold.reused_tokens, 0);
  EXPECT_EQ(warm.reused_tokens, warm.prompt_tokens - 1);
  EXPECT_EQ(cold.tokens, warm.tokens);
  EXPECT_EQ(cold.text, warm.text);
}

TEST_F(Generation, IsAFunctionOfItsSeed) {
  const GenerationParams params{.max_tokens = 30, .sampling = {.temperature = 1.f}, .seed = 7};
  GenerationParams other = params;
  other.seed = 8;
  const GenerationResult first = run("The dragon", params);
  EXPECT_NE(run("The dragon", other).tokens, first.tokens);
  EXPECT_EQ(run("The dragon", params).tokens, first.tokens);
}

TEST_F(Generation, StopsWhenTheContextIsFull) {
  const GenerationResult result = run("Once", {.max_tokens = 100000, .ignore_end = true});
  EXPECT_EQ(result.reason, StopReason::kContextFull);
  EXPECT_EQ(result.prompt_tokens + result.decode_steps, sequence_.capacity());
}

TEST_F(Generation, ObeysTheTokenLimitTheSinkAndTheStopTexts) {
  EXPECT_EQ(run("Once", {.max_tokens = 5}).tokens.size(), 5u);
  EXPECT_EQ(run("Once", {.max_tokens = 0}).tokens.size(), 0u);
  int pieces = 0;
  const auto sink = [&](std::string_view piece) { return piece.empty() || ++pieces < 3; };
  EXPECT_EQ(run("Once", {.max_tokens = 50}, sink).reason, StopReason::kInterrupted);
  const std::string full = run("Once", {.max_tokens = 20}).text;
  const GenerationResult cut = run("Once", {.max_tokens = 20, .stops = {full.substr(8, 4)}});
  EXPECT_EQ(cut.reason, StopReason::kStopText);
  EXPECT_EQ(cut.text, full.substr(0, full.find(full.substr(8, 4))));
}

TEST_F(Generation, RefusesAPromptThatDoesNotFit) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += " dragon";
  EXPECT_THROW(run(text, {}), Error);
  EXPECT_THROW(run("", {}), Error);
}

}  // namespace
}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "engine/reasoning_budget.h"

#include <gtest/gtest.h>

#include "engine/ahead_driver.h"

namespace cheetah {
namespace {

// What comes out where the model wants to write `wanted`, and is held to what is forced.
std::vector<int32_t> written(const ReasoningBudget& budget, const std::vector<int32_t>& wanted) {
  ReasoningClock clock(budget);
  std::vector<int32_t> out;
  for (size_t i = 0; i < wanted.size(); ++i) {
    while (!clock.forced().empty()) {
      out.push_back(clock.forced().front());
      clock.push(out.back());
    }
    out.push_back(wanted[i]);
    clock.push(out.back());
  }
  return out;
}

TEST(ReasoningBudget, ForcesTheEndOnceItIsUsedUp) {
  const ReasoningBudget budget{.tokens = 2, .open = {10}, .end = {20}, .closing = {20}, .begins_open = true};
  EXPECT_EQ(written(budget, {1, 2, 3, 4}), (std::vector<int32_t>{1, 2, 20, 3, 4}));
  EXPECT_EQ(written(budget, {1, 20, 3, 4}), (std::vector<int32_t>{1, 20, 3, 4}))
      << "the model ends it itself";
}

TEST(ReasoningBudget, CountsFromWhereThinkingBegins) {
  const ReasoningBudget budget{.tokens = 1, .open = {10, 11}, .end = {20}, .closing = {20}};
  EXPECT_EQ(written(budget, {1, 2, 3, 4}), (std::vector<int32_t>{1, 2, 3, 4})) << "it does not think";
  EXPECT_EQ(written(budget, {10, 11, 3, 4}), (std::vector<int32_t>{10, 11, 3, 20, 4}));
  EXPECT_EQ(written(budget, {10, 10, 11, 3, 4}), (std::vector<int32_t>{10, 10, 11, 3, 20, 4}));
}

TEST(ReasoningBudget, NothingMayBeThought) {
  const ReasoningBudget open{
      .tokens = 0, .open = {10}, .end = {20}, .closing = {20, 21}, .begins_open = true};
  EXPECT_EQ(written(open, {1, 2}), (std::vector<int32_t>{20, 21, 1, 2}));
  const ReasoningBudget later{.tokens = 0, .open = {10}, .end = {20}, .closing = {20, 21}};
  EXPECT_EQ(written(later, {10, 2}), (std::vector<int32_t>{10, 20, 21, 2}));
}

TEST(ReasoningBudget, GoesOnWhereTheModelHasBegunToEndIt) {
  const ReasoningBudget budget{
      .tokens = 2, .open = {}, .end = {20, 21, 22}, .closing = {20, 21, 22, 23}, .begins_open = true};
  EXPECT_EQ(written(budget, {1, 20, 9}), (std::vector<int32_t>{1, 20, 21, 22, 23, 9}));
  EXPECT_EQ(written(budget, {20, 20, 9}), (std::vector<int32_t>{20, 20, 21, 22, 23, 9}));
}

GenerationRequest thinking_request(int64_t budget, int choices) {
  GenerationRequest request;
  request.prompt = random_prompt(20, 3);
  request.max_tokens = 24;
  request.n = request.best_of = choices;
  request.ignore_eos = true;
  request.seed = 5;
  request.sampling.temperature = 1.3f;
  request.reasoning = ReasoningBudget{
      .tokens = budget, .open = {}, .end = {7, 8, 9}, .closing = {7, 8, 9}, .begins_open = true};
  return request;
}

TEST(ReasoningBudget, HoldsForEveryChoiceOfARequestAlsoAheadOfTheHost) {
  CoreDriver plain(small_config(64, *small_model()));
  AheadDriver ahead(small_config(64, *small_model()));
  for (const int64_t budget : {0, 1, 6}) {
    const Received got = plain.generate(thinking_request(budget, 3));
    const Received other = ahead.generate(thinking_request(budget, 3));
    GenerationRequest free = thinking_request(budget, 3);
    free.reasoning.reset();
    const Received unbound = plain.generate(free);
    ASSERT_EQ(got.choices.size(), 3u);
    for (const auto& [index, choice] : got.choices) {
      EXPECT_EQ(choice.tokens, other.choices.at(index).tokens);
      ASSERT_EQ(choice.tokens.size(), 24u);
      const auto at = choice.tokens.begin() + budget;
      EXPECT_EQ(std::vector<int32_t>(at, at + 3), (std::vector<int32_t>{7, 8, 9})) << budget;
      const auto& whole = unbound.choices.at(index).tokens;
      EXPECT_TRUE(std::equal(choice.tokens.begin(), at, whole.begin())) << "until then nothing is different";
    }
  }
}

}  // namespace
}  // namespace cheetah

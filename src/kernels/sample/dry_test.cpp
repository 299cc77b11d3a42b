// SPDX-License-Identifier: MIT
#include "kernels/sample/dry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.h"

namespace cheetah {
namespace {

using Tokens = std::vector<int32_t>;
using Breakers = std::vector<Tokens>;  // whole sequences

// By the definition: for each place, how long a run of tokens ends there that also ends the text.
std::vector<float> plain_penalties(
    Tokens tokens, const DryParams& params, const Breakers& breakers, int vocab) {
  std::vector<float> penalties(static_cast<size_t>(vocab), 0.f);
  if (params.last_n >= 0 && std::ssize(tokens) > params.last_n)
    tokens.erase(tokens.begin(), tokens.end() - params.last_n);
  const auto count = static_cast<int>(tokens.size());
  int limit = count;  // tokens after the last breaker
  for (int end = count; end > 0 && limit == count; --end)
    for (const Tokens& breaker : breakers) {
      const auto size = static_cast<int>(breaker.size());
      if (size <= end && std::equal(breaker.begin(), breaker.end(), tokens.begin() + (end - size)))
        limit = std::min(limit, count - end);
    }
  std::map<int32_t, int> longest;
  for (int next = 1; next < count; ++next) {  // the token that followed the earlier run
    int length = 0;
    while (length < limit && length < next &&
           tokens[static_cast<size_t>(next - 1 - length)] == tokens[static_cast<size_t>(count - 1 - length)])
      ++length;
    if (length >= std::max<int64_t>(1, params.allowed_length))
      longest[tokens[static_cast<size_t>(next)]] =
          std::max(longest[tokens[static_cast<size_t>(next)]], length);
  }
  for (const auto& [id, length] : longest)
    penalties[static_cast<size_t>(id)] =
        static_cast<float>(params.multiplier * std::pow(static_cast<double>(params.base),
                                                   static_cast<double>(length - params.allowed_length)));
  return penalties;
}

std::vector<float> penalties(
    const Tokens& tokens, const DryParams& params, const Breakers& sequences, int vocab) {
  DryBreakers breakers;
  for (const Tokens& each : sequences) breakers.add(each.front(), Tokens(each.begin() + 1, each.end()));
  std::vector<float> logits(static_cast<size_t>(vocab), 0.f);
  DryScratch scratch;
  penalize_repetition(tokens, params, &breakers, logits, scratch);
  for (float& logit : logits) logit = -logit;
  return logits;
}

TEST(Dry, ATokenThatLengthensARepetitionLosesByItsLength) {
  const DryParams params{.multiplier = 2.f, .base = 3.f, .allowed_length = 2};
  const auto lost = penalties({1, 2, 3, 4, 1, 2, 3}, params, {}, 6);
  EXPECT_EQ(lost, (std::vector<float>{0, 0, 0, 0, 6, 0})) << "3 tokens repeated, 1 beyond the allowed 2";
  EXPECT_EQ(penalties({1, 2, 3, 4, 3}, params, {}, 6), std::vector<float>(6, 0.f)) << "too short";
}

TEST(Dry, ARepetitionDoesNotCrossABreaker) {
  const DryParams params{.multiplier = 1.f, .base = 2.f, .allowed_length = 1};
  EXPECT_EQ(penalties({1, 2, 3, 4, 1, 2, 3}, params, {{2}}, 6)[4], 1.f) << "one token after it";
  EXPECT_EQ(penalties({1, 2, 3, 4, 1, 2, 3}, params, {{1, 2}}, 6)[4], 1.f);
  EXPECT_EQ(penalties({1, 2, 3, 4, 1, 2, 3}, params, {{2, 1}}, 6)[4], 4.f) << "is not there";
  EXPECT_EQ(penalties({1, 2, 3, 4, 1, 2, 3}, params, {{3}}, 6)[4], 0.f);
}

TEST(Dry, EqualsItsDefinitionOnRandomTexts) {
  Philox random(3);
  const auto below = [&](uint32_t bound) { return static_cast<int>(random.next_u32() % bound); };
  for (int round = 0; round < 3000; ++round) {
    const int vocab = 2 + below(5);
    Tokens tokens(static_cast<size_t>(1 + below(40)));
    for (int32_t& token : tokens) token = below(static_cast<uint32_t>(vocab));
    Breakers breakers;
    for (int i = below(3); i > 0; --i) {
      breakers.emplace_back();
      for (int k = 1 + below(2); k > 0; --k) breakers.back().push_back(below(static_cast<uint32_t>(vocab)));
    }
    const DryParams params{.multiplier = 0.8f,
        .base = 1.f + static_cast<float>(below(3)) / 4,
        .allowed_length = below(4),
        .last_n = below(2) == 0 ? -1 : below(30)};
    const auto got = penalties(tokens, params, breakers, vocab);
    const auto expected = plain_penalties(tokens, params, breakers, vocab);
    for (size_t id = 0; id < got.size(); ++id)
      ASSERT_NEAR(got[id], expected[id], 1e-5 * std::max(1.f, expected[id]))
          << "round " << round << ", id " << id;
  }
}

TEST(Dry, AVeryLongRepetitionStaysFinite) {
  const auto lost = penalties(Tokens(5000, 1), {.multiplier = 1.f, .base = 2.f, .allowed_length = 2}, {}, 3);
  EXPECT_TRUE(std::isfinite(lost[1]));
  EXPECT_GT(lost[1], 1e30f);
  EXPECT_EQ(lost[0], 0.f);
}

TEST(Dry, IdsOutsideTheVocabularyAreSkipped) {
  const auto lost = penalties({7, 1, 7, 1}, {.multiplier = 1.f, .base = 2.f, .allowed_length = 1}, {}, 3);
  EXPECT_EQ(lost, (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace cheetah

#include "cli/engine_options.h"

#include <gtest/gtest.h>

#include "cli/inspect_report.h"

namespace cheetah {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(ContextPlan, GivesWhatWasWantedWhenItFits) {
  EXPECT_EQ(plan_context(4096, 1024, kGiB, 8 * kGiB).tokens, 4096);
}

TEST(ContextPlan, CutsTheContextToWhatIsFreeAfterTheWeights) {
  const MemoryBudget budget = plan_context(1 << 20, 1 << 20, 2 * kGiB, 4 * kGiB);
  EXPECT_LT(budget.tokens, 1 << 20);
  EXPECT_GT(budget.tokens, 1500);  // 4 GiB less 5 %, 2 GiB of weights and 64 MiB
  EXPECT_LE(budget.tokens * budget.token_bytes + budget.weight_bytes, budget.free_bytes);
}

TEST(ContextPlan, GivesNothingWhenTheWeightsAloneDoNotFit) {
  EXPECT_EQ(plan_context(100, 1024, 8 * kGiB, 4 * kGiB).tokens, 0);
  EXPECT_EQ(plan_context(100, 1024, 0, 0).tokens, 0);
}

TEST(FittingContext, SharesTheRestAmongTheBatch) {
  ModelFacts facts;
  facts.traits.hidden = facts.traits.vocab = 1024;
  facts.traits.ffn = 4096;
  facts.traits.heads = facts.traits.kv_heads = 8;
  facts.traits.head_dim = 128;
  facts.traits.max_positions = 1 << 20;
  facts.traits.layers.resize(4);
  const int64_t one = context_that_fits(facts, DType::kF16, 1, kGiB);
  EXPECT_GT(one, 10000);
  EXPECT_EQ(context_that_fits(facts, DType::kF16, 8, kGiB), one / 8);
  EXPECT_EQ(context_that_fits(facts, DType::kF16, 1, 1 << 20), 0);
  facts.traits.max_positions = 100;
  EXPECT_EQ(context_that_fits(facts, DType::kF16, 1, kGiB), 100);
}

}  // namespace
}  // namespace cheetah

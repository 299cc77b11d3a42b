// SPDX-License-Identifier: MIT
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

TEST(CacheType, HasTheNamesPeopleUse) {
  EXPECT_EQ(cache_type_from_name("fp8"), DType::kF8E4M3);
  EXPECT_EQ(cache_type_from_name("F8_E4M3"), DType::kF8E4M3);
  EXPECT_EQ(cache_type_from_name("int8"), DType::kI8);
  EXPECT_EQ(cache_type_from_name("I8"), DType::kI8);
  EXPECT_EQ(cache_type_from_name("bf16"), DType::kBF16);
  EXPECT_EQ(cache_type_from_name("q4_0"), std::nullopt);
  EXPECT_EQ(cache_type_from_name("half"), std::nullopt);
}

TEST(CacheType, IsWholeWhereArithmeticIsExact) {
  EngineOptions options;
  EXPECT_EQ(cache_dtype(options), DType::kF16);
  options.compute = "exact";
  EXPECT_EQ(cache_dtype(options), DType::kF32);
  options.kv_dtype = "int8";
  EXPECT_EQ(cache_dtype(options), DType::kI8);
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

TEST(Device, AGpuThatCannotBeUsedIsTold) {
  const gpu::Availability without{.available = false, .reason = "it was built without CUDA: install nvcc"};
  EXPECT_NE(unused_gpu_note(true, without).find("install nvcc"), std::string::npos);
  EXPECT_EQ(unused_gpu_note(false, without), "");
  EXPECT_EQ(unused_gpu_note(true, {.available = true, .reason = ""}), "");
}

}  // namespace
}  // namespace cheetah

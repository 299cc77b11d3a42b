// SPDX-License-Identifier: MIT
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

ModelTraits traits_of_a_small_llama() {
  ModelTraits traits;
  traits.vocab = 32000;
  traits.hidden = 1024;
  traits.ffn = 4096;
  traits.heads = 16;
  traits.kv_heads = 4;
  traits.head_dim = 64;
  traits.max_positions = 8192;
  traits.layers.resize(16);
  return traits;  // 16 KiB of F16 keys and values per token
}

TEST(MemoryPlan, TakesTheWholeContextWhereThereIsRoom) {
  const MemoryPlan plan = plan_memory(traits_of_a_small_llama(), 500 * kMiB, {}, 16384 * kMiB);
  EXPECT_EQ(plan.config.max_context, 8192);
  EXPECT_GE(plan.config.kv_bytes, 8192 * 16 * 1024);
  EXPECT_LE(plan.config.kv_bytes, 8192 * kMiB) << "half of the memory is left to others";
  EXPECT_EQ(plan.num_pages * 16 * 16 * 1024, plan.config.kv_bytes);
}

TEST(MemoryPlan, ADeviceGivesAlmostAllThatIsLeft) {
  const EngineConfig config{.device = DeviceKind::kCuda, .max_sequences = 1024};
  const MemoryPlan plan = plan_memory(traits_of_a_small_llama(), 500 * kMiB, config, 16384 * kMiB);
  EXPECT_GT(plan.config.kv_bytes, 12000 * kMiB);
  EXPECT_LT(plan.config.kv_bytes, 15000 * kMiB);
  EXPECT_NE(plan.rows.front().name.find("device"), std::string::npos);
}

TEST(MemoryPlan, CutsTheContextInsteadOfFailing) {
  const MemoryPlan plan =
      plan_memory(traits_of_a_small_llama(), 500 * kMiB, {.max_batch_tokens = 256}, 650 * kMiB);
  EXPECT_GT(plan.config.max_context, 0);
  EXPECT_LT(plan.config.max_context, 8192);
  EXPECT_EQ(plan.config.max_context, plan.num_pages * 16);
  bool said = false;
  for (const MemoryRow& row : plan.rows) said = said || row.note.find("cut from 8192") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(MemoryPlan, SaysWhatIsMissingWhenNothingFits) {
  EXPECT_THROW(plan_memory(traits_of_a_small_llama(), 500 * kMiB, {}, 400 * kMiB), Error);
}

TEST(MemoryPlan, RefusesAConfigThatCannotBe) {
  const ModelTraits traits = traits_of_a_small_llama();
  EXPECT_THROW(plan_memory(traits, 0, {.page_tokens = 4}, 1024 * kMiB), Error);
  EXPECT_THROW(plan_memory(traits, 0, {.kv_dtype = DType::kQ4_0}, 1024 * kMiB), Error);
  EXPECT_THROW(plan_memory(traits, 0, {.max_sequences = 0}, 1024 * kMiB), Error);
  EXPECT_THROW(plan_memory(traits, 0, {.step_target_ms = 0}, 1024 * kMiB), Error);
}

TEST(MemoryPlan, ABatchHasRoomForATokenOfEachSequence) {
  const MemoryPlan plan =
      plan_memory(traits_of_a_small_llama(), 0, {.max_sequences = 64, .max_batch_tokens = 8}, 4096 * kMiB);
  EXPECT_EQ(plan.config.max_batch_tokens, 64);
}

}  // namespace
}  // namespace cheetah

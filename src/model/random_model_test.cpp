// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/model.h"
#include "model/weights.h"

namespace cheetah {
namespace {

TEST(RandomModel, HasTheSizesOfItsPreset) {
  const auto model = Model::random("random:llama-134m", DType::kQ4_0);
  const ModelTraits& traits = model->traits();
  EXPECT_EQ(traits.hidden, 768);
  EXPECT_EQ(traits.ffn, 2048);
  EXPECT_EQ(traits.layers.size(), 12u);
  EXPECT_EQ(traits.heads, 12);
  EXPECT_EQ(traits.kv_heads, 12);
  EXPECT_EQ(traits.vocab, 32000);
  const int64_t layer = 4 * 768 * 768 + 3 * 768 * 2048 + 2 * 768;
  EXPECT_EQ(model->num_parameters(), 2 * 32000 * 768 + 12 * layer + 768);
  EXPECT_EQ(model->tokenizer(), nullptr);
}

TEST(RandomModel, ComputesFiniteLogitsInEveryTypeItIsMadeIn) {
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    const auto model = Model::random("random:llama-134m", dtype);
    EXPECT_EQ(model->weights().head.w.dtype, dtype);
    KvPool kv(model->traits(), DType::kF32, 1);
    CpuRunner runner(*model, {pool, Precision::kNative});
    const std::vector<int32_t> pages = {0}, tokens = {1, 30000};
    const AttentionSequence sequence{.pages = pages, .context_tokens = 2, .query_begin = 0, .query_count = 2};
    std::vector<float> logits(32000);
    const std::vector<int64_t> rows = {1};
    runner.forward({.tokens = tokens, .sequences = {&sequence, 1}, .logit_rows = rows}, kv, logits);
    double square = 0;
    for (const float logit : logits) square += static_cast<double>(logit) * static_cast<double>(logit);
    EXPECT_TRUE(std::isfinite(square)) << name_of(dtype);
    EXPECT_GT(square, 1.0) << name_of(dtype);
  }
}

TEST(RandomModel, HasExpertsWhereItsPresetDoes) {
  const auto model = Model::random("random:moe-tiny", DType::kQ8_0);
  const LayerWeights& layer = model->weights().layers.front();
  EXPECT_EQ(layer.moe.gate.size(), 8u);
  EXPECT_EQ(layer.moe.router.w.dtype, DType::kF32);
  EXPECT_EQ(layer.attention.q.w.rows, 256);
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  KvPool kv(model->traits(), DType::kF32, 1);
  CpuRunner runner(*model, {pool, Precision::kNative});
  const std::vector<int32_t> pages = {0}, tokens = {1, 30000};
  const AttentionSequence sequence{.pages = pages, .context_tokens = 2, .query_begin = 0, .query_count = 2};
  std::vector<float> logits(32000);
  const std::vector<int64_t> rows = {1};
  runner.forward({.tokens = tokens, .sequences = {&sequence, 1}, .logit_rows = rows}, kv, logits);
  EXPECT_TRUE(std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }));
}

TEST(RandomModel, RefusesUnknownPresetsAndTypesItCannotMake) {
  EXPECT_THROW(Model::random("random:llama-2m", DType::kF16), UsageError);
  EXPECT_THROW(Model::random("random:llama-134m", DType::kI32), UsageError);
}

}  // namespace
}  // namespace cheetah

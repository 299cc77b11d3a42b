// SPDX-License-Identifier: MIT
#include "model/cost.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

ModelTraits llama(
    int64_t hidden, int64_t ffn, int64_t layers, int64_t heads, int64_t kv_heads, int64_t vocab) {
  ModelTraits traits;
  traits.family = "llama";
  traits.hidden = hidden;
  traits.ffn = ffn;
  traits.heads = heads;
  traits.kv_heads = kv_heads;
  traits.head_dim = hidden / heads;
  traits.vocab = vocab;
  traits.max_positions = 8192;
  traits.layers.resize(static_cast<size_t>(layers));
  return traits;
}

TEST(ModelCost, CountsTheParametersOfLlama8bExactly) {
  EXPECT_EQ(parameter_count(llama(4096, 14336, 32, 32, 8, 128256)).total(), 8'030'261'248);
}

TEST(ModelCost, CountsATiedHeadOnce) {
  ModelTraits traits = llama(2048, 8192, 16, 32, 8, 128256);
  traits.tied_embeddings = true;
  EXPECT_EQ(parameter_count(traits).total(), 1'235'814'400);  // Llama 3.2 1B
}

TEST(ModelCost, CountsNormsAndTheirBiasesAsTheFamilyHasThem) {
  ModelTraits traits = llama(64, 128, 2, 4, 4, 100);
  EXPECT_EQ(parameter_count(traits).norms, 5 * 64);
  traits.norm = NormKind::kLayer;
  EXPECT_EQ(parameter_count(traits).norms, 5 * 128);
  traits.norm_bias = false;
  traits.parallel_blocks = traits.shared_norm = true;
  EXPECT_EQ(parameter_count(traits).norms, 3 * 64);
}

TEST(ModelCost, CountsOnlyTheChosenExpertsAsActive) {
  ModelTraits traits = llama(4096, 14336, 32, 32, 8, 32000);
  for (LayerTraits& layer : traits.layers) layer.moe = true;
  traits.moe = {.experts = 8, .top_k = 2, .expert_hidden = 14336};
  const ParameterCount count = parameter_count(traits);
  EXPECT_EQ(count.total(), 46'702'792'704);  // Mixtral 8x7B
  EXPECT_EQ(count.mlp - count.active_mlp, 32 * 6 * int64_t{3} * 4096 * 14336);
}

TEST(ModelCost, PromptIsTheSumOfItsTokensWithOneHead) {
  for (const int64_t window : {0, 5}) {
    ModelTraits traits = llama(64, 128, 3, 4, 2, 100);
    traits.layers[1].window = window;
    const double head = 2.0 * 100 * 64;
    double sum = head;
    for (int64_t context = 0; context < 17; ++context) sum += decode_flops(traits, context) - head;
    EXPECT_DOUBLE_EQ(prompt_flops(traits, 17), sum);
  }
}

TEST(ModelCost, WindowedLayersReadOnlyTheirWindow) {
  ModelTraits traits = llama(64, 128, 2, 4, 2, 100);
  const double full = kv_read_bytes(traits, DType::kF16, 99);
  EXPECT_DOUBLE_EQ(full, 2 * 100 * 2 * (16 + 16) * 2.0);
  traits.layers[0].window = 10;
  EXPECT_DOUBLE_EQ(kv_read_bytes(traits, DType::kF16, 99), full / 2 * 1.1);
}

TEST(ModelCost, QuantizedWeightsCountTheirScales) {
  const ModelTraits traits = llama(64, 128, 2, 4, 2, 100);
  const double ratio = decode_weight_bytes(traits, DType::kQ8_0) / decode_weight_bytes(traits, DType::kF32);
  EXPECT_DOUBLE_EQ(ratio, 34.0 / 32 / 4);
}

}  // namespace
}  // namespace cheetah

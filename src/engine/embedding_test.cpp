// SPDX-License-Identifier: MIT
// Embeddings against what the reference implementation says of the same text.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/core_fixture.h"
#include "kernels/gemm/gemm.h"
#include "model/verify.h"
#include "model/weights.h"

namespace cheetah {
namespace {

constexpr const char* kModel = "tests/models/llama";

// An engine in exact arithmetic that computes prompts in small chunks.
class EmbeddingTest : public testing::Test {
 protected:
  static EngineConfig exact_config(const Model& model) {
    EngineConfig config = small_config(100, model);
    config.precision = Precision::kExact;
    config.max_batch_tokens = 16;
    return config;
  }

  std::vector<float> embed(std::span<const int32_t> prompt, Pooling pooling, bool normalize) {
    GenerationRequest request;
    request.prompt.assign(prompt.begin(), prompt.end());
    request.pooling = pooling;
    request.normalize = normalize;
    return driver_.generate(std::move(request)).embedding;
  }

  std::vector<float> logits_of(const std::vector<float>& hidden) const {
    ThreadPool threads({.num_threads = 1, .pin = false});
    const WeightMatrix& head = model_->weights().head.w;
    std::vector<float> logits(static_cast<size_t>(head.rows));
    gemm({.x = hidden.data(),
             .x_stride = head.cols,
             .m = 1,
             .w = head,
             .y = logits.data(),
             .y_stride = head.rows},
        CpuContext{threads, Precision::kExact});
    return logits;
  }

  std::shared_ptr<const Model> model_ = load_quietly(kModel);
  CoreDriver driver_{exact_config(*model_), model_};
};

TEST_F(EmbeddingTest, TheLastHiddenStateGivesTheReferencesLogits) {
  const VerifyInputs inputs = read_golden(std::string(CHEETAH_SOURCE_DIR) + "/" + kModel);
  for (const Json& golden : inputs.golden.at("cases")) {
    const auto ids = golden.at("ids").get<std::vector<int32_t>>();
    const auto expected = golden.at("last_logits").get<std::vector<float>>();
    const std::vector<float> logits = logits_of(embed(ids, Pooling::kLast, false));
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], VerifyBounds().logit) << i;
  }
}

TEST_F(EmbeddingTest, TheMeanIsThatOfEveryPositionsLastState) {
  const VerifyInputs inputs = read_golden(std::string(CHEETAH_SOURCE_DIR) + "/" + kModel);
  const auto ids = inputs.golden.at("cases").at(0).at("ids").get<std::vector<int32_t>>();
  std::vector<double> mean(static_cast<size_t>(model_->traits().hidden));
  for (size_t count = 1; count <= ids.size(); ++count) {
    const std::vector<float> last = embed(std::span(ids).first(count), Pooling::kLast, false);
    for (size_t j = 0; j < mean.size(); ++j)
      mean[j] += static_cast<double>(last[j]) / static_cast<double>(ids.size());
  }
  const std::vector<float> got = embed(ids, Pooling::kMean, false);
  ASSERT_EQ(got.size(), mean.size());
  for (size_t j = 0; j < mean.size(); ++j) EXPECT_NEAR(got[j], mean[j], 1e-6 * (1 + std::abs(mean[j])));
}

TEST_F(EmbeddingTest, HasLengthOneUnlessAskedOtherwise) {
  const std::vector<int32_t> prompt = {5, 9, 300, 41, 8, 77};
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    const std::vector<float> plain = embed(prompt, pooling, false), unit = embed(prompt, pooling, true);
    double squares = 0;
    for (const float x : plain) squares += static_cast<double>(x) * static_cast<double>(x);
    for (size_t j = 0; j < plain.size(); ++j)
      EXPECT_NEAR(unit[j], static_cast<double>(plain[j]) / std::sqrt(squares), 1e-6);
  }
}

}  // namespace
}  // namespace cheetah

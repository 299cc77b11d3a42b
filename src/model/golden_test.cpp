// SPDX-License-Identifier: MIT
// Every reference model against its golden file.
#include <gtest/gtest.h>

#include "base/format.h"
#include "model/reference_models.h"
#include "model/verify.h"
#include "model/weights.h"

namespace cheetah {
namespace {

std::string describe(const VerifyResult& result) {
  std::string text;
  for (const VerifyCase& c : result.cases)
    text += format("{} tokens: logits off by {:.2e}, nll by {:.2e}, ids {}, greedy {} of {}\n", c.num_tokens,
        c.logit_error, c.nll_error, c.ids_match ? "equal" : "DIFFER", c.greedy_matched, c.greedy_total);
  if (result.heldout)
    text += format("heldout nll {:.6f}, expected {:.6f}\n", result.heldout->nll, result.heldout->expected);
  return text;
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  VerifyResult run(const std::string& path, Precision precision, std::optional<DType> dtype, bool heldout) {
    const auto model = Model::load(path, {.dtype = dtype, .show_progress = false});
    VerifyInputs inputs = read_golden(path);
    if (!heldout) inputs.heldout.clear();
    const VerifySetting setting{.precision = precision,
        .weights = coarsest_type(model->weights()),
        .converted = dtype.has_value(),
        .routed = model->traits().moe.experts > 0};
    CpuRunner runner(*model, {pool_, precision});
    return verify(*model, runner, inputs, verify_bounds(setting, inputs));
  }
  ThreadPool pool_{{.num_threads = 1, .pin = false}};
};

TEST_P(GoldenTest, AgreesWithTheReferenceInExactArithmetic) {
  const VerifyResult result = run(GetParam(), Precision::kExact, std::nullopt, false);
  EXPECT_TRUE(result.passed) << describe(result);
  EXPECT_NE(result.chat_matches, std::optional(false)) << "chat template";
}

TEST_P(GoldenTest, StaysWithinTheStatedBoundsInNativeArithmetic) {
  const VerifyResult result = run(GetParam(), Precision::kNative, std::nullopt, false);
  EXPECT_TRUE(result.passed) << describe(result);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(reference_models()),
    [](const auto& test) { return test_name(test.param); });

class Fp8Test : public GoldenTest {};

// Numbers and scales as the file has them, multiplied in FP8's own arithmetic: the reference's weights.
TEST_F(Fp8Test, CheckpointsAreRightWithoutWidening) {
  const std::string path = std::string(CHEETAH_SOURCE_DIR) + "/tests/models/deepseek_v3-fp8";
  const auto model = Model::load(path, {.dtype = DType::kF8E4M3, .show_progress = false});
  EXPECT_EQ(model->weights().layers[0].attention.o.w.dtype, DType::kF8E4M3);
  EXPECT_NE(model->weights().layers[0].attention.o.w.scales.data, nullptr);
  const VerifyResult result = run(path, Precision::kExact, DType::kF8E4M3, false);
  EXPECT_TRUE(result.passed) << describe(result);
}

// A mistake in the arithmetic must not hide behind the rounding of other types.
TEST(VerifyBounds, AreThoseOfTheWeightsType) {
  const auto logit = [](DType weights, bool converted) {
    return verify_bounds({.precision = Precision::kNative, .weights = weights, .converted = converted}, {})
        .logit;
  };
  const double exact = verify_bounds({}, {}).logit;
  EXPECT_EQ(logit(DType::kF32, false), exact);
  EXPECT_EQ(logit(DType::kF16, false), exact);
  EXPECT_LT(logit(DType::kBF16, false), logit(DType::kQ8_0, false));
  EXPECT_LT(logit(DType::kF16, true), logit(DType::kBF16, true));
  EXPECT_LT(logit(DType::kQ8_0, true), logit(DType::kQ4_0, true));
}

class HeldoutTest : public GoldenTest {};

// The small sibling: the embedded model's text takes seven times as long.
TEST_F(HeldoutTest, LossOfUnseenTextIsTheReferencesInEveryStoredType) {
  const std::string path = std::string(CHEETAH_SOURCE_DIR) + "/models/cub-1m";
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
    const VerifyResult result = run(path, Precision::kNative, dtype, true);
    ASSERT_TRUE(result.heldout.has_value());
    const double bound = dtype == DType::kQ8_0 ? 0.02 : 1e-3;
    EXPECT_NEAR(result.heldout->nll, result.heldout->expected, bound) << name_of(dtype);
  }
}

TEST(Verify, TellsAMissFromAMatch) {
  const std::string path = std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama";
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  const auto model = Model::load(path, {.show_progress = false});
  VerifyInputs inputs = read_golden(path);
  Json& first = inputs.golden["cases"][0];
  first["last_logits"][7] = first["last_logits"][7].get<double>() + 0.01;
  inputs.golden["cases"][1]["greedy"][3] = 0;
  CpuRunner runner(*model, {pool});
  const VerifyResult result = verify(*model, runner, inputs, verify_bounds({}, inputs));
  EXPECT_FALSE(result.passed);
  EXPECT_NEAR(result.cases[0].logit_error, 0.01, 1e-3);
  EXPECT_FALSE(result.cases[1].greedy_ok);
  EXPECT_EQ(result.cases[1].greedy_matched, 3);
  EXPECT_TRUE(result.cases[2].passed);
}

}  // namespace
}  // namespace cheetah

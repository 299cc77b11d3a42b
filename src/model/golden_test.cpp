// Every reference model of tests/models and models: outputs against the golden files, and the promise that a
// sequence's logits do not depend on what else is in the batch or on how its prompt was cut.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/format.h"
#include "model/verify.h"
#include "model/weights.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> reference_models() {
  std::vector<std::string> paths;
  for (const char* folder : {"tests/models", "models", "tests/models/gguf"})
    for (const auto& entry : fs::directory_iterator(fs::path(CHEETAH_SOURCE_DIR) / folder))
      if (fs::exists(entry.path() / "golden.json") || entry.path().extension() == ".gguf")
        paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  ThreadPool pool_{{.num_threads = 1, .pin = false}};
};

std::string describe(const VerifyResult& result) {
  std::string text;
  for (const VerifyCase& c : result.cases)
    text += format("{} tokens: logits off by {:.2e}, nll by {:.2e}, ids {}, greedy {} of {}\n", c.num_tokens,
                   c.logit_error, c.nll_error, c.ids_match ? "equal" : "DIFFER", c.greedy_matched,
                   c.greedy_total);
  if (result.heldout)
    text += format("heldout nll {:.6f}, expected {:.6f}\n", result.heldout->nll, result.heldout->expected);
  return text;
}

TEST_P(GoldenTest, AgreesWithTheReferenceInExactArithmetic) {
  const auto model = Model::load(GetParam(), {.show_progress = false});
  VerifyInputs inputs = read_golden(GetParam());
  inputs.heldout.clear();
  const VerifyResult result = verify(*model, {pool_, Precision::kExact}, inputs,
                                     verify_bounds(Precision::kExact, model->weights().embedding.dtype));
  EXPECT_TRUE(result.passed) << describe(result);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(reference_models()), [](const auto& test) {
  std::string name = fs::path(test.param).filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace cheetah

// SPDX-License-Identifier: MIT
// Every reference model on the device: against its golden file, and batch against batch.
#include "model/cuda/cuda_runner.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/format.h"
#include "kernels/sample/sample.h"
#include "model/generation.h"
#include "model/reference_models.h"
#include "model/verify.h"
#include "model/weights.h"

namespace cheetah {
namespace {

std::string describe(const VerifyResult& result) {
  std::string text;
  for (const VerifyCase& c : result.cases)
    text += format("{} tokens: logits off by {:.2e}, nll by {:.2e}, greedy {} of {}, behind by {:.2f}\n",
        c.num_tokens, c.logit_error, c.nll_error, c.greedy_matched, c.greedy_total, c.greedy_gap);
  return text;
}

class CudaGolden : public testing::TestWithParam<std::string> {
 protected:
  void check(Precision precision) {
    const auto model = Model::load(GetParam(), {.show_progress = false});
    VerifyInputs inputs = read_golden(GetParam());
    inputs.heldout.clear();
    const bool exact = precision == Precision::kExact;
    const VerifyBounds bounds = verify_bounds({.precision = precision,
                                                  .weights = coarsest_type(model->weights()),
                                                  .activations = exact ? DType::kF32 : DType::kBF16,
                                                  .routed = model->traits().moe.experts > 0},
        inputs);
    const auto runner = make_cuda_runner(*model, precision);
    const VerifyResult result = verify(*model, *runner, inputs, bounds);
    EXPECT_TRUE(result.passed) << describe(result);
  }
};

TEST_P(CudaGolden, AgreesWithTheReferenceInExactArithmetic) { check(Precision::kExact); }
TEST_P(CudaGolden, StaysWithinTheStatedBoundsInNativeArithmetic) { check(Precision::kNative); }

INSTANTIATE_TEST_SUITE_P(Models, CudaGolden, testing::ValuesIn(reference_models()),
    [](const auto& test) { return test_name(test.param); });

// Weights in FP8 with scales of rows, and of blocks: as far from the golden file as the CPU is.
TEST(CudaRunner, AppliesTheScalesOfFp8Weights) {
  for (const char* name : {"llama", "qwen3_moe", "deepseek_v3-fp8"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string(CHEETAH_SOURCE_DIR) + "/tests/models/" + name;
    const auto model = Model::load(path, {.dtype = DType::kF8E4M3, .show_progress = false});
    VerifyInputs inputs = read_golden(path);
    inputs.heldout.clear();
    ThreadPool threads;
    CpuRunner cpu(*model, {threads, Precision::kExact});
    const auto cuda = make_cuda_runner(*model, Precision::kExact);
    const VerifyResult expected = verify(*model, cpu, inputs, {}), actual = verify(*model, *cuda, inputs, {});
    ASSERT_EQ(actual.cases.size(), expected.cases.size());
    for (size_t i = 0; i < actual.cases.size(); ++i) {
      EXPECT_NEAR(actual.cases[i].logit_error, expected.cases[i].logit_error, 2e-3);
      EXPECT_NEAR(actual.cases[i].nll_error, expected.cases[i].nll_error, 2e-3);
    }
  }
}

// 256 greedy tokens of the embedded model are the CPU's, token for token.
TEST(CudaRunner, WritesTheSameTextAsTheCpuInExactArithmetic) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/models/cub-7m", {.show_progress = false});
  const auto text_of = [&](Runner& runner) {
    KvPool pool = runner.make_kv_pool({.dtype = DType::kF32, .num_pages = 32});
    CachedSequence sequence(*model, runner, pool);
    GenerationParams params{.max_tokens = 256, .ignore_end = true};
    params.sampling.temperature = 0.f;
    const std::vector<int32_t> prompt = {1, 50, 100, 200};
    return generate(*model, sequence, prompt, params, [](std::string_view) { return true; }).tokens;
  };
  ThreadPool threads;
  CpuRunner cpu(*model, {threads, Precision::kExact});
  const auto cuda = make_cuda_runner(*model, Precision::kExact);
  const std::vector<int32_t> tokens = text_of(*cuda);
  EXPECT_EQ(tokens.size(), 256u);
  EXPECT_EQ(tokens, text_of(cpu));
}

// Prompt chunks and decode rows in one batch, hidden states beside logits: the same as one by one on the CPU.
TEST(CudaRunner, GivesEachSequenceOfABatchItsOwnLogitsAndHiddenStates) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama", {.show_progress = false});
  const ModelTraits& traits = model->traits();
  const std::vector<int32_t> tokens = {3, 5, 7, 11, 13, 17, 19};
  const std::vector<int32_t> first_pages = {4, 1}, second_pages = {2};
  const std::vector<AttentionSequence> sequences = {{first_pages, 4, 0, 4}, {second_pages, 3, 4, 3}};
  const std::vector<int64_t> logit_rows = {6, 3}, hidden_rows = {1};
  const auto outputs_of = [&](Runner& runner) {
    std::vector<float> logits(static_cast<size_t>(2 * traits.vocab)),
        hidden(static_cast<size_t>(traits.hidden));
    KvPool pool = runner.make_kv_pool({.dtype = DType::kF32, .num_pages = 8});
    runner.forward({.tokens = tokens,
                       .sequences = sequences,
                       .logit_rows = logit_rows,
                       .hidden_rows = hidden_rows,
                       .hidden = hidden},
        pool, logits);
    logits.insert(logits.end(), hidden.begin(), hidden.end());
    return logits;
  };
  ThreadPool threads({.num_threads = 1, .pin = false});
  CpuRunner cpu(*model, {threads, Precision::kExact});
  const std::vector<float> expected = outputs_of(cpu),
                           actual = outputs_of(*make_cuda_runner(*model, Precision::kExact));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-4) << i;
}

// Steps of one token a sequence, filled up to a recorded shape: sequences come and go, and each step's logits
// are the CPU's.
TEST(CudaRunner, RepeatsRecordedDecodeStepsWithOtherSequences) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama", {.show_progress = false});
  const ModelTraits& traits = model->traits();
  constexpr int64_t kSequences = 5, kSteps = 24;
  std::vector<std::vector<int32_t>> pages;
  for (int32_t i = 0; i < kSequences; ++i) pages.push_back({2 * i, 2 * i + 1});
  const auto outputs_of = [&](Runner& runner) {
    KvPool pool = runner.make_kv_pool({.dtype = DType::kF32, .num_pages = 2 * kSequences});
    std::vector<float> all;
    std::vector<int64_t> lengths(kSequences, 0);
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<int32_t> tokens;
      std::vector<AttentionSequence> sequences;
      std::vector<int64_t> rows;
      for (size_t i = 0; i < kSequences; ++i) {
        if ((static_cast<int64_t>(i) + step / 6) % 3 == 0) continue;  // three or four of them take part
        rows.push_back(std::ssize(tokens));
        tokens.push_back(static_cast<int32_t>((7 * step + 3 * static_cast<int64_t>(i)) % traits.vocab));
        sequences.push_back({pages[i], ++lengths[i], rows.back(), 1});
      }
      std::vector<float> logits(rows.size() * static_cast<size_t>(traits.vocab), std::nanf(""));
      runner.forward({.tokens = tokens, .sequences = sequences, .logit_rows = rows}, pool, logits);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  ThreadPool threads({.num_threads = 1, .pin = false});
  CpuRunner cpu(*model, {threads, Precision::kExact});
  const std::vector<float> expected = outputs_of(cpu),
                           actual = outputs_of(*make_cuda_runner(*model, Precision::kExact));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-4) << i;
}

// Each step is submitted before the one before it is waited for and takes the token that one chooses.
TEST(CudaRunner, FeedsEachStepTheTokensOfTheOneBefore) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama", {.show_progress = false});
  const std::vector<std::vector<int32_t>> pages = {{0, 3}, {2, 1}};
  const std::vector<int32_t> prompt = {3, 5, 7, 11};
  const auto texts_of = [&](Runner& runner, const SamplingParams& sampling) {
    KvPool pool = runner.make_kv_pool({.dtype = DType::kF32, .num_pages = 4});
    std::vector<SampleRow> samples(2);
    for (size_t i = 0; i < 2; ++i) {
      samples[i].logits = static_cast<int64_t>(i);
      samples[i].sampling = sampling;
      samples[i].mirostat_mu = 2 * sampling.mirostat_tau;
      samples[i].xtc_uniform = 0.25;
    }
    const auto submit = [&](int64_t step) {  // step 0 is the prompts
      const int64_t count = step == 0 ? 2 : 1;
      const std::vector<AttentionSequence> sequences = {
          {pages[0], 2 + step, 0, count}, {pages[1], 2 + step, count, count}};
      const std::vector<int64_t> rows = {count - 1, 2 * count - 1};
      const std::vector<FedToken> fed = {{0, 1}, {1, 0}};  // crossed: each goes on with the other's token
      for (SampleRow& sample : samples) sample.uniform = 0.37 + 0.02 * static_cast<double>(step);
      return runner.submit({.tokens = std::span(prompt).first(static_cast<size_t>(2 * count)),
                               .sequences = sequences,
                               .logit_rows = rows},
          {.fed = step == 0 ? std::span<const FedToken>{} : fed, .samples = samples}, pool);
    };
    std::vector<int32_t> tokens;
    const auto wait = [&](StepTicket ticket) {
      for (const SampledToken& sampled : runner.wait(ticket).sampled) tokens.push_back(sampled.token.id);
    };
    StepTicket last = submit(0);
    for (int64_t step = 1; step < 20; ++step) {
      if (runner.max_steps_in_flight() == 1) wait(last);
      const StepTicket next = submit(step);
      if (runner.max_steps_in_flight() > 1) wait(last);
      last = next;
    }
    wait(last);
    return tokens;
  };
  ThreadPool threads({.num_threads = 1, .pin = false});
  CpuRunner cpu(*model, {threads, Precision::kExact});
  const auto cuda = make_cuda_runner(*model, Precision::kExact);
  const std::vector<SamplingParams> cases = {{}, {.temperature = 0.8f},
      // Those that the host chooses for the device.
      {.temperature = 0.8f, .top_n_sigma = 1.f}, {.temperature = 0.8f, .xtc_probability = 0.5f},
      {.temperature = 0.8f, .dynatemp_range = 0.4f}, {.temperature = 0.8f, .mirostat = Mirostat::kFirst},
      {.temperature = 0.8f, .mirostat = Mirostat::kSecond},
      {.dry = {.multiplier = 1.f, .allowed_length = 0}}};
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(texts_of(*cuda, cases[i]), texts_of(cpu, cases[i])) << i;
}

TEST(CudaRunner, RefusesATokenOutsideTheVocabularyAndGoesOn) {
  const auto model =
      Model::load(std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama", {.show_progress = false});
  const auto runner = make_cuda_runner(*model, Precision::kNative);
  KvPool pool = runner->make_kv_pool({.dtype = DType::kBF16, .num_pages = 1});
  const std::vector<int32_t> pages = {0};
  const std::vector<int64_t> rows = {0};
  std::vector<float> logits(static_cast<size_t>(model->traits().vocab), std::nanf(""));
  const AttentionSequence sequence{pages, 1, 0, 1};
  for (const int32_t bad : {-1, static_cast<int32_t>(model->traits().vocab)})
    EXPECT_THROW(
        runner->forward({.tokens = {&bad, 1}, .sequences = {&sequence, 1}, .logit_rows = rows}, pool, logits),
        Error);
  const int32_t good = 5;
  runner->forward({.tokens = {&good, 1}, .sequences = {&sequence, 1}, .logit_rows = rows}, pool, logits);
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
}

}  // namespace
}  // namespace cheetah

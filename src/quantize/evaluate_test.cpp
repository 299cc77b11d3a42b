// SPDX-License-Identifier: MIT
#include "quantize/evaluate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temp_dir.h"
#include "quantize/eval_state.h"
#include "quantize/sha256.h"

namespace cheetah {
namespace {

const std::string kModels = std::string(CHEETAH_SOURCE_DIR) + "/models/";

struct Case {
  ThreadPool pool{{.num_threads = 2}};
  std::unique_ptr<Model> model = Model::load(kModels + "cub-1m", {.show_progress = false});
  CpuRunner runner{*model, {pool, Precision::kExact}};
  EvalData data =
      read_eval_data(heldout_beside(kModels + "cub-1m"), *model, {.window = 512, .max_windows = 2});

  std::vector<WindowScore> scores(const std::optional<RunningModel>& reference, int64_t first = 0) {
    std::vector<WindowScore> all;
    evaluate(data, first, {*model, runner}, reference, pool,
        {.window = [&](int64_t, const WindowScore& score) { all.push_back(score); }});
    return all;
  }
};

TEST(Evaluate, AModelDoesNotDivergeFromItself) {
  Case c;
  const auto scores = c.scores(RunningModel{*c.model, c.runner});
  ASSERT_EQ(scores.size(), 2);
  for (const WindowScore& score : scores) {
    EXPECT_EQ(score.tokens, 511);
    EXPECT_DOUBLE_EQ(score.nll, score.reference_nll);
    EXPECT_LT(score.kl / 511, 1e-12);  // sums of rounded doubles
    EXPECT_EQ(score.agree, 511);
    EXPECT_EQ(score.right, score.reference_right);
  }
}

TEST(Evaluate, RoundedWeightsDivergeALittle) {
  Case c;
  const auto rounded = Model::load(kModels + "cub-1m", {.dtype = DType::kQ4_0, .show_progress = false});
  CpuRunner runner(*rounded, {c.pool, Precision::kExact});
  const auto scores = c.scores(RunningModel{*rounded, runner});
  const Evaluation result = summarize({.windows = scores, .questions = {}}, true);
  EXPECT_GT(result.kl.mean, 1e-4);
  EXPECT_LT(result.kl.mean, 0.5);
  EXPECT_LT(result.agree.mean, 1.0);
  EXPECT_GT(result.agree.mean, 0.5);
  EXPECT_LE(result.kl.interval->low, result.kl.mean);
}

TEST(Evaluate, RefusesAnotherVocabulary) {
  Case c;
  const auto other = Model::random("llama-134m", DType::kBF16);
  CpuRunner runner(*other, {c.pool, Precision::kExact});
  EXPECT_THROW(c.scores(RunningModel{*other, runner}), Error);
}

TEST(Evaluate, AnswersQuestionsWithTheLikeliestChoice) {
  Case c;
  c.data.windows.clear();
  c.data.questions = {{.prompt = "Once upon a", .choices = {"time", "xylophone zebra"}, .answer = 0},
      {.prompt = "Once upon a", .choices = {"quartz", "time"}, .answer = 0}};
  std::vector<QuestionScore> scores;
  evaluate(c.data, 0, {*c.model, c.runner}, RunningModel{*c.model, c.runner}, c.pool,
      {.question = [&](int64_t, const QuestionScore& score) { scores.push_back(score); }});
  ASSERT_EQ(scores.size(), 2);
  EXPECT_TRUE(scores[0].right && scores[0].agree);
  EXPECT_TRUE(!scores[1].right && scores[1].agree);
}

TEST(EvalState, GoesOnWhereItStoppedAndDropsALineCutOff) {
  const TempDir dir;
  const std::string path = dir.path("state");
  const WindowScore window{.tokens = 3, .nll = 1.25, .right = 1, .kl = 0.5, .max_kl = 0.25, .agree = 2};
  {
    EvalState state(path, {{"a", 1}});
    state.add(window);
    state.add(window);
  }
  std::ofstream(path, std::ios::app) << "{\"tokens\": 4, \"nl";
  const EvalState again(path, {{"a", 1}});
  ASSERT_EQ(again.scores().windows.size(), 2);
  EXPECT_DOUBLE_EQ(again.scores().windows[1].nll, 1.25);
  EXPECT_EQ(again.scores().windows[1].agree, 2);
  EXPECT_THROW(EvalState(path, {{"a", 2}}), Error);
}

TEST(Sha256, IsThePublishedOne) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "lab/runner.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kCount = 1000;

using Run = void (*)(const float* x, float* y);

void right(const float* x, float* y) {
  for (int64_t i = 0; i < kCount; ++i) y[i] = 2 * x[i];
}

// An experiment of two variants: `right`, and the one to be judged. Both tell times of their own making, so
// that no clock and no neighbour has a say.
Experiment two_variants(Run suspect, double suspect_s) {
  return {.id = "test/suspect",
      .title = "A suspect",
      .question = "Is it caught?",
      .mechanism = "It should be.",
      .domain = Domain::kCpu,
      .timing = Timing::kWallClock,
      .rotation = Rotation::kHot,
      .variants = {{"right", "doubles"}, {"suspect", "does something else"}},
      .sizes = sizes_of({kCount}),
      .quick = sizes_of({kCount}),
      .make = [=](const Setup& setup) {
        auto trial = std::make_unique<ArrayTrial>(setup);
        const auto x = trial->input<float>("x", kCount);
        const auto y = trial->output<float>("y", kCount);
        trial->set_cost({.roof = Roof::kNone});
        trial->reference([=](const HostArrays& host) { right(host[x].data(), host[y].data()); });
        const auto random = std::make_shared<Philox>(7);
        const auto add = [&](std::string_view name, Run run, double seconds) {
          trial->timed_variant(name, [=](const Launch& at) {
            run(at[x], at[y]);
            return seconds * (1 + 0.02 * random->next_uniform());
          });
        };
        add("right", right, 1e-3);
        add("suspect", suspect, suspect_s);
        return trial;
      }};
}

VariantResult judged(Run suspect, double suspect_s = 1e-3, int* sets = nullptr) {
  Machine machine;
  Roofs roofs(machine);
  const Experiment experiment = two_variants(suspect, suspect_s);
  const ExperimentResult result = run_experiment(experiment, machine, roofs, {.quick = true});
  EXPECT_EQ(result.sizes.at(0).variants.at(0).verdict, Verdict::kBaseline);
  if (sets != nullptr) *sets = result.sizes.at(0).num_sets;
  return result.sizes.at(0).variants.at(1);
}

TEST(Runner, AVariantThatComputesSomethingElseIsWrongAndHasNoTime) {
  const VariantResult result = judged([](const float* x, float* y) {
    right(x, y);
    y[517] += 0.01f;
  });
  EXPECT_EQ(result.verdict, Verdict::kWrong);
  EXPECT_NE(result.note.find("y[517]"), std::string::npos) << result.note;
  EXPECT_EQ(result.median_s, 0);
}

TEST(Runner, AVariantThatWritesNothingIsWrongThoughARightOneRanBefore) {
  const VariantResult result = judged([](const float*, float*) {});
  EXPECT_EQ(result.verdict, Verdict::kWrong);
  EXPECT_NE(result.note.find("nan"), std::string::npos) << result.note;
}

TEST(Runner, AVariantThatWritesPastItsOutputIsWrong) {
  const VariantResult result = judged([](const float* x, float* y) {
    right(x, y);
    y[kCount] = 1;
  });
  EXPECT_EQ(result.verdict, Verdict::kWrong);
  EXPECT_NE(result.note.find("past its end"), std::string::npos) << result.note;
}

TEST(Runner, AVariantThatThrowsIsWrongAndTheOthersGoOn) {
  const VariantResult result = judged([](const float*, float*) { throw Error("the device is on fire"); });
  EXPECT_EQ(result.verdict, Verdict::kWrong);
  EXPECT_EQ(result.note, "the device is on fire");
}

TEST(Runner, AVariantThatIsAFifthSlowerIsSlower) {
  const VariantResult result = judged(right, 1.2e-3);
  EXPECT_EQ(result.verdict, Verdict::kSlower);
  EXPECT_NEAR(result.speedup.ratio, 1 / 1.2, 0.02);
}

TEST(Runner, AVariantAsFastAsTheBaselineIsNeutral) { EXPECT_EQ(judged(right).verdict, Verdict::kNeutral); }

TEST(Runner, AVariantThatGoesWrongAfterSomeRunsIsCaughtByTheSecondCheck) {
  static int runs;
  runs = 0;
  const VariantResult result = judged([](const float* x, float* y) {
    right(x, y);
    if (++runs > 3) y[0] = 99;
  });
  EXPECT_EQ(result.verdict, Verdict::kWrong);
}

TEST(Runner, WithoutTimesEveryVariantIsStillChecked) {
  Machine machine;
  Roofs roofs(machine);
  const Experiment experiment = two_variants([](const float*, float*) {}, 1e-3);
  const ExperimentResult result =
      run_experiment(experiment, machine, roofs, {.quick = true, .check_only = true});
  EXPECT_TRUE(result.has_wrong());
  EXPECT_EQ(result.sizes.at(0).num_rounds, 0);
}

TEST(Runner, ACudaExperimentSaysWhyItCannotRunWithoutADevice) {
  Machine machine;
  if (machine.has_gpu()) GTEST_SKIP() << "there is a device";
  Roofs roofs(machine);
  Experiment experiment = two_variants(right, 1e-3);
  experiment.domain = Domain::kCuda;
  const ExperimentResult result = run_experiment(experiment, machine, roofs, {.quick = true});
  EXPECT_FALSE(result.skipped.empty());
  EXPECT_TRUE(result.sizes.empty());
}

TEST(ArrayTrial, InputSetsOutgrowTheCaches) {
  ThreadPool threads({.num_threads = 1, .pin = false});
  Experiment experiment = two_variants(right, 1e-3);
  experiment.rotation = Rotation::kPastCaches;
  const Size size{.label = "1", .dims = {1}};
  const lab::Setup setup{.experiment = experiment, .size = size, .threads = threads, .cache_bytes = 64 << 10};
  const auto trial = experiment.make(setup);
  trial->fill(1);
  EXPECT_GT(trial->num_sets() * kCount * 2 * 4, 3 * (64 << 10));
}

TEST(Globs, MatchAsAShellDoes) {
  EXPECT_TRUE(matches_glob("cpu/*", "cpu/copy"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("ch0?/*loads", "ch07/vector-loads"));
  EXPECT_TRUE(matches_glob("*a*b", "aab"));
  EXPECT_FALSE(matches_glob("cpu/*", "ch07/copy"));
  EXPECT_FALSE(matches_glob("a?", "a"));
  EXPECT_FALSE(matches_glob("", "a"));
}

}  // namespace
}  // namespace cheetah::lab

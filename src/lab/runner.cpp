// SPDX-License-Identifier: MIT
#include "lab/runner.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>

#include "base/format.h"
#include "base/random.h"
#include "lab/decide.h"
#include "lab/stopwatch.h"

namespace cheetah::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How long to measure one size.
struct Effort {
  double sample_s = 0;  // of one sample, about
  double most_s = 0;    // of all rounds
  double patience = 1;  // times most_s on a machine that is not quiet
  int least_rounds = 10, most_rounds = 0;
};

Effort effort_of(const Experiment& experiment, bool quick) {
  if (experiment.domain == Domain::kCuda)
    return {.sample_s = 200e-6, .most_s = quick ? 0.2 : 0.3, .most_rounds = quick ? 40 : 80};
  return {.sample_s = quick ? 0.5e-3 : 1e-3,
      .most_s = quick ? 0.5 : 1.5,
      .patience = 4,
      .most_rounds = quick ? 160 : 240};
}

// One size of an experiment on its way from inputs to verdicts.
class SizeRun {
 public:
  SizeRun(const Experiment& experiment, const Size& size, Machine& machine, const RunOptions& options)
      : experiment_(experiment), size_(size), machine_(machine), options_(options) {
    result_.label = size.label;
    for (const Variant& variant : experiment.variants)
      result_.variants.push_back({.name = std::string(variant.name), .verdict = Verdict::kNeutral});
  }

  SizeResult run(Roofs& roofs) {
    Setup setup = machine_.setup(experiment_, size_);
    setup.quick = options_.quick;
    if (options_.check_only) setup.cache_bytes = 0;  // nothing is timed: one input set will do
    trial_ = experiment_.make(setup);
    refuse_variants();
    check_all(options_.seed);
    if (!options_.check_only) {
      measure();
      check_all(options_.seed + 1);  // again, now that every variant has run often: state left behind shows
      judge_all(roofs);
    }
    return std::move(result_);
  }

 private:
  VariantResult& at(int variant) { return result_.variants[static_cast<size_t>(variant)]; }
  int num_variants() const { return static_cast<int>(experiment_.variants.size()); }
  bool usable(int variant) { return at(variant).verdict == Verdict::kNeutral; }
  std::vector<int> usable_variants() {
    std::vector<int> usable_ones;
    for (int variant = 0; variant < num_variants(); ++variant)
      if (usable(variant)) usable_ones.push_back(variant);
    return usable_ones;
  }
  void fail(int variant, std::string why) {
    at(variant).verdict = Verdict::kWrong;
    at(variant).note = std::move(why);
  }

  void refuse_variants() {
    for (int variant = 0; variant < num_variants(); ++variant) {
      auto why = machine_.refusal(experiment_, experiment_.variants[static_cast<size_t>(variant)]);
      if (!why) why = trial_->refusal(variant);
      if (!why) continue;
      at(variant).verdict = Verdict::kSkipped;
      at(variant).note = *why;
    }
  }

  // Every variant on the same fresh inputs, each with poisoned outputs.
  void check_all(uint64_t seed) {
    trial_->fill(seed);
    result_.num_sets = trial_->num_sets();
    const int set = static_cast<int>(seed % static_cast<uint64_t>(trial_->num_sets()));
    for (const int variant : usable_variants()) try {
        trial_->poison(set);
        trial_->launch(variant, set);
        if (const auto wrong = trial_->check(variant, set)) fail(variant, *wrong);
      } catch (const std::exception& error) {
        fail(variant, error.what());
      }
  }

  void measure() {
    const Effort effort = effort_of(experiment_, options_.quick);
    const std::vector<int> variants = usable_variants();
    if (variants.empty()) return;
    gpu::Stream* stream = experiment_.domain == Domain::kCuda ? &machine_.stream() : nullptr;
    std::vector<Stopwatch> watches;
    for (const int variant : variants) {
      watches.emplace_back(Stopwatch::Subject{
          .trial = *trial_, .variant = variant, .timing = experiment_.timing, .stream = stream});
      watches.back().prepare(effort.sample_s);
    }
    // The baseline runs twice a round: entry 0 is A, the last one A'.
    order_.resize(variants.size() + 1);
    std::iota(order_.begin(), order_.end(), size_t{0});
    times_.assign(order_.size(), {});
    Philox random(options_.seed);
    const Clock::time_point start = Clock::now();
    int round = 0;
    for (; round < effort.most_rounds; ++round) {
      const double spent_s = seconds_since(start);
      if (round >= effort.least_rounds && (spent_s > effort.most_s || is_settled(round)) &&
          (spent_s > effort.patience * effort.most_s || !is_disturbed(round)))
        break;
      for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.next_u32() % i]);
      for (const size_t entry : order_) times_[entry].push_back(watches[entry % variants.size()].sample());
    }
    result_.num_rounds = round;
    measured_ = variants;
  }

  // More rounds would not change a verdict: every interval is narrow beside the band. Asked now and then, as
  // the answer costs a little.
  bool is_settled(int round) const {
    if (round % 5 != 0) return false;
    const double enough = least_band(experiment_.domain) / 4;
    return std::ranges::all_of(times_, [&](const std::vector<double>& times) {
      const Speedup ratio = ratio_of(times_.back(), times, experiment_.domain);
      return ratio.high - ratio.low < enough * ratio.ratio;
    });
  }

  // The baseline differs from itself by more than anybody should care about: longer may help.
  bool is_disturbed(int round) const {
    return round % 5 != 0 || detectable_effect(times_.front(), times_.back(), experiment_.domain) >
                                 least_band(experiment_.domain);
  }

  void judge_all(Roofs& roofs) {
    if (measured_.empty()) return;
    const Baseline baseline{.a = times_.front(), .a_again = times_.back()};
    result_.detectable = detectable_effect(baseline.a, baseline.a_again, experiment_.domain);
    for (size_t i = 0; i < measured_.size(); ++i) {
      const int variant = measured_[i];
      if (!usable(variant)) continue;  // it was wrong in the second check
      const Cost cost = trial_->cost(variant);
      VariantResult judged =
          judge({.seconds = times_[i], .cost = cost, .roof_rate = roofs.rate(experiment_.domain, cost.roof)},
              baseline, experiment_.domain);
      judged.name = at(variant).name;
      if (i == 0 && judged.verdict != Verdict::kImpossible) judged.verdict = Verdict::kBaseline;
      at(variant) = std::move(judged);
    }
  }

  const Experiment& experiment_;
  const Size& size_;
  Machine& machine_;
  const RunOptions& options_;
  std::unique_ptr<Trial> trial_;
  SizeResult result_;
  std::vector<size_t> order_;
  std::vector<std::vector<double>> times_;  // [entry][round]
  std::vector<int> measured_;               // the variant of each entry but the last
};

// The result before anything has run.
ExperimentResult described(const Experiment& experiment) {
  ExperimentResult result;
  result.id = experiment.id;
  result.title = experiment.title;
  result.question = experiment.question;
  result.mechanism = experiment.mechanism;
  result.claim = experiment.claim.text;
  result.claim_variant = experiment.claim.variant;
  result.claim_speedup = experiment.claim.speedup;
  result.domain = experiment.domain;
  result.timing = experiment.timing;
  for (const Variant& variant : experiment.variants)
    result.variants.push_back({.name = std::string(variant.name), .idea = std::string(variant.idea)});
  return result;
}

}  // namespace

ExperimentResult run_experiment(
    const Experiment& experiment, Machine& machine, Roofs& roofs, const RunOptions& options) {
  ExperimentResult result = described(experiment);
  const Clock::time_point start = Clock::now();
  if (auto why = machine.refusal(experiment)) {
    result.skipped = *why;
    return result;
  }
  for (const Size& size : options.quick ? experiment.quick : experiment.sizes)
    result.sizes.push_back(SizeRun(experiment, size, machine, options).run(roofs));
  result.wall_s = seconds_since(start);
  return result;
}

}  // namespace cheetah::lab

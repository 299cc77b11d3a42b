// SPDX-License-Identifier: MIT
#pragma once
// What a run of the lab found: plain data that the tables, the JSON, the history and the report are made of.
#include <string>
#include <vector>

#include "lab/experiment.h"

namespace cheetah::lab {

enum class Verdict {
  kBaseline,
  kFaster,  // than the baseline, beyond the noise
  kNeutral,
  kSlower,
  kWrong,       // a wrong result: its times mean nothing
  kImpossible,  // faster than the machine can be: the measurement is wrong
  kSkipped,     // cannot run here or at this size
};
std::string_view name_of(Verdict verdict);
std::optional<Verdict> verdict_named(std::string_view name);

// A ratio of times, baseline over variant: above 1 the variant is faster.
struct Speedup {
  double ratio = 1;
  double low = 1, high = 1;  // 95 % confidence interval
};

struct VariantResult {
  std::string name = {};
  Verdict verdict = Verdict::kSkipped;
  std::string note = {};  // what was wrong, why it was skipped
  double median_s = 0;    // of one launch; on a CPU the lowest decile: see decide.h
  double spread = 0;      // half the interquartile range over the median
  int num_samples = 0;
  int num_rejected = 0;  // samples under the roof's floor
  Speedup speedup = {};
  Cost cost = {};
  std::string item = {};  // cost.item, owned
  double roof_rate = 0;   // measured, of cost.roof: bytes/s, operations/s or launches/s; 0: not known
  double roof_share = 0;  // of it that was reached
};

struct SizeResult {
  std::string label;
  std::vector<VariantResult> variants;  // as in the experiment
  double detectable = 0;                // the least effect this run could tell from noise, from A/A pairs
  int num_sets = 1;
  int num_rounds = 0;
};

struct VariantText {
  std::string name, idea;
};

struct ExperimentResult {
  std::string id, title, question, mechanism;
  std::string claim, claim_variant;
  double claim_speedup = 0;
  Domain domain = Domain::kCpu;
  Timing timing = Timing::kWallClock;
  std::vector<VariantText> variants = {};
  std::vector<SizeResult> sizes = {};
  std::string skipped = {};                    // why none of it ran
  std::vector<std::string> disturbances = {};  // throttling, other processes: what may have bent the times
  double wall_s = 0;

  bool has_wrong() const;
};

}  // namespace cheetah::lab

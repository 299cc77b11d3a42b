// SPDX-License-Identifier: MIT
#pragma once
// Two sets of runs of one machine side by side: what became slower, and did it stay so. Pure.
#include <string>
#include <vector>

#include "lab/run.h"

namespace cheetah::lab {

enum class Change { kSame, kFaster, kSlower, kBroken };  // kBroken: right before, wrong now
std::string_view name_of(Change change);

struct ComparedVariant {
  std::string experiment, size, variant;
  double before_s = 0;  // the median of the runs before
  double after_s = 0;   // the median of the runs after
  double ratio = 1;     // after over before: above 1 is slower
  double band = 0;      // a change within it is noise
  Change change = Change::kSame;
};

struct Comparison {
  std::vector<ComparedVariant> variants;  // measured on both sides
  int64_t num_only_before = 0, num_only_after = 0;
  bool has_regression() const;
};

// A change counts when every run after lies outside the band around the median before: once is not enough.
// The band is the threshold or the runs' own detectable effect, whichever is larger. Throws Error for
// different hardware.
Comparison compare_runs(std::span<const LabRun> before, std::span<const LabRun> after, double threshold);

std::string comparison_text(const Comparison& comparison);

// "5%" or "0.05"; throws UsageError.
double parse_threshold(const std::string& text);

}  // namespace cheetah::lab

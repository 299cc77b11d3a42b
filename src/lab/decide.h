// SPDX-License-Identifier: MIT
#pragma once
// From samples to verdicts: pure functions, so that tests can try every case without a clock.
#include <span>
#include <vector>

#include "lab/result.h"

namespace cheetah::lab {

// One round measures the baseline twice (A and A') and every other variant once, in random order: what a
// round has in common (clocks, neighbours, temperature) drops out of its ratios.
struct Samples {
  std::vector<double> seconds;  // one per round
};

// A ratio numerator/denominator over rounds with its 95 % confidence interval; a bootstrap with a fixed seed,
// so that the same samples give the same answer. On a GPU, which has one program at a time, the median of the
// rounds' ratios: what a round shares drops out. On a CPU others come and go within a round and only ever add
// time: the ratio of the lowest deciles, which are of rounds that were left alone.
Speedup ratio_of(std::span<const double> numerator, std::span<const double> denominator, Domain domain);

// The least effect that the A/A pairs allow to be called real: how far the interval of A/A' reaches from 1.
double detectable_effect(std::span<const double> a, std::span<const double> a_again, Domain domain);

// Neutral unless the ratio is outside 1 ± band and the whole interval is on the same side.
Verdict verdict_of(const Speedup& speedup, double band);

// Differences within this do not matter: they come and go with the layout of
// memory.
double least_band(Domain domain);

// The time that `cost` takes at least on a roof of `rate`; 0: not known.
double floor_seconds(const Cost& cost, double rate);
// A sample under this share of the floor is an error of measurement, not a fast kernel. A CPU's limits are
// measured beside other processes and its clock moves, so more is allowed there.
double floor_margin(Domain domain);

// One round measures the baseline twice (A and A') and every other variant once, in random order: what a
// round has in common (clocks, neighbours, temperature) drops out of its ratios.
struct MeasuredVariant {
  std::vector<double> seconds;  // one per round, of one launch
  Cost cost = {};
  double roof_rate = 0;
};
struct Baseline {
  std::span<const double> a, a_again;
};
// Fills in median, spread, speed-up, share of the roof and verdict.
VariantResult judge(const MeasuredVariant& variant, const Baseline& baseline, Domain domain);

}  // namespace cheetah::lab

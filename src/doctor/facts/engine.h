// SPDX-License-Identifier: MIT
#pragma once
// A serving engine's own numbers, whichever engine it is: one or two readings of its metrics.
#include <optional>
#include <string>
#include <vector>

#include "doctor/metrics.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct EngineFacts {
  Metrics now;
  std::optional<Metrics> before;
  double interval_s = 0;
  std::string source;
  double slo_ttft_s = 0, slo_itl_s = 0;  // 0: no objective was given

  // Our name for a metric, e.g. "running"; the engines' names for it are in engine.cpp.
  Value<double> gauge(std::string_view what) const;    // summed over series
  Value<double> most(std::string_view what) const;     // the largest of the series: of a share, a temperature
  Value<double> counter(std::string_view what) const;  // between the readings; since start with one
  Value<double> rate(std::string_view what) const;     // a second; needs two readings
  Value<double> quantile(std::string_view what, double q) const;  // of a histogram; needs 100 observations
  Value<double> mean(std::string_view what) const;                // of a histogram
  Value<double> share(std::string_view what, std::string_view label, std::vector<std::string> values) const;
  std::vector<double> each(std::string_view what) const;  // a number a series
  // What each series added between the readings (or since start with one); its name is its labels'.
  std::vector<std::pair<std::string, double>> each_added(std::string_view what) const;
  // The series as they stand, by the name of the engine or GPU they are of.
  std::vector<std::pair<std::string, double>> each_named(std::string_view what) const;
};

}  // namespace cheetah::doctor

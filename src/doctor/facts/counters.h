// SPDX-License-Identifier: MIT
#pragma once
// Numbers that only grow, read twice: what changed in between tells about now, not about last month.
#include <map>
#include <string>

#include "doctor/value.h"

namespace cheetah::doctor {

struct CounterReading {
  double value = 0;
  std::string source;
};
using CounterReadings = std::map<std::string, CounterReading, std::less<>>;

struct CounterFacts {
  double interval_s = 0;  // 0: one reading only
  CounterReadings before;
  CounterReadings after;

  Value<double> total(const std::string& name) const;  // since boot, or since the device came up
  // What was added between the readings. Unreadable when the counter went backwards (a reset).
  Value<double> delta(const std::string& name) const;
  Value<double> per_second(const std::string& name) const;
};

CounterReadings read_counters(const Source& source);
double read_uptime(const Source& source);

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#pragma once
// What doctor measure found: "name=value" lines, e.g. "memory.read.0=21.3e9" (bytes per second on node 0).
#include <string>
#include <string_view>
#include <vector>

#include "doctor/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct MeasuredFacts {
  Fields values;
  std::string source = "measured";

  Value<double> number(const std::string& name) const;
  std::vector<double> all(std::string_view prefix) const;  // of the names that begin so
};

MeasuredFacts parse_measured(std::string_view text);

}  // namespace cheetah::doctor

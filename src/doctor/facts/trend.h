// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::doctor {

// How a counter grew over the looks of `doctor watch`.
struct Trend {
  std::string name;
  double added = 0, hours = 0;
  double per_day() const { return hours > 0 ? added / hours * 24 : 0; }
};

// "NAME HOURS ADDED" a line.
std::vector<Trend> parse_trends(std::string_view text);

}  // namespace cheetah::doctor

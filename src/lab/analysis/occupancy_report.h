// SPDX-License-Identifier: MIT
#pragma once
// The occupancy calculator's answer, for people and for programs.
#include <string>

#include "base/json.h"
#include "lab/analysis/launch_advice.h"

namespace cheetah::analysis {

std::string occupancy_text(const SmLimits& sm, const LaunchReport& report);
Json occupancy_json(const SmLimits& sm, const LaunchReport& report);

}  // namespace cheetah::analysis

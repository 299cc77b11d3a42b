// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "doctor/source.h"

namespace cheetah::doctor {

// What `ethtool -S NIC` prints, a "name value" line each, of the counters that tell of loss and pauses.
Text ethtool_counters(const std::string& nic);

}  // namespace cheetah::doctor

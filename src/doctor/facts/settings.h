// SPDX-License-Identifier: MIT
#pragma once
// How this machine keeps its settings: what a fix must know before it changes one for good.
#include <string>
#include <vector>

#include "doctor/value.h"

namespace cheetah::doctor {

struct SettingsFacts {
  Value<std::string> tuned_profile;   // absent: tuned does not manage this machine
  std::vector<std::string> services;  // units that are installed, of those a fix may start
};

SettingsFacts collect_settings(const Source& source);

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#pragma once
// What a fatal fault leaves behind for later analysis: the failed step, the device's last launches, the last
// decisions and what ran, without any of its text.
#include <string>

#include "engine/decision_log.h"
#include "engine/engine_config.h"
#include "engine/engine_stats.h"
#include "engine/request_table.h"
#include "engine/step_failure.h"

namespace cheetah {

struct CrashScene {
  const EngineConfig& config;
  double time_s = 0;  // since the engine started
  EngineStats stats;
  const DecisionLog& decisions;
  const RequestTable& requests;
};

// One JSON object.
std::string crash_bundle(const EngineFault& fault, const CrashScene& scene);

// As a file of its own in `folder`, which is made where it is missing. Throws Error. Returns its path.
std::string write_crash_bundle(const std::string& folder, const EngineFault& fault);

}  // namespace cheetah

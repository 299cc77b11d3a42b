// SPDX-License-Identifier: MIT
#pragma once
// cheetah bench engine --scenario: the whole engine under a load, seen from its clients.
#include <string>
#include <vector>

#include "cli/engine_options.h"

namespace cheetah {

struct ScenarioOptions {
  EngineOptions engine;
  std::string name;
  std::vector<int64_t> streams = {1};
  int64_t prompt_tokens = 32;
  int64_t new_tokens = 128;
  int64_t long_prompt_tokens = 4096;
  int64_t generations = 1000;
  int64_t repeats = 3;
  int64_t draft_max = 8;
  double step_target_ms = 50;
  std::string json;
};

std::vector<std::string> scenario_names();
int run_scenario(const ScenarioOptions& options);

}  // namespace cheetah

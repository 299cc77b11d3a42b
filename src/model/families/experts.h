// SPDX-License-Identifier: MIT
#pragma once
// Experts as DeepSeek names them in its configs: dense first layers, routed and shared experts, groups.
#include "model/families/config.h"

namespace cheetah {

struct ExpertDefaults {
  int64_t experts = 256;
  int64_t hidden = 1407;
  int64_t shared = 0;
  int64_t dense_layers = 0;
};
void read_routed_experts(const Config& config, const ExpertDefaults& defaults, ModelTraits& traits);

void read_expert_groups(const Config& config, int64_t groups, int64_t top_groups, MoeTraits& moe);

// Scores by sigmoid, experts chosen with a correction, groups by their two best.
void read_corrected_routing(const Config& config, FamilyModel& model);

}  // namespace cheetah

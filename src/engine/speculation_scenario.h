// SPDX-License-Identifier: MIT
#pragma once
// The same texts with and without drafts: are the tokens the same, and how much sooner do they come?
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cheetah {

enum class DraftText {
  kStories,  // sampled texts of the model, begun in many ways
  kCopying,  // greedy, and the client predicts the answer but for every tenth token, as when a text is edited
  kNoise,    // random prompts, sampled at a high temperature: nothing comes twice
};
std::string name_of(DraftText text);

struct SpeculationPlan {
  DraftText text = DraftText::kStories;
  int64_t streams = 1;
  int64_t new_tokens = 256;
  uint64_t seed = 1;
};

struct SpeculationResult {
  std::vector<std::vector<int32_t>> tokens;  // of each stream
  double decode_tokens_per_s = 0;            // from the last stream's first token to the first one's end
  uint64_t steps = 0;
  DraftStats drafts;
};

// `answers`: of the streams, as they came before; what kCopying predicts from.
SpeculationResult run_speculation(
    Engine& engine, const SpeculationPlan& plan, const std::vector<std::vector<int32_t>>& answers = {});

}  // namespace cheetah

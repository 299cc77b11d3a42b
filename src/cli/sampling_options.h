// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/generation.h"

namespace CLI {
class App;
}

namespace cheetah {

// How tokens are chosen, as typed; what was not typed comes from the model's generation_config.json, then
// from our defaults.
struct SamplingOptions {
  std::optional<float> temperature = {};
  std::optional<float> top_p = {};
  std::optional<float> min_p = {};
  std::optional<float> repetition_penalty = {};
  std::optional<float> frequency_penalty = {};
  std::optional<float> presence_penalty = {};
  std::optional<int64_t> top_k = {};
  SamplingParams samplers = {};  // those that models do not advise on: from typical_p to mirostat
  float typical_p = 1.f;
  int64_t mirostat = 0;
  std::vector<std::string> dry_breakers = {};  // none given: the usual ones
  std::optional<uint64_t> seed = {};
  std::vector<std::string> stops = {};
  bool ignore_end = false;
  int64_t max_tokens = 256;
};

void add_sampling_options(CLI::App& command, SamplingOptions& options);

// model_path: where generation_config.json may be. A missing seed is drawn from the system.
GenerationParams resolve(const SamplingOptions& options, const std::string& model_path);

}  // namespace cheetah

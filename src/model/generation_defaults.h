// SPDX-License-Identifier: MIT
#pragma once
// How a model's makers say its tokens should be chosen: generation_config.json, or general.sampling.* of a GGUF file.
#include <cstdint>
#include <optional>
#include <string>

namespace cheetah {

struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;           // 0: all
  std::optional<int64_t> max_new_tokens;  // how long an answer may be

  bool operator==(const GenerationDefaults&) const = default;
};

// Of the model at `path`; empty where it says nothing. Throws Error naming the file and the field for a value that is
// out of range.
GenerationDefaults read_generation_defaults(const std::string& path);

}  // namespace cheetah

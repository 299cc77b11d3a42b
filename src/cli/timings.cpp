// SPDX-License-Identifier: MIT
#include "cli/timings.h"

#include "base/format.h"

namespace cheetah {
namespace {

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

}  // namespace

std::string timings_text(const GenerationResult& result) {
  const int64_t computed = result.prompt_tokens - result.reused_tokens;
  const std::string reused = result.reused_tokens ? format(" ({} reused)", result.reused_tokens) : "";
  return format("prompt {} tokens{} at {:.1f} tokens/s, {} new tokens at {:.1f} tokens/s, finish: {}",
      result.prompt_tokens, reused, rate(computed, result.prompt_seconds), result.tokens.size(),
      rate(result.decode_steps, result.decode_seconds), name_of(result.reason));
}

Json timings_json(const GenerationResult& result) {
  const int64_t computed = result.prompt_tokens - result.reused_tokens;
  return {{"prompt_tokens", result.prompt_tokens}, {"reused_tokens", result.reused_tokens},
      {"prompt_seconds", result.prompt_seconds},
      {"prompt_tokens_per_second", rate(computed, result.prompt_seconds)},
      {"decode_tokens", result.decode_steps}, {"decode_seconds", result.decode_seconds},
      {"decode_tokens_per_second", rate(result.decode_steps, result.decode_seconds)}};
}

}  // namespace cheetah

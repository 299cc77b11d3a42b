// SPDX-License-Identifier: MIT
#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/format.h"
#include "cli/numbers.h"
#include "model/generation_defaults.h"

namespace cheetah {
namespace {

// Also refuses NaN, which CLI11's own range check lets through.
void add_number(CLI::App& command, const char* flag, std::optional<float>& value, double low, double high,
    const char* help) {
  command.add_option(flag, value, help)->check([=](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && number >= low && number <= high) return std::string();
    return format("'{}' is not a number from {} to {}", printable(text), low, high);
  });
}

}  // namespace

void add_sampling_options(CLI::App& command, SamplingOptions& options) {
  accept_counts(command.add_option("-n,--max-tokens", options.max_tokens, "stop after this many new tokens")
                    ->capture_default_str(),
      0, int64_t{1} << 30);
  add_number(command, "--temperature,--temp", options.temperature, 0, 100,
      "0 takes the likeliest token (default 0.8)");
  accept_counts(
      command.add_option("--top-k", options.top_k, "choose among the k likeliest; 0: all (default 40)"), 0,
      int64_t{1} << 30);
  add_number(
      command, "--top-p", options.top_p, 0, 1, "… among the likeliest that together reach p (default 0.95)");
  add_number(
      command, "--min-p", options.min_p, 0, 1, "… among those at least p times the likeliest (default 0)");
  add_number(
      command, "--repetition-penalty", options.repetition_penalty, 0.01, 100, "divide logits of seen tokens");
  add_number(command, "--frequency-penalty", options.frequency_penalty, -100, 100, "subtract per occurrence");
  add_number(command, "--presence-penalty", options.presence_penalty, -100, 100, "subtract from seen tokens");
  command.add_option("--seed", options.seed, "same seed, same text (default: a new one each time)");
  command.add_option("--stop", options.stops, "end before this text; may be given several times")
      ->expected(1)
      ->take_all();
  command.add_flag("--ignore-eos", options.ignore_end, "go on past the model's end token");
}

GenerationParams resolve(const SamplingOptions& options, const std::string& model_path) {
  const GenerationDefaults advised = read_generation_defaults(model_path);
  GenerationParams params;
  params.max_tokens = options.max_tokens;
  params.stops = options.stops;
  params.ignore_end = options.ignore_end;
  params.seed = options.seed ? *options.seed : std::random_device{}();
  SamplingParams& sampling = params.sampling;
  sampling.temperature = options.temperature.value_or(advised.temperature.value_or(0.8f));
  sampling.top_p = options.top_p.value_or(advised.top_p.value_or(0.95f));
  sampling.min_p = options.min_p.value_or(advised.min_p.value_or(0.f));
  sampling.top_k = options.top_k.value_or(advised.top_k.value_or(40));
  sampling.repetition_penalty = options.repetition_penalty.value_or(advised.repetition_penalty.value_or(1.f));
  sampling.frequency_penalty = options.frequency_penalty.value_or(0.f);
  sampling.presence_penalty = options.presence_penalty.value_or(0.f);
  return params;
}

}  // namespace cheetah

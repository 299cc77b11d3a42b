// SPDX-License-Identifier: MIT
#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <random>

#include "base/error.h"
#include "base/format.h"
#include "cli/numbers.h"
#include "model/dry_breakers.h"
#include "model/generation_defaults.h"

namespace cheetah {
namespace {

// Also refuses NaN, which CLI11's own range check lets through.
template <class Value>
void add_number(
    CLI::App& command, const char* flag, Value& value, double low, double high, const char* help) {
  CLI::Option* const option = command.add_option(flag, value, help);
  if constexpr (std::is_same_v<Value, float>) option->capture_default_str();
  option->check([=](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && number >= low && number <= high) return std::string();
    return format("'{}' is not a number from {} to {}", printable(text), low, high);
  });
}

// Under llama.cpp's names.
void add_samplers(CLI::App& command, SamplingOptions& options) {
  SamplingParams& samplers = options.samplers;
  constexpr int64_t kMostTokens = int64_t{1} << 30;
  add_number(command, "--typical-p,--typical", options.typical_p, 0.001, 1,
      "… among those of about the expected surprise that together reach p; 1: all");
  add_number(command, "--top-n-sigma,--top-nsigma", samplers.top_n_sigma, -1, 1000,
      "… among those within n standard deviations of the best logit; 0: all");
  add_number(command, "--xtc-probability", samplers.xtc_probability, 0, 1,
      "how often XTC takes out the likeliest tokens; 0: never");
  add_number(command, "--xtc-threshold", samplers.xtc_threshold, 0, 1,
      "… all but the least of those at least this likely; above 0.5: none");
  add_number(command, "--dry-multiplier", samplers.dry.multiplier, 0, 100,
      "subtract from tokens that would lengthen a repetition; 0: off (try 0.8)");
  add_number(command, "--dry-base", samplers.dry.base, 1, 100, "… times this for each token repeated");
  accept_counts(
      command
          .add_option("--dry-allowed-length", samplers.dry.allowed_length, "… beyond so many repeated tokens")
          ->capture_default_str(),
      0, kMostTokens);
  accept_counts(command
                    .add_option("--dry-penalty-last-n", samplers.dry.last_n,
                        "… looking at so many tokens before; -1: all")
                    ->capture_default_str(),
      -1, kMostTokens);
  command
      .add_option("--dry-sequence-breaker", options.dry_breakers,
          "text that no repetition crosses; may be given several times (default: newline : \" *)")
      ->expected(1)
      ->take_all();
  add_number(command, "--dynatemp-range", samplers.dynatemp_range, 0, 100,
      "the temperature moves up to this far, down where the model is sure; 0: off");
  add_number(command, "--dynatemp-exponent,--dynatemp-exp", samplers.dynatemp_exponent, 0, 100,
      "how it follows the entropy");
  accept_counts(
      command
          .add_option("--mirostat", options.mirostat,
              "hold the text's surprise, in place of top-k, top-p and the like, by version 1 or 2; 0: off")
          ->capture_default_str(),
      0, 2);
  add_number(
      command, "--mirostat-tau,--mirostat-ent", samplers.mirostat_tau, 0, 100, "… at so many bits per token");
  add_number(command, "--mirostat-eta,--mirostat-lr", samplers.mirostat_eta, 0, 100, "… adjusting this fast");
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
  add_samplers(command, options);
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
  params.typical_p = options.typical_p;
  params.dry_breakers = options.dry_breakers.empty() ? kDryBreakers : options.dry_breakers;
  SamplingParams& sampling = params.sampling;
  sampling = options.samplers;
  sampling.mirostat = static_cast<Mirostat>(options.mirostat);
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

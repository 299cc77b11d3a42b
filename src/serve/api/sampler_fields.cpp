// SPDX-License-Identifier: MIT
#include "serve/api/sampler_fields.h"

#include "base/error.h"
#include "base/format.h"
#include "model/dry_breakers.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

constexpr size_t kMaxBreakers = 64;
constexpr size_t kMaxBreakerBytes = 40;

void read_number(Fields& fields, std::string_view name, FieldRange range, float& value) {
  if (const auto given = fields.number(name, range)) value = static_cast<float>(*given);
}

std::vector<std::string> read_breakers(Fields& fields) {
  constexpr std::string_view kName = "dry_sequence_breakers";
  const OrderedJson* values = fields.array(kName);
  if (!values) return kDryBreakers;
  if (values->size() > kMaxBreakers)
    refuse("invalid_value", fields.param(kName),
        format(
            "{} has {} items, more than the limit of {}", fields.param(kName), values->size(), kMaxBreakers));
  std::vector<std::string> texts;
  for (size_t i = 0; i < values->size(); ++i) {
    const OrderedJson& value = (*values)[i];
    const std::string param = format("{}[{}]", fields.param(kName), i);
    if (!value.is_string() || value.get_ref<const std::string&>().empty() ||
        value.get_ref<const std::string&>().size() > kMaxBreakerBytes)
      refuse("invalid_value", param,
          format("{} must be a string of 1..{} bytes, got {}", param, kMaxBreakerBytes, shown(value)));
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

void read_dry(Fields& fields, GenerationRequest& request) {
  DryParams& dry = request.sampling.dry;
  read_number(fields, "dry_multiplier", {0, 100}, dry.multiplier);
  read_number(fields, "dry_base", {1, 100}, dry.base);
  dry.allowed_length = fields.integer("dry_allowed_length", 0, INT32_MAX).value_or(dry.allowed_length);
  dry.last_n = fields.integer("dry_penalty_last_n", -1, INT32_MAX).value_or(dry.last_n);
  std::vector<std::string> breakers = read_breakers(fields);
  if (dry.is_on()) request.dry_breakers = std::move(breakers);
}

}  // namespace

void read_samplers(Fields& fields, GenerationRequest& request) {
  SamplingParams& sampling = request.sampling;
  read_number(fields, "typical_p", {0, 1, true}, request.typical_p);
  read_dry(fields, request);
  read_number(fields, "xtc_probability", {0, 1}, sampling.xtc_probability);
  read_number(fields, "xtc_threshold", {0, 1}, sampling.xtc_threshold);
  read_number(fields, "top_n_sigma", {-1, 1000}, sampling.top_n_sigma);
  read_number(fields, "dynatemp_range", {0, 100}, sampling.dynatemp_range);
  read_number(fields, "dynatemp_exponent", {0, 100}, sampling.dynatemp_exponent);
  sampling.mirostat = static_cast<Mirostat>(fields.integer("mirostat", 0, 2).value_or(0));
  read_number(fields, "mirostat_tau", {0, 100}, sampling.mirostat_tau);
  read_number(fields, "mirostat_eta", {0, 100}, sampling.mirostat_eta);
}

void append_samplers(const GenerationRequest& request, OrderedJson& settings) {
  const SamplingParams& sampling = request.sampling;
  settings["typical_p"] = request.typical_p;
  settings["dry_multiplier"] = sampling.dry.multiplier;
  settings["dry_base"] = sampling.dry.base;
  settings["dry_allowed_length"] = sampling.dry.allowed_length;
  settings["dry_penalty_last_n"] = sampling.dry.last_n;
  settings["dry_sequence_breakers"] = request.dry_breakers;
  settings["xtc_probability"] = sampling.xtc_probability;
  settings["xtc_threshold"] = sampling.xtc_threshold;
  settings["top_n_sigma"] = sampling.top_n_sigma;
  settings["dynatemp_range"] = sampling.dynatemp_range;
  settings["dynatemp_exponent"] = sampling.dynatemp_exponent;
  settings["mirostat"] = static_cast<int>(sampling.mirostat);
  settings["mirostat_tau"] = sampling.mirostat_tau;
  settings["mirostat_eta"] = sampling.mirostat_eta;
}

}  // namespace cheetah

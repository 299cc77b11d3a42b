// SPDX-License-Identifier: MIT
// The rotary embedding's fields: rope_parameters of transformers 5, rope_theta and rope_scaling before it.
#include <array>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "model/families/config.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxContext = int64_t{1} << 30;

constexpr std::array<std::pair<std::string_view, RopeScaling>, 7> kScalings = {{
    {"default", RopeScaling::kNone},
    {"linear", RopeScaling::kLinear},
    {"dynamic", RopeScaling::kDynamic},
    {"llama3", RopeScaling::kLlama3},
    {"yarn", RopeScaling::kYarn},
    {"longrope", RopeScaling::kLongrope},
    {"su", RopeScaling::kLongrope},
}};

const Json& empty_object() {
  static const Json kEmpty = Json::object();
  return kEmpty;
}

// The object that holds the scaling's fields.
const Json& scaling_object(const Config& config, std::string_view layer_type) {
  if (const Json* parameters = config.find("rope_parameters")) {
    if (!layer_type.empty() && parameters->is_object() && parameters->contains(layer_type)) {
      const Json& part = parameters->at(std::string(layer_type));
      return part.is_null() ? empty_object() : part;
    }
    return *parameters;
  }
  const Json* scaling = config.find("rope_scaling");
  return scaling ? *scaling : empty_object();
}

RopeScaling scaling_kind(const Config& fields) {
  const std::string_view name = fields.has("rope_type") ? "rope_type" : "type";
  const std::string wanted = fields.string_or(name, "default");
  std::string known;
  for (const auto& [text, kind] : kScalings) {
    if (text == wanted) return kind;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  fields.reject(name, "one of " + known);
}

int64_t original_context(const Config& config, const Config& fields) {
  constexpr std::string_view kName = "original_max_position_embeddings";
  const int64_t fallback = config.integer_or("max_position_embeddings", 2048, 1, kMaxContext);
  const int64_t inner = fields.integer_or(kName, fallback, 1, kMaxContext);
  return config.integer_or(kName, inner, 1, kMaxContext);
}

void read_llama3(const Config& fields, RopeConfig& rope) {
  rope.low_freq_factor = fields.positive("low_freq_factor");
  rope.high_freq_factor = fields.positive("high_freq_factor");
  if (!(rope.high_freq_factor > rope.low_freq_factor))
    fields.reject("high_freq_factor", format("a number above low_freq_factor = {}", rope.low_freq_factor));
}

void read_yarn(const Config& fields, RopeConfig& rope) {
  rope.beta_fast = fields.positive_or("beta_fast", 32.0);
  rope.beta_slow = fields.positive_or("beta_slow", 1.0);
  rope.truncate = fields.boolean_or("truncate", true);
  rope.mscale = fields.not_negative_or("mscale", 0.0);
  rope.mscale_all_dim = fields.not_negative_or("mscale_all_dim", 0.0);
}

void read_scaling(const Config& config, const Config& fields, RopeConfig& rope) {
  rope.scaling = scaling_kind(fields);
  if (rope.scaling == RopeScaling::kNone || rope.scaling == RopeScaling::kDynamic) return;
  rope.original_context = original_context(config, fields);
  const bool may_lack_factor = rope.scaling == RopeScaling::kYarn || rope.scaling == RopeScaling::kLongrope;
  const double grown =
      static_cast<double>(config.integer_or("max_position_embeddings", 2048, 1, kMaxContext)) /
      static_cast<double>(rope.original_context);
  rope.factor = may_lack_factor ? fields.positive_or("factor", grown) : fields.positive("factor");
  if (fields.has("attention_factor")) rope.attention_factor = fields.positive("attention_factor");
  if (rope.scaling == RopeScaling::kLlama3) read_llama3(fields, rope);
  if (rope.scaling == RopeScaling::kYarn) read_yarn(fields, rope);
  if (rope.scaling == RopeScaling::kLongrope) {
    rope.short_factors = fields.positives("short_factor", rope.rotary_dim / 2);
    rope.long_factors = fields.positives("long_factor", rope.rotary_dim / 2);
  }
}

int64_t checked_rotary_dim(const Config& config, int64_t head_dim, double part) {
  const auto dim = static_cast<int64_t>(static_cast<double>(head_dim) * part);
  if (part > 1.0 || dim < 2 || dim % 2 != 0)
    throw Error(format("{}: {} rotary dimensions of {} in a head, expected an even number from 2",
        config.what(), dim, head_dim));
  return dim;
}

// Families that turn whole heads do not read partial_rotary_factor: with plain frequencies it means nothing,
// with scaled ones it would be a contradiction.
void check_whole_head(const Config& config, const Config& fields) {
  if (scaling_kind(fields) == RopeScaling::kNone) return;
  for (const Config* at : {&config, &fields})
    if (at->positive_or("partial_rotary_factor", 1.0) != 1.0)
      at->reject("partial_rotary_factor", "1: this family turns whole heads");
}

RopeTraits read_frequencies(
    const Config& config, const Config& fields, int64_t rotary_dim, double default_theta) {
  RopeConfig rope;
  rope.rotary_dim = rotary_dim;
  rope.theta = fields.has("rope_theta") ? fields.positive("rope_theta")
                                        : config.positive_or("rope_theta", default_theta);
  if (!(rope.theta > 1.0)) config.reject("rope_theta", "a number above 1");
  read_scaling(config, fields, rope);
  return make_rope(rope);
}

}  // namespace

RopeTraits read_rope(
    const Config& config, int64_t head_dim, double default_theta, std::string_view layer_type) {
  const Config fields(scaling_object(config, layer_type), config.what() + ": rope");
  check_whole_head(config, fields);
  return read_frequencies(config, fields, checked_rotary_dim(config, head_dim, 1.0), default_theta);
}

RopeTraits read_partial_rope(
    const Config& config, int64_t head_dim, double default_theta, double default_part) {
  const Config fields(scaling_object(config, ""), config.what() + ": rope");
  const double outer = config.positive_or("partial_rotary_factor", default_part);
  const double part = fields.positive_or("partial_rotary_factor", outer);
  return read_frequencies(config, fields, checked_rotary_dim(config, head_dim, part), default_theta);
}

double read_mscale_correction(const Config& config) {
  const Config fields(scaling_object(config, ""), config.what() + ": rope");
  if (scaling_kind(fields) != RopeScaling::kYarn) return 1.0;
  const double all_dim = fields.not_negative_or("mscale_all_dim", 0.0);
  if (all_dim == 0.0) return 1.0;
  const double mscale = yarn_mscale(fields.positive_or("factor", 1.0), all_dim);
  return mscale * mscale;
}

}  // namespace cheetah

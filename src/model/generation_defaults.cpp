// SPDX-License-Identifier: MIT
#include "model/generation_defaults.h"

#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "model/files/gguf.h"
#include "model/files/model_directory.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

struct Range {
  double low, high;
  bool above_low = false;
};
constexpr Range kTemperature{0, 100}, kTopP{0, 1, true}, kMinP{0, 1}, kRepetition{0, 100, true};

std::optional<float> checked(
    std::optional<double> value, const Range& range, const std::string& what, std::string_view name) {
  if (!value) return std::nullopt;
  if (*value > range.low - (range.above_low ? 0 : 1e-12) && *value <= range.high)
    return static_cast<float>(*value);
  throw Error(
      format("{}: {} is {}, expected a number {} {} and at most {}; --generation-config none ignores it",
          what, name, *value, range.above_low ? "above" : "of at least", range.low, range.high));
}

GenerationDefaults from_json(const Json& json, const std::string& what) {
  const JsonFields fields(json, what);
  const auto number = [&](const char* name, const Range& range) {
    return checked(fields.has(name) ? std::optional(fields.number(name)) : std::nullopt, range, what, name);
  };
  GenerationDefaults defaults{.temperature = number("temperature", kTemperature),
      .top_p = number("top_p", kTopP),
      .min_p = number("min_p", kMinP),
      .repetition_penalty = number("repetition_penalty", kRepetition),
      .top_k = std::nullopt,
      .max_new_tokens = std::nullopt};
  if (fields.has("top_k")) defaults.top_k = std::max<int64_t>(0, fields.integer("top_k", -1, INT32_MAX));
  if (fields.has("max_new_tokens")) defaults.max_new_tokens = fields.integer("max_new_tokens", 1, INT64_MAX);
  return defaults;
}

GenerationDefaults from_gguf(const GgufFile& file) {
  const auto number = [&](const char* name, const Range& range) {
    const std::string key = format("general.sampling.{}", name);
    return checked(file.number(key), range, file.name(), key);
  };
  GenerationDefaults defaults{.temperature = number("temp", kTemperature),
      .top_p = number("top_p", kTopP),
      .min_p = number("min_p", kMinP),
      .repetition_penalty = number("penalty_repeat", kRepetition),
      .top_k = file.integer("general.sampling.top_k"),
      .max_new_tokens = std::nullopt};
  if (defaults.top_k && *defaults.top_k < 0) defaults.top_k = 0;
  return defaults;
}

}  // namespace

GenerationDefaults read_generation_defaults(const std::string& path) {
  constexpr const char* kName = "generation_config.json";
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const auto text = read_model_text(path, kName);
    if (!text) return {};
    const std::string what = (fs::path(path) / kName).string();
    return from_json(parse_json(*text, what), what);
  }
  if (path.ends_with(".gguf")) return from_gguf(GgufFile::open(path));
  const fs::path folder = fs::path(path).parent_path();
  return fs::is_regular_file(path, error) && !folder.empty() ? read_generation_defaults(folder.string())
                                                             : GenerationDefaults{};
}

}  // namespace cheetah
